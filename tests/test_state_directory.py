"""A state directory that others have prepared: nothing of theirs is believed, nothing elsewhere is overwritten."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from adapter.errors import ConfigError
from adapter.host import state_directory
from adapter.host.lock import Lock
from adapter.host.trust import Trust, off, strict
from adapter.owed.journal import Journal

from .test_trust_of_others import MASK, NOBODY, USER, set_acl

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "victim").write_text("precious")
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    return state


def fault(state: Path, name: str = "journal", trust: Trust = strict) -> str:
    """Why a file of the state directory is not opened, without the paths."""
    try:
        os.close(state_directory.open_file(str(state), name, os.O_RDWR | os.O_CREAT, trust)[0])
    except ConfigError as error:
        return str(error).replace(f"{state}", "STATE")
    return ""


def link(state: Path) -> None:
    (state / "journal").symlink_to("../victim")


def owned(state: Path) -> None:
    (state / "journal").touch()
    os.chown(state / "journal", NOBODY, 0)


def moded(mode: int) -> Callable[[Path], None]:
    def make(state: Path) -> None:
        (state / "journal").touch()
        (state / "journal").chmod(mode)

    return make


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
    "a directory that a user can write to by its access list": (
        lambda state: set_acl(state, (USER, 7, NOBODY), (MASK, 7, 0)),
        f"STATE: STATE is writable for user {NOBODY}",
        False,
    ),
    "a link": (link, "STATE/journal: Too many levels of symbolic links", True),
    "a hard link": (
        lambda state: os.link(state.parent / "victim", state / "journal"),
        "STATE/journal: a hard link: the file has another name",
        True,
    ),
    "no regular file": (lambda state: os.mkfifo(state / "journal"), "STATE/journal: not a regular file", True),
    "a file that anybody can write": (moded(0o666), "STATE/journal: is world-writable", False),
    "a file that a group can write": (moded(0o660), "STATE/journal: is writable for group 0", False),
    "a file of another user": (owned, f"STATE/journal: belongs to user {NOBODY}", False),
}


@ROOT
@pytest.mark.parametrize("prepared", PREPARED)
def test_what_somebody_has_prepared_is_refused_and_nothing_is_written(prepared: str, state: Path) -> None:
    prepare, expected, is_always_refused = PREPARED[prepared]
    prepare(state)
    assert fault(state) == expected
    assert fault(state, trust=off) == (expected if is_always_refused else "")
    assert (state.parent / "victim").read_text() == "precious"


@ROOT
def test_another_owner_is_an_error_also_where_other_files_get_a_warning(state: Path) -> None:
    set_acl(state, (USER, 7, NOBODY), (MASK, 7, 0))
    assert fault(state, trust=lambda path, root: "") == f"STATE: is writable for user {NOBODY}"
    os.chown(state, NOBODY, 0)
    assert fault(state, trust=lambda path, root: "") == f"STATE: belongs to user {NOBODY}"


@pytest.mark.parametrize("name", ["lock", "journal"])
def test_a_planted_link_is_not_written_to_and_told(name: str, state: Path, caplog: pytest.LogCaptureFixture) -> None:
    (state / name).symlink_to("../victim")
    owner = Lock(str(state))
    owner.take()
    Journal(owner).read()
    assert (state.parent / "victim").read_text() == "precious"
    assert [record.getMessage() for record in caplog.records] == [
        f"{state}/{name}: Too many levels of symbolic links: "
        "what is owed is forgotten with this process (state.directory)"
    ]


def test_a_missing_directory_is_made_for_root_alone_and_those_above_it_as_usual(state: Path) -> None:
    missing = state / "above" / "deep"
    assert not fault(missing)
    assert [oct(path.stat().st_mode & 0o777) for path in (missing, missing.parent)] == ["0o700", "0o755"]
    assert oct((missing / "journal").stat().st_mode & 0o777) == "0o600"


@ROOT
def test_nothing_is_made_below_the_link_of_another_user(state: Path) -> None:
    """Below /tmp, a user's link leads root into a directory of root's."""
    state.chmod(0o1777)
    (state / "x").symlink_to(state.parent)
    os.chown(state / "x", NOBODY, 0, follow_symlinks=False)
    assert fault(state / "x" / "new").endswith(f"/state/x belongs to user {NOBODY}")
    assert not (state.parent / "new").exists()
