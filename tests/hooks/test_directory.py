"""Which hook files are in force: names, masking, versions, and what counts as a change."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from adapter import paths
from adapter.hooks.directory import Directories
from tests.hooks.hookdirs import Reads, in_force, later, opened, problems, relink, replace, text

GOOD, BAD, EMPTY, NULL = "good", b"{", b"", "a link to /dev/null"


@pytest.fixture
def places(tmp_path: Path) -> list[Path]:
    """Three directories in order of increasing preference."""
    places = [tmp_path / name for name in ("vendor", "site", "local")]
    for place in places:
        place.mkdir()
    return places


def put(path: Path, content: str | bytes) -> None:
    path.unlink(missing_ok=True)
    if content == NULL:
        path.symlink_to("/dev/null")
    else:
        path.write_bytes(content if isinstance(content, bytes) else text(path.parent.name))


# What is in vendor, site and local under one name, and whose hook is in force.
MASKING: list[tuple[list[str | bytes | None], str | None]] = [
    ([None, None, None], None),
    ([GOOD, None, None], "vendor"),
    ([None, GOOD, None], "site"),
    ([GOOD, GOOD, None], "site"),
    ([GOOD, None, GOOD], "local"),
    ([GOOD, GOOD, GOOD], "local"),
    ([GOOD, BAD, None], "vendor"),
    ([GOOD, BAD, BAD], "vendor"),
    ([BAD, GOOD, BAD], "site"),
    ([GOOD, b" ", None], "vendor"),
    ([GOOD, EMPTY, None], None),
    ([GOOD, NULL, None], None),
    ([GOOD, EMPTY, BAD], None),
    ([GOOD, EMPTY, GOOD], "local"),
    ([EMPTY, GOOD, NULL], None),
    ([EMPTY, BAD, GOOD], "local"),
]


@pytest.mark.parametrize("watch", [True, False], ids=["watched", "read once"])
@pytest.mark.parametrize(("contents", "expected"), MASKING, ids=[str(contents) for contents, _ in MASKING])
def test_a_good_or_an_empty_file_hides_those_of_less_preference_and_a_bad_one_hides_nothing(
    places: list[Path], contents: list[str | bytes | None], expected: str | None, watch: bool
) -> None:
    for place, content in zip(places, contents, strict=True):
        if content is not None:
            put(place / "x.json", content)
    directories = opened(list(map(str, places)), watch=watch, now=later if watch else time.time_ns)
    assert in_force(directories) == ({"x.json": expected} if expected else {})


@pytest.mark.parametrize("backwards", [False, True], ids=["vendor first", "local first"])
@pytest.mark.parametrize(("contents", "expected"), MASKING, ids=[str(contents) for contents, _ in MASKING])
def test_masking_does_not_depend_on_the_order_in_which_files_come_and_go(
    places: list[Path], contents: list[str | bytes | None], expected: str | None, backwards: bool
) -> None:
    directories = opened(list(map(str, places)), now=later)
    files = [
        (place / "x.json", content) for place, content in zip(places, contents, strict=True) if content is not None
    ]
    for path, content in reversed(files) if backwards else files:
        put(path, content)
        directories.current()
    assert in_force(directories) == ({"x.json": expected} if expected else {})
    for path, _ in files:
        path.unlink()
        directories.current()
    assert in_force(directories) == {}
    assert directories.problems == []


def test_only_names_that_end_in_lower_case_json_count(tmp_path: Path) -> None:
    directories = opened([str(tmp_path)])
    for name in ("a.json", ".hidden.json", ".json", "B.json", "a.JSON", "a.json.bak", "a.json~", "json", "a.jsonx"):
        (tmp_path / name).write_bytes(text())
        directories.current()
    expected = {"a.json", ".hidden.json", ".json", "B.json"}
    assert in_force(directories).keys() == in_force(opened([str(tmp_path)])).keys() == expected


def test_names_that_are_no_utf8_and_names_with_line_breaks_work_and_can_be_printed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directories = opened([str(tmp_path)])
    for name in (b"\xff.json", b"a\n.json", "ü.json".encode()):
        with open(os.fsencode(tmp_path) + b"/" + name, "wb") as file:
            file.write(text(len(name)))
    assert in_force(directories) == {"\udcff.json": "6", "a\n.json": "7", "ü.json": "7"}
    for name in (b"\xff.json", b"a\n.json"):
        with open(os.fsencode(tmp_path) + b"/" + name, "wb") as file:
            file.write(b"{")
    assert problems(directories).keys() == {"\\udcff.json", "a\\n.json"}
    assert all(path.isprintable() for path, _ in directories.problems)
    assert not any("\n" in record.getMessage() for record in caplog.records)


def test_the_same_directory_may_be_given_twice_and_as_a_link(tmp_path: Path) -> None:
    place = tmp_path / "hooks.d"
    place.mkdir()
    (tmp_path / "link").symlink_to(place)
    directories = opened([str(place), str(place), str(tmp_path / "link")])
    (place / "x.json").write_bytes(text(1))
    assert in_force(directories) == {"x.json": "1"}
    (place / "x.json").write_bytes(text(2))
    assert in_force(directories) == {"x.json": "2"}
    (place / "x.json").unlink()
    assert in_force(directories) == {}


def anew(path: Path, make: Callable[[], object]) -> None:
    path.unlink()
    make()


# A change of one file, and the version in force then; 1 is there before.
CHANGES: dict[str, tuple[Callable[[Path], object], str | None]] = {
    "written anew": (lambda path: path.write_bytes(text(2)), "2"),
    "replaced": (lambda path: replace(path, text(2)), "2"),
    "replaced by a link": (lambda path: relink(path, path.parent.parent / "elsewhere"), "elsewhere"),
    "deleted": (lambda path: path.unlink(), None),
    "renamed away": (lambda path: path.rename(path.parent.parent / "away"), None),
    "renamed to no hook file's name": (lambda path: path.rename(path.with_suffix(".off")), None),
    "emptied, which a writer does first": (lambda path: path.write_bytes(b""), "1"),
    "cut off with a version that was good": (lambda path: os.truncate(path, 5), "1"),
    "broken": (lambda path: path.write_bytes(b"{"), "1"),
    "replaced by a broken one": (lambda path: replace(path, b"{"), "1"),
    "deleted and made anew, broken": (lambda path: anew(path, lambda: path.write_bytes(b"{")), "1"),
    "renamed away and made anew, broken": (
        lambda path: path.rename(path.with_suffix("")) and path.write_bytes(b"{"),
        "1",
    ),
    "replaced by a link to nothing": (lambda path: relink(path, "nothing"), None),
    "replaced by a link to itself": (lambda path: relink(path, path.name), None),
    "replaced by a directory": (lambda path: anew(path, path.mkdir), "1"),
    "replaced by a link to /dev/null": (lambda path: relink(path, "/dev/null"), None),
    "replaced by a link to a device": (lambda path: relink(path, "/dev/zero"), "1"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_counts_at_once(tmp_path: Path, change: str) -> None:
    (tmp_path / "elsewhere").write_bytes(text("elsewhere"))
    (tmp_path / "hooks.d").mkdir()
    path = tmp_path / "hooks.d" / "x.json"
    path.write_bytes(text(1))
    directories = opened([str(path.parent)])
    assert in_force(directories) == {"x.json": "1"}
    do, expected = CHANGES[change]
    do(path)
    assert in_force(directories) == ({"x.json": expected} if expected else {})
    if not path.is_dir():
        path.unlink(missing_ok=True)
        replace(path, text(3))
        assert in_force(directories) == {"x.json": "3"}
        assert directories.problems == []


def test_a_file_that_is_still_open_for_writing_counts_once_it_is_complete(tmp_path: Path) -> None:
    directories = opened([str(tmp_path)])
    whole = text()
    with open(tmp_path / "x.json", "wb", buffering=0) as file:
        for end in range(1, len(whole)):
            file.write(whole[end - 1 : end])
            assert in_force(directories) == {}
        file.write(whole[-1:])
        assert in_force(directories) == {"x.json": "1"}


@pytest.mark.parametrize("kind", ["a file", "a link", "one of two names"])
def test_while_a_file_is_written_anew_its_last_good_version_is_in_force(tmp_path: Path, kind: str) -> None:
    place, elsewhere = tmp_path / "hooks.d", tmp_path / "elsewhere"
    place.mkdir()
    elsewhere.write_bytes(text(1))
    if kind == "a link":
        (place / "x.json").symlink_to(elsewhere)
    elif kind == "one of two names":
        (place / "x.json").hardlink_to(elsewhere)
    else:
        elsewhere = elsewhere.rename(place / "x.json")
    directories = opened([str(place)])
    assert in_force(directories) == {"x.json": "1"}
    whole = text(2)
    with open(elsewhere, "wb", buffering=0) as file:
        for end in range(len(whole)):
            assert in_force(directories) == {"x.json": "1"}, "emptied by its writer, it is not meant to hide others"
            file.write(whole[end : end + 1])
        assert in_force(directories) == {"x.json": "2"}


def test_while_an_override_is_written_for_the_first_time_it_hides_nothing(tmp_path: Path) -> None:
    vendor, site = tmp_path / "vendor", tmp_path / "site"
    vendor.mkdir()
    site.mkdir()
    (vendor / "x.json").write_bytes(text(1))
    directories = opened([str(vendor), str(site)])
    with open(site / "x.json", "wb", buffering=0) as file:
        assert in_force(directories) == {"x.json": "1"}
        file.write(text(2))
        assert in_force(directories) == {"x.json": "2"}


@pytest.mark.parametrize("before", [None, text("site")], ids=["new", "good before"])
def test_an_empty_file_masks_once_it_is_a_second_old(places: list[Path], before: bytes | None) -> None:
    now = [0]
    (places[0] / "x.json").write_bytes(text("vendor"))
    path = places[1] / "x.json"
    if before is not None:
        path.write_bytes(before)
    directories = opened(list(map(str, places)), now=lambda: now[0])
    expected = in_force(directories)
    path.write_bytes(b"")
    emptied = path.stat().st_ctime_ns
    for now[0] in (emptied, emptied + 100_000_000, emptied + 999_999_999):
        assert in_force(directories) == expected
    now[0] = emptied + 1_000_000_000
    assert in_force(directories) == {}
    path.write_bytes(text("new"))
    assert in_force(directories) == {"x.json": "new"}


def test_where_the_clock_was_set_back_an_empty_file_masks_at_once(places: list[Path]) -> None:
    (places[0] / "x.json").write_bytes(text("vendor"))
    (places[1] / "x.json").touch()
    directories = opened(list(map(str, places)), now=lambda: (places[1] / "x.json").stat().st_ctime_ns - 1)
    assert in_force(directories) == {}


def test_nothing_is_read_before_it_is_asked_for_and_then_only_what_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.json").write_bytes(text(1))
    reads = Reads(monkeypatch)
    directories = Directories([str(tmp_path)], now=later)
    assert reads.opened == []
    assert in_force(directories).keys() == {"a.json", "b.json", "c.json"}
    reads.opened.clear()
    (tmp_path / "b.json").write_bytes(text(22))
    for _ in range(3):
        assert in_force(directories)["b.json"] == "22"
    assert reads.opened == ["b.json"]


@pytest.mark.parametrize(("age", "version"), [(50_000_000, "2"), (50_000_001, "1")], ids=["same tick", "later"])
def test_a_file_read_in_the_tick_of_its_change_is_read_again_however_its_status_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age: int, version: str
) -> None:
    monkeypatch.setattr(paths, "identity", lambda status: ())
    path = tmp_path / "x.json"
    path.write_bytes(text(1))
    directories = opened([str(tmp_path)], now=lambda: path.stat().st_ctime_ns + age)
    path.write_bytes(text(2))
    assert in_force(directories) == {"x.json": version}


def test_a_broken_file_that_was_empty_goes_on_hiding(tmp_path: Path) -> None:
    vendor, site = tmp_path / "vendor", tmp_path / "site"
    vendor.mkdir()
    site.mkdir()
    (vendor / "x.json").write_bytes(text(1))
    (site / "x.json").touch()
    directories = opened([str(vendor), str(site)], now=later)
    (site / "x.json").write_bytes(b"{")
    assert in_force(directories) == {}
    assert problems(directories)["x.json"].endswith("the last good version stays in force")
    (site / "x.json").unlink()
    assert in_force(directories) == {"x.json": "1"}


def test_a_change_that_leaves_size_and_times_as_they_were_counts(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(text(1))
    os.utime(path, ns=(10**18, 10**18))
    directories = opened([str(tmp_path)])
    path.write_bytes(text(2))
    os.utime(path, ns=(10**18, 10**18))
    assert in_force(directories) == {"x.json": "2"}


def test_one_changed_file_among_a_thousand_is_the_only_one_that_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1000):
        (tmp_path / f"{number}.json").write_bytes(text(1))
    directories = opened([str(tmp_path)], now=later)
    assert directories.files_read == 1000
    reads = Reads(monkeypatch)
    (tmp_path / "500.json").write_bytes(text(22))
    reads.opened.clear()
    assert in_force(directories)["500.json"] == "22"
    assert reads.opened == ["500.json"]
    assert directories.files_read == 1001


def test_a_change_that_changes_no_hook_keeps_the_matcher(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(text(1))
    directories = opened([str(tmp_path)], now=later)
    matcher = directories.current()
    (tmp_path / "x.json").write_bytes(text(1) + b"\n")
    (tmp_path / "bad.json").write_bytes(b"{")
    os.utime(tmp_path / "x.json")
    assert directories.current() is matcher
    assert directories.files_read == 3


def test_without_watch_everything_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.json").write_bytes(text(1))
    directories = opened([str(tmp_path)], watch=False)
    (tmp_path / "x.json").write_bytes(text(2))
    (tmp_path / "y.json").write_bytes(text(2))
    reads = Reads(monkeypatch)
    assert in_force(directories) == {"x.json": "1"}
    assert reads.opened == []


def test_stages_of_others_are_accepted_where_they_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(text(1).replace(b"prestart", b"precreate"))
    assert in_force(opened([str(tmp_path)])) == {}
    assert in_force(opened([str(tmp_path)], precreate=True)) == {"x.json": "1"}


def test_a_bad_file_is_logged_when_it_becomes_bad_and_when_it_is_good_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    path = tmp_path / "x.json"
    directories = opened([str(tmp_path)])

    def logged() -> list[str]:
        lines = [record.getMessage() for record in caplog.records if record.getMessage().startswith(str(path))]
        caplog.clear()
        return lines

    path.write_bytes(text(1))
    assert (in_force(directories), logged()) == ({"x.json": "1"}, [])
    with open(path, "wb", buffering=0) as file:
        for _ in range(5):
            file.write(b"?")
            directories.current()
    os.utime(path)
    (tmp_path / "another.json").write_bytes(b"{")
    directories.current()
    assert logged() == [f"{path}: line 1, column 1: unexpected '?'; the last good version stays in force"]
    path.write_bytes(b"[")
    directories.current()
    assert logged() == [f"{path}: line 1, column 2: unexpected end; the last good version stays in force"]
    path.write_bytes(text(1))
    directories.current()
    assert logged() == [f"{path}: no error any more"]
    (tmp_path / "another.json").unlink()
    directories.current()
    assert logged() == []
