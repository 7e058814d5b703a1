"""Notes and fates: data. A damaged note is none."""

from __future__ import annotations

import re
from string import ascii_letters, ascii_lowercase, digits

import pytest
from hypothesis import given
from hypothesis import strategies as st

from v010_adapter.events import turns
from v010_adapter.events.turns import DONE, FATES, MINE, PAST, REPEAT, Fate, Note, NoteState, Turn
from v010_adapter.state.turns_file import PLACE

from ..test_docs import DOCS

WORDS = st.text(ascii_letters, min_size=1, max_size=30)
IDS = st.text(ascii_lowercase + digits, min_size=1, max_size=110)
NOTE = Note(12345.678901234, "4194304.0123456789ab", NoteState.ANSWERED, f"PostUpdatePodSandbox ={'f' * 64}")


@given(st.floats(0, 1e9), st.sampled_from(NoteState), st.builds(" ".join, st.tuples(WORDS, IDS)))
def test_a_note_fits_its_place_and_says_what_it_said(at: float, state: NoteState, name: str) -> None:
    note = Note(at, "4194304.0123456789ab", state, name)
    place = note.encode()
    assert len(place) == PLACE
    assert Note.parse(place) == note


@pytest.mark.parametrize("byte", [b"\0", b"\xff", b" ", b"\n", b"x", b"9"])
def test_a_note_that_is_damaged_at_any_byte_is_another_one_or_none(byte: bytes) -> None:
    place = NOTE.encode()
    for at in range(PLACE):
        note = Note.parse(place[:at] + byte + place[at + 1 :])
        assert note is None or isinstance(note.state, NoteState)


@pytest.mark.parametrize(
    "place", [b"", b"\0" * PLACE, b"\xff" * PLACE, b"1.0 me begun StartContainer", b"x me begun a b"]
)
def test_no_note_is_none(place: bytes) -> None:
    assert Note.parse(place) is None


@pytest.mark.parametrize(
    ("note", "at", "state", "event", "fate"),
    [
        ("StartContainer c1", 2.0, "begun", "StartContainer c1", REPEAT),
        ("StartContainer c1", 1.0, "begun", "StartContainer c1", MINE),
        ("StartContainer c1", 2.0, "begun", "StopContainer c1", MINE),
        ("StartContainer c1", 2.0, "begun", "StartContainer c2", MINE),
        ("StartContainer c1", 4.0, "failed", "StartContainer c1", MINE),
        ("StartContainer c1", 5.0, "failed", "StartContainer c1", PAST),
        ("StartContainer c1", 5.0, "answered", "StartContainer c1", DONE),
        ("StopContainer c1", 4.0, "begun", "StartContainer c1", PAST),
        ("StartContainer c1", 4.0, "failed", "StopContainer c1", PAST),
        ("StopContainer c1", 4.0, "begun", "StartContainer c2", MINE),
    ],
)
def test_a_note_is_for_its_event_or_for_a_later_one_of_the_id(
    note: str, at: float, state: str, event: str, fate: object
) -> None:
    method, id_ = event.split()
    turn = Turn(method, "pod", id_, at=3.0, quiet_at=0.0, deadline=5.0, floor=1.0, later=3.0)
    told = Note(at, "7.aa", NoteState(state), note).counted_for(turn)
    assert FATES[told and told.state] is fate


def test_the_page_for_developers_and_the_theory_have_this_table() -> None:
    names = {"none": None, **{state.name: state for state in NoteState}}
    for text in ((DOCS / "development.md").read_text(), turns.__doc__ or ""):
        rows = re.findall(r"^\W*(none|[A-Z]+)\b[ a-z]*\W+(MINE|REPEAT|DONE|PAST)\b", text, re.MULTILINE)
        assert {names[note]: Fate[fate] for note, fate in rows} == dict(FATES)
