"""Whatever happens to two directories: what is in force is what a look at everything would find."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from adapter.hooks.directory import Directories
from adapter.host import paths

from .hookdirs import in_force, text

NAMES = st.sampled_from(["a.json", "b.json", "A.json", "a.JSON"])
PLACES = st.sampled_from(["one", "two"])
ALL = st.sampled_from(["one", "two", "three"])
FILES = st.builds("real/{}/{}".format, PLACES, NAMES)
STORED = NAMES.map("store/{}".format)
MASK, BAD, GONE = "empty", "bad", "gone"
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - a disk takes most of the time


class Model:
    """What is in force, found by looking at everything, and by remembering the last good version of each file."""

    def __init__(self, host: Path, places: Sequence[Path]) -> None:
        self._host = host
        self._places = places
        self._good: dict[Path, Any] = {}

    def in_force(self) -> tuple[dict[str, str], set[str]]:
        """The versions in force by name, and the paths of what is bad."""
        good: dict[str, str] = {}
        bad: set[str] = {str(place) for place in self._places if place.exists() and not place.is_dir()}
        there: dict[Path, Any] = {}
        files = (path for place in self._places if place.is_dir() for path in place.iterdir())
        for path in files:
            if path.name.endswith(".json"):
                said = self._says(path)
                if said in {BAD, GONE}:
                    bad.add(str(path))
                there[path] = None if said == GONE else self._good.get(path) if said == BAD else said
                self._choose(there[path], path, good, bad)
        self._good = there
        return good, bad

    def _choose(self, said: Any, path: Path, good: dict[str, str], bad: set[str]) -> None:
        if said == MASK:
            good.pop(path.name, None)
        elif said is not None:
            version, program = said
            if (self._host / program[1:].replace("link", "bin")).is_file():
                good[path.name] = version
            else:
                bad.add(str(path))

    @staticmethod
    def _says(path: Path) -> Any:
        try:
            status = path.stat()
        except OSError:
            return GONE
        if not stat.S_ISREG(status.st_mode):
            return MASK if stat.S_ISCHR(status.st_mode) else BAD
        content = path.read_bytes()
        try:
            return (json.loads(content)["hook"]["args"][1], json.loads(content)["hook"]["path"]) if content else MASK
        except ValueError:
            return BAD


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


class Life(RuleBasedStateMachine):
    """Two directories behind links, a store of files that are linked to, and programs."""

    def __init__(self) -> None:
        super().__init__()
        self.base = Path(tempfile.mkdtemp(dir=MEMORY))
        for name in ("real/one", "real/two", "real/three", "store", "host/bin", "host/opt"):
            (self.base / name).mkdir(parents=True)
        (self.base / "host" / "link").symlink_to("/bin")
        places = [self.base / "one", self.base / "two"]
        for place in places:
            place.symlink_to(f"real/{place.name}")
        self.version = 0
        self.model = Model(self.base / "host", places)
        self.ahead = 0
        """Nanoseconds by which the clock is ahead of the files' times."""
        now = lambda: time.time_ns() + self.ahead  # noqa: E731
        self.directories = Directories(list(map(str, places)), str(self.base / "host"), now=now)

    def teardown(self) -> None:
        shutil.rmtree(self.base)

    def put(self, path: Path, content: bytes, in_one_step: bool) -> None:
        if in_one_step:
            new = self.base / f"new-{self.version}"
            new.write_bytes(content)
            self.move(new, path)
        elif path.is_file() or (path.parent.is_dir() and not os.path.lexists(path)):
            path.write_bytes(content)

    @staticmethod
    def move(old: Path, new: Path) -> None:
        """Moves what can be moved there."""
        directories = [path.is_dir() and not path.is_symlink() for path in (old, new)]
        possible = os.path.lexists(old) and new.parent.is_dir() and not directories[1]
        if possible and not (directories[0] and os.path.lexists(new)):
            old.rename(new)

    @rule(path=FILES | STORED, program=st.sampled_from(["/bin/p", "/opt/bin/q", "/link/p"]), in_one_step=st.booleans())
    def write(self, path: str, program: str, in_one_step: bool) -> None:
        self.version += 1
        self.put(self.base / path, text(self.version, program), in_one_step)

    @rule(path=FILES | STORED, content=st.sampled_from([b"", b"{", b"\n"]), in_one_step=st.booleans())
    def spoil(self, path: str, content: bytes, in_one_step: bool) -> None:
        content = b"{" if path.startswith("store") else content
        self.put(self.base / path, content, in_one_step)

    @rule(path=FILES | STORED | ALL.map("real/{}".format))
    def delete(self, path: str) -> None:
        remove(self.base / path)

    @rule(old=FILES, new=FILES)
    def rename(self, old: str, new: str) -> None:
        self.move(self.base / old, self.base / new)

    @rule(
        path=FILES,
        to=st.sampled_from(["../../store/a.json", "../../store/b.json", "b.json", "nothing", "/dev/null", "."]),
    )
    def link(self, path: str, to: str) -> None:
        new = self.base / "new-link"
        new.symlink_to(to)
        self.move(new, self.base / path)
        new.unlink(missing_ok=True)

    @rule(name=FILES, stored=STORED, how=st.sampled_from(["hard link", "fifo", "directory"]))
    def make_special(self, name: str, stored: str, how: str) -> None:
        path = self.base / name
        if path.parent.is_dir() and not os.path.lexists(path):
            if how == "fifo":
                os.mkfifo(path)
            elif how == "directory":
                path.mkdir()
            elif (self.base / stored).is_file():
                path.hardlink_to(self.base / stored)

    @rule(link=PLACES, real=st.sampled_from(["real/one", "real/two", "real/three", "real", "nowhere", "store/a.json"]))
    def swap(self, link: str, real: str) -> None:
        new = self.base / "new-link"
        new.symlink_to(real)
        new.rename(self.base / link)

    @rule(place=PLACES, other=ALL | st.just("four"))
    def rename_directory(self, place: str, other: str) -> None:
        self.move(self.base / "real" / place, self.base / "real" / other)

    @rule(place=ALL)
    def make_directory(self, place: str) -> None:
        (self.base / "real" / place).mkdir(exist_ok=True)

    @rule(program=st.sampled_from(["bin/p", "opt/bin/q", "opt/bin"]))
    def make_or_remove_program(self, program: str) -> None:
        path = self.base / "host" / program
        if path.exists():
            remove(path)
        elif program == "opt/bin":
            path.mkdir()
        elif path.parent.is_dir():
            path.touch(0o755)

    @rule()
    def map_and_change(self) -> None:
        """A file that is changed through a mapping of its memory."""
        path = self.base / "real/one/a.json"
        if path.is_file() and path.stat().st_size:
            with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
                mapped[0] = ord("{") if mapped[0] != ord("{") else ord("[")

    @rule()
    def cut_off(self) -> None:
        path = self.base / "real/two/a.json"
        if path.is_file():
            os.truncate(path, path.stat().st_size // 2)

    @invariant()
    def what_is_in_force_is_what_there_is(self) -> None:
        expected, bad = self.model.in_force()
        self.directories.current()  # a file may be empty because it is about to be written
        self.ahead = 2_000_000_000
        with mock.patch.object(
            paths, "TIMESTAMP_STEP", paths.TIMESTAMP_STEP + self.ahead
        ):  # or the tick of a change would be over
            assert in_force(self.directories) == expected
            assert {path for path, _ in self.directories.problems} == bad
        self.ahead = 0


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)
