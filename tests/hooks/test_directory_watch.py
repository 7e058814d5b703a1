"""The watch itself: lost events, no watch to be had, and what it costs while nothing happens."""

from __future__ import annotations

import errno
import logging
import os
import select
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import inotify_simple  # type: ignore[import-untyped]
import pytest

from adapter.hooks import watch
from adapter.hooks.directory import Directories
from adapter.hooks.watch import Event, Watcher
from tests.hooks.hookdirs import in_force, replace, text, without_inotify

NO_SPACE = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "hooks.d"
    place.mkdir()
    (place / "x.json").write_bytes(text(1))
    return place


def test_flags_are_the_kernels() -> None:
    names = [name for name in vars(watch) if name in inotify_simple.flags.__members__]
    assert len(names) == 11
    assert {name: getattr(watch, name) for name in names} == {name: inotify_simple.flags[name] for name in names}


def test_the_descriptor_is_readable_exactly_when_something_is_to_be_taken_in(place: Path) -> None:
    directories = Directories([str(place)])
    descriptor = directories.fileno()
    assert descriptor is not None
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    directories.current()
    assert not poll.poll(0)
    (place / "x.json").write_bytes(text(2))
    assert poll.poll(0)
    assert in_force(directories) == {"x.json": "2"}
    assert not poll.poll(0)


def test_the_descriptor_is_not_inherited_by_programs(place: Path) -> None:
    directories = Directories([str(place)])
    descriptor = directories.fileno()
    assert descriptor is not None
    assert not os.get_inheritable(descriptor)
    assert not os.get_blocking(descriptor)


def test_a_closed_watch_leaves_no_descriptor(place: Path) -> None:
    before = os.listdir("/proc/self/fd")
    Directories([str(place)]).close()
    assert os.listdir("/proc/self/fd") == before


def test_inotify_is_loaded_for_a_watch_only_and_starts_no_program() -> None:
    script = """
import os, sys
started = []
sys.addaudithook(lambda event, _: started.append(event) if event in {"subprocess.Popen", "os.exec", "os.fork",
    "os.posix_spawn", "os.system"} else None)
from adapter.hooks.directory import Directories
Directories(["/no/such/place"], watch=False).current()
assert "inotify_simple" not in sys.modules
Directories(["/no/such/place"]).current()
assert "inotify_simple" in sys.modules
assert not started, started
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_what_is_heard_while_an_empty_file_is_looked_at_is_taken_in_next_time(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directories = Directories([str(place)])
    (place / "x.json").write_bytes(b"")
    really, calls = Watcher.events, []

    def write_meanwhile(watcher: Watcher) -> Sequence[Event]:
        calls.append(watcher)
        if len(calls) == 2:
            (place / "y.json").write_bytes(text(2))
        return really(watcher)

    monkeypatch.setattr(Watcher, "events", write_meanwhile)
    directories.current()
    assert len(calls) == 2
    assert in_force(directories) == {"y.json": "2"}


class Lost(NamedTuple):
    """What inotify says when its queue was full."""

    wd: int = -1
    mask: int = watch.Q_OVERFLOW
    name: str = ""


def test_lost_events_mean_that_everything_is_looked_at(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = place.parent / "program"
    (place / "waits.json").write_bytes(text(1, program=str(program)))
    (place / "gone.json").write_bytes(text(1))
    directories = Directories([str(place), str(place.parent / "later")])
    (place / "x.json").write_bytes(text(2))
    (place / "gone.json").unlink()
    (place / "new.json").write_bytes(text(2))
    program.touch()
    (place.parent / "later").mkdir()
    (place.parent / "later" / "y.json").write_bytes(text(2))
    really = Watcher.events

    def lose(watcher: Watcher) -> Sequence[Event]:
        really(watcher)
        return [Lost()]

    with monkeypatch.context() as patch:
        patch.setattr(Watcher, "events", lose)
        expected = {"x.json": "2", "new.json": "2", "waits.json": "1", "y.json": "2"}
        assert in_force(directories) == expected
    replace(place.parent / "later" / "y.json", text(3))
    assert in_force(directories) == {**expected, "y.json": "3"}


def test_a_queue_that_really_overflows_loses_no_change(place: Path) -> None:
    (place / "y.json").write_bytes(text(1))
    directories = Directories([str(place)])
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    for number in range(limit + 10):
        os.utime(place / ("x.json", "y.json")[number % 2])
    (place / "x.json").write_bytes(text(2))
    (place / "z.json").write_bytes(text(2))
    assert in_force(directories) == {"x.json": "2", "y.json": "1", "z.json": "2"}


def test_after_lost_events_files_that_look_as_before_are_not_read(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directories = Directories([str(place)], now=lambda: (place / "x.json").stat().st_ctime_ns + 50_000_001)
    (place / "y.json").write_bytes(text(1))
    monkeypatch.setattr(Watcher, "events", lambda _: [Lost()])
    assert in_force(directories) == {"x.json": "1", "y.json": "1"}
    assert directories.files_read == 2


def test_after_lost_events_files_that_were_written_in_the_same_tick_are_read_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directories = Directories([str(place)], now=lambda: (place / "x.json").stat().st_ctime_ns + 50_000_000)
    monkeypatch.setattr(Watcher, "events", lambda _: [Lost()])
    directories.current()
    assert directories.files_read == 2


class Kernel:
    """Refuses watches while `error` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error: OSError | None = None
        self.spare = 0
        really: Callable[..., int] = inotify_simple.INotify.add_watch

        def add_watch(inotify: Any, path: str, mask: int) -> int:
            if self.error and self.spare <= 0:
                raise self.error
            self.spare -= 1
            return really(inotify, path, mask)

        monkeypatch.setattr(inotify_simple.INotify, "add_watch", add_watch)


