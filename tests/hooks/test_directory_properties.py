"""Whatever happens to two directories: what is in force is what a look at everything would find."""

from __future__ import annotations

import json
import mmap
import os
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from v010_adapter.host import paths

from ..rig.brief import MEMORY
from .hookdirs import Scene, in_force, unread

MASK, BAD, GONE = "empty", "bad", "gone"


class Life(Scene):
    """Two directories behind links, a store of files that are linked to, and programs.

    What should be in force is found by looking at everything, and by remembering the last good version of each file.
    """

    def __init__(self, base: Path) -> None:
        super().__init__(base)
        for name in ("real/one", "real/two", "real/three", "store", "host/bin", "host/opt"):
            self.mkdir(name)
        self.play("ln host/link /bin; ln one real/one; ln two real/two")
        self.places = [base / "one", base / "two"]
        self.before: dict[Path, Any] = {}
        """What each file said when it was good."""
        self.ahead = 0
        """Nanoseconds by which the clock is ahead of the files' times."""
        now = lambda: time.time_ns() + self.ahead  # noqa: E731
        self.directories = unread(*self.places, host_root=f"{base}/host", now=now)

    def hardlink(self, path: str, to: str) -> None:
        (self.base / path).hardlink_to(self.base / to)

    def fifo(self, path: str) -> None:
        os.mkfifo(self.base / path)

    def change(self, path: str) -> None:
        """Changes a file through a mapping of its memory."""
        with open(os.open(self.base / path, os.O_RDWR | os.O_NONBLOCK), "r+b") as file:
            if os.fstat(file.fileno()).st_size:
                with mmap.mmap(file.fileno(), 0) as mapped:
                    mapped[0] = ord("{") if mapped[0] != ord("{") else ord("[")
                os.utime(file.fileno())  # a tmpfs does not note the change

    def cut(self, path: str) -> None:
        os.truncate(self.base / path, os.stat(self.base / path).st_size // 2)

    def expected(self) -> tuple[dict[str, str], set[str]]:
        """The versions that should be in force by name, and the paths of what is bad."""
        good: dict[str, str] = {}
        bad = {str(place) for place in self.places if place.exists() and not place.is_dir()}
        there: dict[Path, Any] = {}
        for path in (path for place in self.places if place.is_dir() for path in place.glob("*.json")):
            said = says(path)
            if said in {BAD, GONE}:
                bad.add(str(path))
            there[path] = said = None if said == GONE else self.before.get(path) if said == BAD else said
            if said == MASK:
                good.pop(path.name, None)
            elif said is not None:
                version, program = said
                if (self.base / "host" / program[1:].replace("link", "bin")).is_file():
                    good[path.name] = version
                else:
                    bad.add(str(path))
        self.before = there
        return good, bad

    def look(self) -> None:
        expected, bad = self.expected()
        self.directories.current()  # a file may be empty because it is about to be written
        self.ahead = 2_000_000_000
        # Without this, the step of the last change would be over.
        with mock.patch.object(paths, "TIMESTAMP_STEP", paths.TIMESTAMP_STEP + self.ahead):
            assert in_force(self.directories) == expected
            assert self.directories.problems.keys() == bad
        self.ahead = 0


def says(path: Path) -> Any:
    """What a file says: a version and a program, or one of the words above."""
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


NAMES = st.sampled_from(["a.json", "b.json", "A.json", "a.JSON"])
PLACES = st.sampled_from(["one", "two"])
REAL = st.sampled_from(["real/one", "real/two", "real/three"])
FILES = st.builds("real/{}/{}".format, PLACES, NAMES)
STORED = NAMES.map("store/{}".format)
VERSIONS = st.integers(1, 10**6)
RUN = st.sampled_from(["/bin/p", "/opt/bin/q", "/link/p"])
WRITE = st.sampled_from(["write", "replace"])
LINKED = ["../../store/a.json", "../../store/b.json", "b.json", "nothing", "/dev/null", "."]
TARGETS = st.sampled_from(LINKED) | st.just("/dev/null")
PROGRAMS = st.sampled_from(["host/bin/p", "host/opt/bin/q"])
STEPS = st.one_of(
    st.builds("{} {} {} {}".format, WRITE, FILES | STORED, VERSIONS, RUN),
    st.builds("{} {} {} {}".format, WRITE, FILES, VERSIONS, RUN),
    st.builds("{} {} {}".format, WRITE, FILES | STORED, st.sampled_from(["", "{", "\n"])),
    st.builds("rm {}".format, FILES | STORED | REAL | PROGRAMS | st.just("host/opt/bin")),
    st.builds("mv {} {}".format, FILES, FILES),
    st.builds("ln {} {}".format, FILES, TARGETS),
    st.builds("hardlink {} {}".format, FILES, STORED),
    st.builds("{} {}".format, st.sampled_from(["fifo", "mkdir", "change", "cut"]), FILES),
    st.builds("ln {} {}".format, PLACES, REAL | st.sampled_from(["real", "nowhere", "store/a.json"])),
    st.builds("mv {} {}".format, REAL, REAL | st.just("real/four")),
    st.builds("mkdir {}".format, REAL),
    st.builds("touch {}".format, PROGRAMS),
)


@given(steps=st.lists(STEPS, min_size=12, max_size=40))
@settings(max_examples=150, deadline=None)
def test_what_is_in_force_is_what_there_is(steps: list[str]) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as base:
        life = Life(Path(base))
        for step in steps:
            with suppress(OSError):  # what is impossible does not happen
                life.play(step)
            life.look()
