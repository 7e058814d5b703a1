"""Hook files for tests of directories, what is in force of them, and scenes: what happens to them, in words."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from v010_adapter.base.loop import READ
from v010_adapter.hooks.directory import Directories
from v010_adapter.hooks.match import Matcher
from v010_adapter.host import trust
from v010_adapter.settings import HooksSettings

from ..rig.loop import SteppedLoop
from ..rig.waiting import tick

PROGRAM = "/bin/sh"


def text(version: str | int = 1, program: str = PROGRAM, when: str = '{"always": true}') -> bytes:
    """A good hook file; its version is an argument of the hook."""
    hook = {"path": program, "args": [program, str(version)]}
    file = {"version": "1.0.0", "hook": hook, "when": json.loads(when), "stages": ["prestart"]}
    return json.dumps(file).encode()


def later() -> int:
    """A clock by which no file has changed within the last second."""
    return time.time_ns() + 2_000_000_000


def unread(*places: str | Path, host_root: str = "/", now: Callable[[], int] = time.time_ns, **own: Any) -> Directories:
    return Directories(HooksSettings(directories=tuple(map(str, places)), **own), host_root, now=now)


def opened(*places: str | Path, **options: Any) -> Directories:
    """Directories that have been read."""
    directories = unread(*places, **options)
    directories.current()
    return directories


def hooks(matcher: Matcher) -> dict[str, str]:
    """The versions of the hooks, by file."""
    return {rule.named.file: rule.named.hook.args[1] for rule in matcher.rules}


def in_force(directories: Directories) -> dict[str, str]:
    return hooks(directories.current())


def problems(directories: Directories) -> dict[str, str]:
    """The reasons of what is bad, by base name."""
    directories.current()
    return {os.path.basename(path): reason for path, reason in directories.problems.items()}


CLOCKS = {"later": later, "zero": lambda: 0, "never": lambda: 1 << 62}


class Scene:
    """A folder, the directories of hooks in it, and what happens there, as in `open d; write d/x.json 2; IS x.json=2`.

    Each word before a blank is a method. Paths are below the folder.
    """

    def __init__(self, base: Path) -> None:
        self.base = base
        self.directories = unread()

    def play(self, steps: str) -> None:
        for step in steps.split("; "):
            word, *arguments = step.split(" ")
            tick()
            try:
                getattr(self, word)(*arguments)
            except BaseException as error:
                error.add_note(f"at {step!r} in {steps!r}")
                raise

    def open(self, *words: str) -> None:
        """Opens directories; `now=` a clock, `host=` the root of the programs, `trust=off`."""
        options: dict[str, Any] = dict(word.split("=") for word in words if "=" in word)
        if "now" in options:
            options["now"] = CLOCKS[options["now"]]
        if "host" in options:
            options["host_root"] = str(self.base / options.pop("host"))
        if "trust" in options:
            options["trust"] = getattr(trust, options["trust"])
        # Not with pathlib, which would tidy the paths up.
        self.directories = opened(*(f"{self.base}/{word}" for word in words if "=" not in word), **options)

    def write(self, path: str, version: str = "1", program: str = PROGRAM) -> None:
        """Writes a file in place, a good one if its version is a word."""
        (self.base / path).parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(self.base / path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK), "wb") as file:
            file.write(text(version, program) if version.isalnum() else version.encode())

    def mkdir(self, path: str) -> None:
        (self.base / path).mkdir(parents=True)

    def rm(self, path: str) -> None:
        of = self.base / path
        shutil.rmtree(of) if of.is_dir() and not of.is_symlink() else of.unlink()

    def mv(self, old: str, new: str) -> None:
        (self.base / old).rename(self.base / new)

    def ln(self, path: str, target: str) -> None:
        """Makes a symbolic link, or points one elsewhere, in one step."""
        (self.base / "new").unlink(missing_ok=True)
        (self.base / "new").symlink_to(target.replace("BASE", str(self.base)))
        self.mv("new", path)

    def touch(self, path: str) -> None:
        """Makes an empty file, which may be executed."""
        (self.base / path).parent.mkdir(parents=True, exist_ok=True)
        (self.base / path).touch(0o755)

    def chmod(self, mode: str, path: str) -> None:
        (self.base / path).chmod(int(mode, 8))

    def IS(self, *expected: str) -> None:  # noqa: N802 - stands out among what happens
        """Says which versions are in force."""
        assert in_force(self.directories) == dict(word.split("=") for word in expected)

    def BAD(self, *expected: str) -> None:  # noqa: N802
        """Says what is bad: nothing, names, or `NAME: REASON`."""
        found = problems(self.directories)
        name, colon, reason = " ".join(expected).partition(": ")
        assert found == {name: reason.replace("BASE", str(self.base))} if colon else found.keys() == {*expected}

    def KEPT(self, *expected: str) -> None:  # noqa: N802
        """Says what is bad and has had a good version, which stays in force."""
        self.BAD(*expected[:-1], f"{expected[-1]}; the last good version stays in force")


class Watching(SteppedLoop):
    """A loop that says what it watches."""

    def __init__(self) -> None:
        super().__init__()
        self.watched: list[int] = []

    def watch(self, fd: int, callback: Callable[[], object], events: int = READ) -> None:
        self.watched.append(fd)
        super().watch(fd, callback, events)

    def unwatch(self, fd: int) -> None:
        self.watched.remove(fd)
        super().unwatch(fd)