@pytest.mark.parametrize("spare", range(8))
def test_when_no_more_watches_are_to_be_had_everything_is_looked_at_each_time(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, spare: int
) -> None:
    caplog.set_level(logging.INFO)
    kernel = Kernel(monkeypatch)
    kernel.error, kernel.spare = NO_SPACE, spare
    program = place.parent / "program"
    (place / "waits.json").write_bytes(text(1, program=str(program)))
    directories = Directories([str(place.parent / "later"), str(place)])
    for version in range(2, 5):
        (place / "x.json").write_bytes(text(version))
        assert in_force(directories) == {"x.json": str(version)}
    replace(place / "x.json", text(5))
    program.touch()
    assert in_force(directories) == {"x.json": "5", "waits.json": "1"}
    program.unlink()
    (place / "x.json").unlink()
    (place.parent / "later").mkdir()
    (place.parent / "later" / "y.json").write_bytes(text(6))
    assert in_force(directories) == {"y.json": "6"}
    complaints = [record.getMessage() for record in caplog.records if "cannot watch" in record.getMessage()]
    assert len(complaints) == 1
    assert "No space left on device" in complaints[0]


def test_when_watches_are_to_be_had_again_they_are_taken(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    kernel = Kernel(monkeypatch)
    kernel.error = NO_SPACE
    directories = Directories([str(place)])
    directories.current()
    kernel.error = None
    directories.current()
    read = directories.files_read
    for _ in range(3):
        directories.current()
    assert directories.files_read == read
    assert caplog.records[-1].getMessage() == "hooks: everything is watched again"
    (place / "x.json").write_bytes(text(2))
    assert in_force(directories) == {"x.json": "2"}


def test_without_inotify_everything_is_looked_at_each_time(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    without_inotify(monkeypatch, OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
    directories = Directories([str(place)])
    assert directories.fileno() is None
    for version in range(2, 5):
        (place / "x.json").write_bytes(text(version))
        assert in_force(directories) == {"x.json": str(version)}
    assert [record.getMessage() for record in caplog.records] == [
        "hooks: cannot watch anything: Too many open files; all files are looked at for each container instead"
    ]


def test_without_inotify_files_that_look_as_before_are_not_read(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_inotify(monkeypatch, NO_SPACE)
    directories = Directories([str(place)], now=lambda: (place / "x.json").stat().st_ctime_ns + 50_000_001)
    matcher = directories.current()
    assert directories.current() is matcher
    assert directories.files_read == 1


def test_events_that_concern_nobody_change_nothing(place: Path) -> None:
    directories = Directories([str(place)])
    read, matcher = directories.files_read, directories.current()
    (place / "README").touch()
    (place.parent / "another").mkdir()
    (place / "x.json.swp").write_bytes(text(2))
    (place / "x.json.swp").unlink()
    assert directories.current() is matcher
    assert directories.files_read == read
