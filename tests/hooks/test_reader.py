"""The hooks of each container while files change, and what wakes the loop."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from v010_adapter.hooks.facts import Facts
from v010_adapter.hooks.file import HookFile
from v010_adapter.hooks.reader import PAUSE, HookReader

from ..rig.processes import failing, open_descriptors
from .hookdirs import Scene, Watching, later, text, unread

ANY = Facts({}, "/bin/sh", False)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a hook file."""
    (tmp_path / "hooks.d").mkdir()
    (tmp_path / "hooks.d/x.json").write_bytes(text(1))
    return tmp_path / "hooks.d"


class Daemon:
    """The hooks of directories, and a loop whose time a test lets pass."""

    def __init__(self, *places: Path) -> None:
        self.loop = Watching()
        self.directories = unread(*places, now=later)
        self.hooks = HookReader(self.loop, self.directories)
        self.hooks.start()

    def create(self) -> list[str]:
        """Returns the hooks of a new container."""
        self.hooks.read()
        return [named.hook.args[1] for named in self.directories.matcher.match(ANY)]

    def wake(self) -> None:
        """Serves what inotify says, waits for the pause, and reads."""
        self.loop.until(lambda: not self.loop.watched, "nothing wakes the loop")
        self.loop.advance(PAUSE / 2)
        assert not self.loop.watched, "many changes are one reading"
        self.loop.advance(PAUSE)


def test_a_container_has_the_hooks_of_the_files_as_they_are(place: Path) -> None:
    daemon = Daemon(place)
    assert daemon.create() == ["1"]
    os.utime(place / "x.json", (1, 1))
    assert daemon.create() == ["1"]
    (place / "x.json").write_bytes(text(22))
    assert daemon.create() == ["22"]


def test_a_bug_in_reading_leaves_the_hooks_of_before_in_force(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    daemon = Daemon(place)
    with monkeypatch.context() as patch:
        patch.setattr(HookFile, "read", lambda *_, **__: 1 // 0)
        (place / "x.json").write_bytes(text(22))
        assert daemon.create() == ["1"]
    assert "a bug" in caplog.text
    assert daemon.create() == ["22"]


CHANGES = [
    "write hooks.d/y.json 2",
    "write hooks.d/x.json 22",
    "chmod 600 hooks.d/x.json",
    "rm hooks.d/x.json",
    "mkdir c; WAKE; mv hooks.d/x.json c/x.json",
    "write c/y.json 2; WAKE; mv c/y.json hooks.d/y.json",
    "mv hooks.d away",
    "mv hooks.d away; mkdir hooks.d",
    "mkdir a; WAKE; mkdir a/b; WAKE; write a/b/x.json 3",
]


def test_a_change_wakes_the_loop_though_no_container_comes(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither descriptors nor watches grow with changes."""
    scene = Scene(place.parent)
    daemon = Daemon(place, place.parent / "a/b")
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
        assert len(open_descriptors()) <= len(descriptors), change
    assert len(watches) == 1


@pytest.mark.parametrize("change", ["ln link elsewhere", "mv c/hooks.d c/away"])
def test_a_link_wakes_the_loop_when_it_is_set_anew_and_when_its_directory_goes(tmp_path: Path, change: str) -> None:
    scene = Scene(tmp_path)
    scene.play("write c/hooks.d/x.json; ln link c/hooks.d")
    daemon = Daemon(tmp_path / "link")
    scene.play(change)
    daemon.wake()
    assert daemon.directories.in_force == []


@pytest.mark.parametrize("refused", ["INotify", "INotify.add_watch"])
def test_without_inotify_only_the_waking_is_missing(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, refused: str
) -> None:
    monkeypatch.setattr(f"inotify_simple.{refused}", failing(errno.ENOSPC))
    caplog.set_level("INFO")
    daemon = Daemon(place)
    assert ("hooks: no inotify (No space left on device)" in caplog.text) is (refused == "INotify")
    for version in ("1", "22", "333"):
        (place / "x.json").write_bytes(text(version))
        assert daemon.create() == [version]
