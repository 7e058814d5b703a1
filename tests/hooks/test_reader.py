"""The hooks of each container while files change: who waits for a reading, for how long, and what wakes the loop."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from v010_adapter.hooks.facts import Facts
from v010_adapter.hooks.file import HookFile
from v010_adapter.hooks.reader import RESERVE, HookReader

from ..processes import open_descriptors
from .hookdirs import MANY, Scene, Watching, later, text, unread

ANY = Facts({}, "/bin/sh", False)
PATTERNS = 20


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a hook file that takes many steps to read."""
    (tmp_path / "hooks.d").mkdir()
    (tmp_path / "hooks.d/x.json").write_bytes(slow(1))
    return tmp_path / "hooks.d"


def slow(version: str | int) -> bytes:
    patterns = ", ".join(f'"{version}-{number}"' for number in range(PATTERNS))
    return text(version, when=f'{{"commands": ["sh", {patterns}]}}')


class Daemon:
    """A loop of which a test does one turn after the other."""

    def __init__(self, *places: Path, started: bool = False) -> None:
        self.loop = Watching()
        self.time = 0.0
        self.loop.time = lambda: self.time
        self.directories = unread(*places, now=later)
        self.hooks = HookReader(self.loop, self.directories)
        self.answers: dict[str, list[str]] = {}
        self.turns = 0
        if started:
            self.hooks.start()
            self.finish()

    def create(self, name: str, due: float = 2.0) -> bool:
        """Asks for the hooks of a container; whether they are there at once."""
        reading = self.hooks.update(due)
        if reading is None:
            self._answer(name)
            return True
        reading.then(lambda *_: self._answer(name))
        return False

    def _answer(self, name: str) -> None:
        self.answers[name] = [named.hook.args[1] for named in self.directories.matcher.match(ANY)]

    def turn(self, times: int = 1) -> None:
        self.turns += times
        self.loop.turn(times)

    def until_answered(self) -> None:
        while not self.answers:
            assert self.turns < MANY, "no container has got its hooks"
            self.turn()

    def finish(self) -> None:
        self.turn(10 * PATTERNS)

    def wake(self) -> None:
        """Serves what inotify says, waits for the pause, and reads."""
        self.turn()
        self.time += 1
        self.finish()


def test_where_nothing_that_matters_has_changed_a_container_has_its_hooks_at_once(place: Path) -> None:
    daemon = Daemon(place, started=True)
    assert daemon.create("a")
    os.utime(place / "x.json", (1, 1))
    assert daemon.directories.has_changed()
    assert daemon.create("b")
    assert daemon.answers == {"a": ["1"], "b": ["1"]}


def test_a_container_waits_for_files_while_the_loop_is_served(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    daemon = Daemon(place)
    assert not daemon.create("a")
    served: list[int] = []
    reader, writer = os.pipe()
    os.write(writer, b"x")
    daemon.loop.watch(reader, lambda: served.append(daemon.turns))
    daemon.until_answered()
    assert daemon.answers == {"a": ["1"]}
    assert len(served) == daemon.turns > 2 * PATTERNS, "one pattern between two looks at the descriptors"
    daemon.time = 10
    daemon.turn()
    assert not caplog.records, "its deadline does not matter any more"
    os.close(writer)


def test_near_its_deadline_a_container_gets_the_hooks_of_before(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    daemon = Daemon(place, started=True)
    (place / "x.json").write_bytes(slow(22))
    assert not daemon.create("late", due=2.0)
    assert not daemon.create("in time", due=5.0)
    daemon.turn()
    daemon.time = 2.0 - RESERVE
    assert daemon.answers == {}
    daemon.turn()
    assert daemon.answers == {"late": ["1"]}
    said = "hooks: files are still being read; a container gets the hooks that were in force before"
    assert caplog.messages == [said]
    daemon.finish()
    assert daemon.answers == {"late": ["1"], "in time": ["22"]}
    assert daemon.create("next")


def test_what_changes_while_files_are_read_counts_for_containers_that_come_after_it(place: Path) -> None:
    for versions in ([], ["22", "3"]):
        (place / "x.json").write_bytes(slow(1))
        daemon = Daemon(place)
        assert not daemon.create("first")
        daemon.turn(3)
        for name, version in zip("xy", versions, strict=False):
            (place / f"{name}.json").write_bytes(slow(version))
        assert not daemon.create("second")
        while "first" not in daemon.answers:
            daemon.turn()
        assert ("second" in daemon.answers) is (not versions)
        daemon.finish()
        assert daemon.answers["second"] == (versions or ["1"])


def test_a_bug_in_reading_keeps_no_container_waiting(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(HookFile, "read", lambda *_, **__: 1 // 0)
    daemon = Daemon(place)
    daemon.create("a")
    daemon.finish()
    assert daemon.answers == {"a": []}
    assert "a bug" in caplog.text


CHANGES = [
    "write hooks.d/y.json 2",
    "write hooks.d/x.json 22",
    "rm hooks.d/x.json",
    "mv hooks.d away",
    "mv hooks.d away; mkdir hooks.d",
    "mkdir a; WAKE; mkdir a/b; WAKE; write a/b/x.json 3",
]


def test_a_change_wakes_the_loop_though_no_container_comes(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither descriptors nor watches grow with changes."""
    scene = Scene(place.parent)
    daemon = Daemon(place, place.parent / "a/b", started=True)
    monkeypatch.setattr(scene, "WAKE", daemon.wake, raising=False)
    watches, descriptors = set(), open_descriptors()
    for change in CHANGES:
        scene.play(change)
        assert daemon.directories.has_changed(), change
        daemon.wake()
        assert not daemon.directories.has_changed(), change
        for made in place.parent.iterdir():
            scene.rm(made.name)
        scene.play("write hooks.d/x.json 1")
        daemon.wake()
        [descriptor] = daemon.loop.watched
        watches.add(Path(f"/proc/self/fdinfo/{descriptor}").read_text().count("inotify "))
        assert open_descriptors() <= descriptors, change
    assert len(watches) == 1


@pytest.mark.parametrize("refused", ["INotify", "INotify.add_watch"])
def test_without_inotify_only_the_waking_is_missing(place: Path, monkeypatch: pytest.MonkeyPatch, refused: str) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(f"inotify_simple.{refused}", refuse)
    daemon = Daemon(place, started=True)
    for version in ("1", "22", "333"):
        (place / "x.json").write_bytes(slow(version))
        daemon.create(version)
        daemon.finish()
        assert daemon.answers[version] == [version]
