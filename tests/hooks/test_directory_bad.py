"""Bad input in hooks.d: named once, and it costs neither time nor other hooks nor containers."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from adapter.hooks import file
from adapter.hooks.directory import Problem
from adapter.hooks.match import Matcher
from adapter.hooks.model import Hook, parse_in_steps
from adapter.hooks.steps import Steps
from tests.hooks.hookdirs import Reads, in_force, later, opened, problems, text

MIB = 1 << 20


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with one good file, which nothing may harm."""
    place = tmp_path / "hooks.d"
    place.mkdir()
    (place / "good.json").write_bytes(text())
    return place


def bind_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))  # a socket's path must be short


def link_to_fifo(path: Path) -> None:
    os.mkfifo(path.with_name("fifo"))
    path.symlink_to("fifo")


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 30)


# How x.json is made, and what is said of it.
BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "a FIFO": (os.mkfifo, "not a regular file"),
    "a socket": (bind_socket, "not a regular file"),
    "a directory": (Path.mkdir, "not a regular file"),
    "a link to a directory": (lambda path: path.symlink_to("."), "not a regular file"),
    "a link to a FIFO": (link_to_fifo, "not a regular file"),
    "a link to a terminal": (lambda path: path.symlink_to("/dev/tty"), "not a regular file"),
    "a link to /dev/zero": (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
    "a link to nothing": (
        lambda path: path.symlink_to("nothing"),
        "leads nowhere: No such file or directory",
    ),
    "a link to itself": (
        lambda path: path.symlink_to(path.name),
        "leads nowhere: Too many levels of symbolic links",
    ),
    "a link into a file": (
        lambda path: path.symlink_to("good.json/x"),
        "leads nowhere: Not a directory",
    ),
    "1 GiB": (sparse, f"{1 << 30} bytes, at most {MIB}"),
    "1 MiB and a byte": (
        lambda path: path.write_bytes(text() + b" " * (MIB + 1 - len(text()))),
        "1048577 bytes, at most 1048576",
    ),
    "a blank": (lambda path: path.write_bytes(b"\n"), "line 2, column 1"),
    "half a hook": (lambda path: path.write_bytes(text()[:40]), "line 1, column"),
    "no UTF-8": (lambda path: path.write_bytes(b"\xff\xfe"), "line 1, column 1"),
    "zeros": (lambda path: path.write_bytes(bytes(1000)), "line 1, column 1"),
    "deep nesting": (lambda path: path.write_bytes(b"[" * MIB), "nested too deeply"),
    "a hook of no program": (lambda path: path.write_bytes(b"{}"), "missing"),
    "a pattern that is none": (
        lambda path: path.write_bytes(text().replace(b'{"always": true}', b'{"commands": ["("]}')),
        "the pattern '('",
    ),
    "more in /proc than a hook": (lambda path: path.symlink_to("/proc/self/environ"), "line 1, column"),
}


@pytest.mark.parametrize("early", [True, False], ids=["there before", "appears"])
@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_hook_file_is_a_problem_and_harms_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch, kind: str, early: bool
) -> None:
    monkeypatch.chdir(place)
    make, reason = BAD[kind]
    if early:
        make(place / "x.json")
    directories = opened([str(place)])
    if not early:
        make(place / "x.json")
    for _ in range(2):
        assert in_force(directories) == {"good.json": "1"}
        found = problems(directories)
        assert found.keys() == {"x.json"}
        assert reason in found["x.json"]


def test_a_problem_has_the_whole_path_and_the_line(place: Path) -> None:
    (place / "x.json").write_bytes(b'{\n "version": "1.0.0",\n}')
    assert opened([str(place)]).problems == [
        Problem(str(place / "x.json"), "line 3, column 1: a key in quotes is missing")
    ]


def test_a_file_of_just_the_largest_size_is_read(place: Path) -> None:
    (place / "x.json").write_bytes(text(2) + b" " * (MIB - len(text(2))))
    assert in_force(opened([str(place)])) == {"good.json": "1", "x.json": "2"}


def sizeless(status_of: Callable[..., os.stat_result]) -> Callable[..., Any]:
    """A stat that says of everything what it says of files in /proc."""

    def status(*arguments: Any, **options: Any) -> Any:
        found = status_of(*arguments, **options)
        fields = {name: getattr(found, name) for name in dir(found) if name.startswith("st_")}
        return SimpleNamespace(**fields | {"st_size": 0})

    return status


