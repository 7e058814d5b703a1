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

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from adapter.hooks.directory import Directories
from tests.hooks.hookdirs import in_force, text

NAMES = st.sampled_from(["a.json", "b.json", "A.json", "not.jsonx"])
PLACES = st.sampled_from(["one", "two"])
PROGRAMS = st.sampled_from(["/bin/p", "/opt/bin/q", "/link/p"])
MASK = "empty"

BAD, GONE = "bad", "gone"


class Model:
    """What is in force, found by looking at everything, and by remembering the last good version of each file."""

    def __init__(self, host: Path, places: Sequence[Path]) -> None:
        self._host = host
        self._places = places
        self._good: dict[Path, Any] = {}

    def in_force(self) -> tuple[dict[str, str], set[str]]:
        """The versions in force by name, and the paths of what is bad."""
        good: dict[str, str] = {}
        bad: set[str] = set()
        there: dict[Path, Any] = {}
        for place in self._places:
            if place.exists() and not place.is_dir():
                bad.add(str(place))
            for name in sorted(os.listdir(place)) if place.is_dir() else []:
                path = place / name
                if name.endswith(".json"):
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
        if stat.S_ISCHR(status.st_mode):
            return MASK
        if not stat.S_ISREG(status.st_mode):
            return BAD
        content = path.read_bytes()
        try:
            return (json.loads(content)["hook"]["args"][1], json.loads(content)["hook"]["path"]) if content else MASK
        except ValueError:
            return BAD


class Life(RuleBasedStateMachine):
    """Two directories behind links, a store of files that are linked to, and programs."""

    def __init__(self) -> None:
        super().__init__()
        self.base = Path(tempfile.mkdtemp())
        for name in ("real/one", "real/two", "real/three", "store", "host/bin", "host/opt"):
            (self.base / name).mkdir(parents=True)
        (self.base / "host" / "link").symlink_to("/bin")
        (self.base / "one").symlink_to("real/one")
        (self.base / "two").symlink_to("real/two")
        self.version = 0
        places = [self.base / "one", self.base / "two"]
        self.model = Model(self.base / "host", places)
        arguments = list(map(str, places)), str(self.base / "host")
        self.directories = Directories(*arguments, now=self.now)
        self.ahead = 0
        """Nanoseconds by which the clock is ahead of the files' times."""

    def now(self) -> int:
        return time.time_ns() + self.ahead

    def teardown(self) -> None:
        shutil.rmtree(self.base)

    def put(self, path: Path, content: bytes, in_one_step: bool) -> None:
        if in_one_step:
            self.move(self.fresh(content), path)
        elif path.is_file() or (path.parent.is_dir() and not os.path.lexists(path)):
            path.write_bytes(content)

    def fresh(self, content: bytes) -> Path:
        self.version += 1
        path = self.base / f"new-{self.version}"
        path.write_bytes(content)
        return path

    @staticmethod
    def move(old: Path, new: Path) -> None:
        def is_directory(path: Path) -> bool:
            return path.is_dir() and not path.is_symlink()

        possible = os.path.lexists(old) and new.parent.is_dir() and not is_directory(new)
        if possible and not (is_directory(old) and os.path.lexists(new)):
            old.rename(new)

    @staticmethod
    def remove(path: Path) -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def place(self, name: str) -> Path:
        return self.base / "real" / name

    @rule(place=PLACES, name=NAMES, program=PROGRAMS, in_one_step=st.booleans())
    def write(self, place: str, name: str, program: str, in_one_step: bool) -> None:
        self.version += 1
        self.put(self.place(place) / name, text(self.version, program), in_one_step)

    @rule(place=PLACES, name=NAMES, content=st.sampled_from([b"", b"{", b"\n"]), in_one_step=st.booleans())
    def spoil(self, place: str, name: str, content: bytes, in_one_step: bool) -> None:
        self.put(self.place(place) / name, content, in_one_step)

    @rule(place=PLACES, name=NAMES)
    def delete(self, place: str, name: str) -> None:
        self.remove(self.place(place) / name)

    @rule(place=PLACES, name=NAMES, other_place=PLACES, other=NAMES)
    def rename(self, place: str, name: str, other_place: str, other: str) -> None:
        self.move(self.place(place) / name, self.place(other_place) / other)

    @rule(
        place=PLACES,
        name=NAMES,
        to=st.sampled_from(["../../store/a.json", "../../store/b.json", "b.json", "nothing", "/dev/null", "."]),
    )
    def link(self, place: str, name: str, to: str) -> None:
        new = self.base / "new-link"
        new.symlink_to(to)
        self.move(new, self.place(place) / name)
        new.unlink(missing_ok=True)

    @rule(place=PLACES, name=NAMES, stored=NAMES)
    def hard_link(self, place: str, name: str, stored: str) -> None:
        path = self.place(place) / name
        if (self.base / "store" / stored).is_file() and path.parent.is_dir() and not os.path.lexists(path):
            path.hardlink_to(self.base / "store" / stored)

    @rule(name=NAMES, bad=st.booleans(), in_one_step=st.booleans())
    def write_stored(self, name: str, bad: bool, in_one_step: bool) -> None:
        self.version += 1
        self.put(self.base / "store" / name, b"{" if bad else text(self.version, "/bin/p"), in_one_step)

    @rule(name=NAMES)
    def delete_stored(self, name: str) -> None:
        self.remove(self.base / "store" / name)

    @rule(place=PLACES, name=NAMES, fifo=st.booleans())
    def make_special(self, place: str, name: str, fifo: bool) -> None:
        path = self.place(place) / name
        if path.parent.is_dir() and not os.path.lexists(path):
            if fifo:
                os.mkfifo(path)
            else:
                path.mkdir()

    @rule(link=PLACES, real=st.sampled_from(["real/one", "real/two", "real/three", "real", "nowhere", "store/a.json"]))
    def swap(self, link: str, real: str) -> None:
        new = self.base / "new-link"
        new.symlink_to(real)
        new.rename(self.base / link)

    @rule(place=PLACES, other=st.sampled_from(["one", "two", "three", "four"]))
    def rename_directory(self, place: str, other: str) -> None:
        self.move(self.place(place), self.place(other))

    @rule(place=st.sampled_from(["one", "two", "three"]))
    def delete_directory(self, place: str) -> None:
        self.remove(self.place(place))

    @rule(place=st.sampled_from(["one", "two", "three"]))
    def make_directory(self, place: str) -> None:
        self.place(place).mkdir(exist_ok=True)

    @rule(program=st.sampled_from(["bin/p", "opt/bin/q", "opt/bin"]))
    def make_or_remove_program(self, program: str) -> None:
        path = self.base / "host" / program
        if path.exists():
            self.remove(path)
        elif program == "opt/bin":
            path.mkdir()
        elif path.parent.is_dir():
            path.touch(0o755)

    @rule()
    def map_and_change(self) -> None:
        """A file that is changed through a mapping of its memory."""
        path = self.place("one") / "a.json"
        if path.is_file() and path.stat().st_size:
            with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
                mapped[0] = ord("{") if mapped[0] != ord("{") else ord("[")

    @rule()
    def cut_off(self) -> None:
        path = self.place("two") / "a.json"
        if path.is_file():
            os.truncate(path, path.stat().st_size // 2)

    @invariant()
    def what_is_in_force_is_what_there_is(self) -> None:
        expected, bad = self.model.in_force()
        self.directories.current()  # a file may be empty because it is about to be written
        self.ahead = 2_000_000_000
        assert in_force(self.directories) == expected
        assert {path for path, _ in self.directories.problems} == bad
        self.ahead = 0


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
