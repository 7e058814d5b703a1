"""A state directory that others have prepared: nothing of theirs is believed, nothing elsewhere is overwritten."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from v010_adapter.events.turns import Turns
from v010_adapter.host.trust import Trust, off, strict
from v010_adapter.legacy.config import Entry
from v010_adapter.legacy.request import Target
from v010_adapter.state.ledger import Ledger
from v010_adapter.state.runtime_directory import RuntimeDirectory

from .rig.loop import SteppedLoop
from .rig.users import GIVES_FILES, NOBODY
from .test_trust_of_others import MASK, USER, set_acl


@pytest.fixture
def state(tmp_path: Path) -> Path:
    tmp_path.chmod(0o1777)  # as /tmp is, which TMPDIR need not be below
    (tmp_path / "victim").write_text("precious")
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    return state


RUNTIME = "test"
"""Its directory is `STATE/test.` and a word for the boot."""


def directory(state: Path, trust: Trust = strict) -> RuntimeDirectory:
    return RuntimeDirectory(str(state), RUNTIME, trust)


def fault(state: Path, trust: Trust = strict) -> str:
    """Why the runtime's directory is not used, without the paths."""
    made = directory(state, trust)
    made.open()
    made.close()
    text = made.fault.replace(made.path, "OWN").replace(f"{state}", "STATE")
    return text.removesuffix(": what is owed is forgotten with this process (state.directory)")


def own(state: Path) -> Path:
    """The runtime's directory, which is not made."""
    return Path(directory(state).path)


def owned(state: Path) -> None:
    own(state).mkdir()
    os.chown(own(state), NOBODY, 0)


Prepare = Callable[[Path], object]
PREPARED: dict[str, tuple[Prepare, str, bool]] = {
    # what somebody has prepared: why nothing is opened, and whether that holds with `trust: off` too
    "nothing": (lambda state: None, "", False),
    "a directory that anybody can write to": (
        lambda state: state.chmod(0o777),
        "STATE: STATE is world-writable",
        False,
    ),
    "a sticky directory": (lambda state: state.chmod(0o1777), "STATE: is world-writable", False),
    "a directory of another user": (
        lambda state: os.chown(state, NOBODY, 0),
        f"STATE: STATE belongs to user {NOBODY}",
        False,
    ),
    "a link": (lambda state: own(state).symlink_to(state.parent), "OWN: Not a directory", True),
    "a runtime's directory of another user": (owned, f"OWN: OWN belongs to user {NOBODY}", False),
}


@GIVES_FILES
@pytest.mark.parametrize("prepared", PREPARED)
def test_what_somebody_has_prepared_is_refused_and_nothing_is_written(prepared: str, state: Path) -> None:
    prepare, expected, is_always_refused = PREPARED[prepared]
    prepare(state)
    assert fault(state) == expected
    assert fault(state, trust=off) == (expected if is_always_refused else "")
    assert (state.parent / "victim").read_text() == "precious"


@GIVES_FILES
def test_another_owner_is_an_error_also_where_other_files_get_a_warning(state: Path) -> None:
    set_acl(state, (USER, 7, NOBODY), (MASK, 7, 0))
    assert fault(state, trust=lambda path, root: "") == f"STATE: is writable for user {NOBODY}"
    os.chown(state, NOBODY, 0)
    assert fault(state, trust=lambda path, root: "") == f"STATE: belongs to user {NOBODY}"


@pytest.mark.parametrize("mode", [0o770, 0o1770])
def test_a_directory_that_a_group_can_write_to_is_used_and_told(
    mode: int, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Below a sticky one nobody replaces root's files, but whoever makes the runtime's directory has it refused."""
    state.chmod(mode)
    assert (fault(state), fault(state)) == ("", "")
    assert caplog.messages == [f"trust: {state} is writable for group {os.getegid()}"]
    assert fault(state, trust=off) == ""


def test_a_planted_link_is_not_written_to_and_told(state: Path, caplog: pytest.LogCaptureFixture) -> None:
    own(state).mkdir()
    for name in ("turns", "+pod+c1"):
        (own(state) / name).symlink_to("../../victim")
    loop = SteppedLoop()
    turns = Turns(directory(state), loop.time)
    target = Target.restored("c1", "pod", 0, "", spec=b"null", labels=b"{}")
    Ledger(loop, turns.directory).add(target, Entry("good", 0, "0.1", None))
    assert (state.parent / "victim").read_text() == "precious"
    assert not (own(state) / "+pod+c1").is_symlink(), "a record is replaced"
    assert caplog.messages == [
        f"{own(state)}/turns: Too many levels of symbolic links: "
        "what is owed is forgotten with this process (state.directory)"
    ]


def linked(path: Path) -> None:
    os.link(path, path.with_name("second"))


def replaced(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@GIVES_FILES
@pytest.mark.parametrize("name", ["turns", "+pod+c1"])
@pytest.mark.parametrize(
    ("spoil", "reason", "is_always"),
    [
        (lambda path: path.chmod(0o602), "is writable for others", False),
        (lambda path: path.chmod(0o660), "is writable for others", False),
        (lambda path: os.chown(path, NOBODY, 0), f"belongs to user {NOBODY}", False),
        (linked, "has another hard link", True),
        (replaced, "is no regular file", True),
    ],
)
def test_a_file_that_others_could_have_written_is_not_believed(
    name: str, spoil: Prepare, reason: str, is_always: bool, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loop = SteppedLoop()
    target = Target.restored("c1", "pod", 0, "", spec=b"null", labels=b"{}")
    before = Turns(directory(state), loop.time)
    Ledger(loop, before.directory).add(target, Entry("good", 0, "0.1", None))
    loop.settle()
    before._file.close()
    spoil(own(state) / name)
    for trust in (off, strict):
        caplog.clear()
        turns = Turns(directory(state, trust), loop.time)
        ledger = Ledger(loop, turns.directory)
        is_believed = trust is off and not is_always
        if name == "turns":
            assert (reason in turns.fault) is not is_believed
        else:
            loop.settle()
            assert ledger.ids() == (["c1"] if is_believed else [])
            assert (f"{own(state)}/{name}: {reason}: it is not used" in caplog.messages) is not is_believed
            if not is_believed:
                break
        turns._file.close()


def test_the_mark_of_a_state_directory_that_was_removed_is_made_again(state: Path) -> None:
    """Else the next adapter counts what runs as created."""
    first = Turns(directory(state), time.monotonic)
    first.directory.mark()
    shutil.rmtree(state)
    first.look()
    assert directory(state).is_marked
    second = Turns(directory(state), time.monotonic)
    assert second.directory.is_marked
    shutil.rmtree(state)
    second.look()
    assert directory(state).is_marked, "it was found, not made, by this one"


def test_a_missing_directory_is_made_for_root_alone_and_those_above_it_as_usual(state: Path) -> None:
    missing = state / "above" / "deep"
    Turns(directory(missing), time.monotonic)
    made = own(missing)
    assert [oct(path.stat().st_mode & 0o777) for path in (made, missing, missing.parent)] == ["0o700"] * 2 + ["0o755"]
    assert oct((made / "turns").stat().st_mode & 0o777) == "0o600"


@GIVES_FILES
def test_nothing_is_made_below_the_link_of_another_user(state: Path) -> None:
    """Below /tmp, a user's link leads root into a directory of root's."""
    state.chmod(0o1777)
    (state / "x").symlink_to(state.parent)
    os.chown(state / "x", NOBODY, 0, follow_symlinks=False)
    assert fault(state / "x" / "new").endswith(f"/state/x belongs to user {NOBODY}")
    assert not (state.parent / "new").exists()
