"""Bad input in hooks.d: named once, and it costs neither other hooks nor containers."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from v010_adapter.hooks import directory, model
from v010_adapter.host import paths

from ..rig.users import unprivileged
from .hookdirs import Scene, in_force, later, opened, problems, text

MIB = 1 << 20


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with one good file, which nothing may harm; the working directory."""
    place = tmp_path / "hooks.d"
    place.mkdir()
    (place / "good.json").write_bytes(text())
    monkeypatch.chdir(place)
    return place


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 30)


def link(target: str) -> Callable[[Path], object]:
    return lambda path: path.symlink_to(target)


def content(of: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(of)


IRREGULAR: dict[str, Callable[[Path], object]] = {
    "a FIFO": os.mkfifo,
    "a link to it": link("a FIFO.json"),
    "a terminal": link("/dev/tty"),
}
# The name of a file, how it is made, and what is said of it.
BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    **{name: (make, "not a regular file") for name, make in IRREGULAR.items()},
    "a directory": (Path.mkdir, "not a regular file"),
    "a link to zeros": (link("/dev/zero"), "not a regular file"),
    "a link to nothing": (link("nothing"), "leads nowhere: No such file or directory"),
    "a link to itself": (link("a link to itself.json"), "leads nowhere: Too many levels of symbolic links"),
    "a link into a file": (link("good.json/x"), "leads nowhere: Not a directory"),
    "1 GiB": (sparse, f"{1 << 30} bytes, at most {MIB}"),
    "1 MiB and a byte": (content(text().ljust(MIB + 1)), "1048577 bytes, at most 1048576"),
    "a pattern that is none": (content(text(when='{"commands": ["("]}')), "the pattern '('"),
    "more in proc than a hook": (link("/proc/self/environ"), "line 1, column"),
}


def test_what_is_no_hook_file_is_a_problem_and_harms_nothing(place: Path) -> None:
    directories = opened(place)
    for name, (make, _) in BAD.items():
        make(place / f"{name}.json")
    (place / "of the largest size.json").write_bytes(text(2).ljust(MIB))
    for one in (directories, opened(place), directories):  # as it appears, there before, looked at again
        assert in_force(one) == {"good.json": "1", "of the largest size.json": "2"}
        found = problems(one)
        assert [name for name, (_, reason) in BAD.items() if reason not in found.pop(f"{name}.json", "")] == []
        assert found == {}


def test_a_regular_file_that_waits_for_data_is_an_error() -> None:
    """As /proc/kmsg does."""

    class Waiting(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, _: object) -> None:
            """There is nothing to read, and this is not the end."""

    with pytest.raises(BlockingIOError):
        paths.at_most(io.BufferedReader(Waiting()), MIB)


def test_what_is_no_regular_file_is_not_even_opened(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directories = opened(place, now=later)
    for name, make in IRREGULAR.items():
        make(place / f"{name}.json")
    monkeypatch.setattr(os, "open", lambda *_, **__: pytest.fail("something is opened"))
    assert len(problems(directories)) == len(IRREGULAR)


def test_a_fifo_in_place_of_a_file_being_opened_blocks_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = place.with_name("site")
    site.mkdir()
    directories = opened(place, site)
    (site / "good.json").write_bytes(text(2))
    really = os.open

    def swap(path: str, *arguments: Any, **options: Any) -> int:
        os.unlink(path)
        os.mkfifo(path)
        return really(path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", swap)
        assert in_force(directories) == {"good.json": "1"}
    assert problems(directories) == {"good.json": "not a regular file"}


def test_a_bug_costs_neither_other_files_nor_what_was_in_force(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    directories = opened(place, now=later)
    (place / "x.json").write_bytes(text(2))
    (place / "z.json").write_bytes(b"{}")
    with monkeypatch.context() as patch:
        parse = model.parse
        patch.setattr(model, "parse", lambda content, **_: parse(content) if len(content) > 9 else 1 // 0)
        patch.setattr(directory, "Matcher", lambda hooks: 1 // 0)
        assert in_force(directories) == {"good.json": "1"}
        assert str(problems(directories)).startswith("{'z.json': \"a bug: ZeroDivisionError(")
    assert caplog.text.count("Traceback") == 2
    (place / "y.json").write_bytes(text(3))
    assert in_force(directories) == {"good.json": "1", "x.json": "2", "y.json": "3"}


UNREADABLE = {
    "a file": (
        "write d/good.json; write d/x.json; chmod 0 d/x.json; open d; IS good.json=1; BAD x.json: Permission denied;"
        " chmod 400 d/x.json; IS good.json=1 x.json=1; chmod 0 d/x.json; IS good.json=1 x.json=1;"
        " KEPT x.json: Permission denied"
    ),
    "a directory, which is not gone": (
        "write d/x.json; chmod 0 d; open d; IS; BAD d: Permission denied; chmod 700 d; IS x.json=1; BAD; chmod 0 d;"
        " IS x.json=1; BAD d x.json; chmod 500 d; IS x.json=1; chmod 700 d"
    ),
}


@pytest.mark.parametrize("steps", UNREADABLE.values(), ids=UNREADABLE)
def test_what_nobody_may_read_is_a_problem_until_it_is_readable(steps: str) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as base:  # pytest's own is closed to nobody
        os.chmod(base, 0o1777)  # noqa: S103 - sticky, or nothing in it would be trusted
        with unprivileged():
            Scene(Path(base)).play(steps)