@pytest.mark.parametrize("size", [200, MIB])
def test_a_file_that_says_it_has_no_bytes_and_has_some_is_read_whole(
    place: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    content = text(2) + b" " * (size - len(text(2)))
    (place / "x.json").write_bytes(content)
    for name in ("stat", "fstat"):
        monkeypatch.setattr(os, name, sizeless(getattr(os, name)))
    assert in_force(opened([str(place)])) == {"good.json": "1", "x.json": "2"}
    (place / "x.json").write_bytes(content + MIB * b" ")
    assert problems(opened([str(place)])) == {"x.json": f"{MIB + 1} bytes, at most {MIB}"}


@pytest.mark.parametrize("kind", ["a FIFO", "a socket", "a link to a FIFO", "a link to a terminal"])
def test_what_is_no_regular_file_is_not_even_opened(place: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.chdir(place)
    directories = opened([str(place)], now=later)
    BAD[kind][0](place / "x.json")
    reads = Reads(monkeypatch)
    directories.current()
    assert reads.opened == []


def test_a_fifo_put_in_place_of_a_file_at_the_moment_it_is_opened_blocks_nothing_and_hides_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = place.with_name("site")
    site.mkdir()
    directories = opened([str(place), str(site)])
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


def test_thousands_of_bad_files_harm_nothing_and_are_named_once_each(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(3000):
        (place / f"{number}.json").write_bytes(b"{")
    directories = opened([str(place)], now=later)
    assert in_force(directories) == {"good.json": "1"}
    (place / "0.json").write_bytes(b"[{")
    assert in_force(directories) == {"good.json": "1"}
    assert len(directories.problems) == 3000
    assert len(caplog.records) == 3001
    assert directories.files_read == 3002


def test_a_bug_that_one_file_brings_out_costs_no_other(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def buggy(content: bytes, *, precreate: bool) -> Steps[Hook]:
        return parse_in_steps(content, precreate=precreate) if len(content) > 9 else 1 // 0  # type: ignore[return-value]

    monkeypatch.setattr(file, "parse_in_steps", buggy)
    (place / "a.json").write_bytes(b"{}")
    directories = opened([str(place)])
    (place / "z.json").write_bytes(b"{}")
    assert in_force(directories) == {"good.json": "1"}
    assert problems(directories).keys() == {"a.json", "z.json"}
    assert "ZeroDivisionError" in caplog.text


def test_a_bug_in_matching_leaves_in_force_what_was(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    directories = opened([str(place)])

    def buggy(hooks: object) -> Steps[Matcher]:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(Matcher, "in_steps", buggy)
        (place / "x.json").write_bytes(text(2))
        assert in_force(directories) == {"good.json": "1"}
        assert "a bug" in caplog.text
    (place / "y.json").write_bytes(text(3))
    assert in_force(directories) == {"good.json": "1", "x.json": "2", "y.json": "3"}


@contextlib.contextmanager
def no_descriptor_left() -> Iterator[None]:
    """Nothing can be opened any more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("swapped", [False, True], ids=["one file", "the directory"])
def test_what_cannot_be_read_for_want_of_descriptors_is_read_when_there_are_some(place: Path, swapped: bool) -> None:
    directories = opened([str(place)])
    if swapped:
        place.rename(place.with_name("old"))
        place.mkdir()
    (place / "good.json").write_bytes(text(2))
    (place / "x.json").write_bytes(text(2))
    with no_descriptor_left():
        for _ in range(2):
            assert in_force(directories) == {"good.json": "1"}
    assert "Too many open files" in str(directories.problems)
    assert in_force(directories) == {"good.json": "2", "x.json": "2"}
    assert directories.problems == []


@contextlib.contextmanager
def unprivileged() -> Iterator[Path]:
    """A directory, and nobody's rights."""
    with tempfile.TemporaryDirectory(dir="/tmp") as base:  # pytest's own is closed to nobody
        user = os.geteuid()
        os.chmod(base, 0o1777)  # noqa: S103 - sticky, or nothing in it would be trusted
        os.seteuid(user or 65534)
        try:
            yield Path(base)
        finally:
            os.seteuid(user)


def test_unreadable_files_are_problems_until_they_are_readable() -> None:
    with unprivileged() as base:
        (base / "good.json").write_bytes(text(1))
        (base / "x.json").write_bytes(text(1))
        (base / "x.json").chmod(0)
        directories = opened([str(base)])
        assert in_force(directories) == {"good.json": "1"}
        assert problems(directories) == {"x.json": "Permission denied"}
        (base / "x.json").chmod(0o400)
        assert in_force(directories) == {"good.json": "1", "x.json": "1"}
        (base / "x.json").chmod(0)
        assert in_force(directories) == {"good.json": "1", "x.json": "1"}
        assert problems(directories) == {"x.json": "Permission denied; the last good version stays in force"}


def test_unreadable_directories_are_problems_until_they_are_readable() -> None:
    with unprivileged() as base:
        place = base / "hooks.d"
        place.mkdir()
        (place / "x.json").write_bytes(text(1))
        place.chmod(0)
        directories = opened([str(place)])
        assert in_force(directories) == {}
        assert problems(directories) == {"hooks.d": "Permission denied"}
        place.chmod(0o700)
        assert in_force(directories) == {"x.json": "1"}
        assert directories.problems == []
        place.chmod(0)
        assert in_force(directories) == {"x.json": "1"}, "it is not gone"
        assert "hooks.d" in problems(directories)
        place.chmod(0o500)
        assert in_force(directories) == {"x.json": "1"}
        place.chmod(0o700)


def test_a_directory_that_is_not_listed_but_may_be_entered_is_followed() -> None:
    with unprivileged() as base:
        place = base / "closed" / "hooks.d"
        place.mkdir(parents=True)
        place.parent.chmod(0o100)  # its names can be looked up, and no watch can be had
        directories = opened([str(place)])
        (place / "x.json").write_bytes(text(1))
        assert in_force(directories) == {"x.json": "1"}
        place.parent.chmod(0o700)
        place.rename(place.parent / "away")
        assert in_force(directories) == {}
