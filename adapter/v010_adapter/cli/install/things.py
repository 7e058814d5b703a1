"""The links and files of an installation. Each can tell its state on the node, and be made and removed.

A dry run prints the `content`. `make` also makes the directories above the thing, and replaces an old thing. The
methods and `changes` raise OSError.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple, TypeAlias

from v010_adapter.cli.systems import PLUGINS
from v010_adapter.cli.terminal import show
from v010_adapter.host import paths
from v010_adapter.host.paths import in_root

DIRECTORIES = PLUGINS, "/opt/nri", "/etc/nri", "/etc/systemd/system/multi-user.target.wants"
"""The directories that installations make, inner directories first. They are removed when they are empty."""


class State(Enum):
    """The state of a thing on the node."""

    MISSING = auto()
    CURRENT = auto()
    OLD = auto()
    """Another installation of the adapter has made it."""
    FOREIGN = auto()
    """Somebody else has made it, or has changed it."""


@dataclass(frozen=True)
class _Thing:
    """A link or a file. `path` is the node's, whose files are below the directory `root`."""

    root: str
    path: str

    @property
    def place(self) -> str:
        """The thing's path for this process. For a link, it is the link's own path."""
        return in_root(self.root, self.path, follow=False)

    def remove(self) -> None:
        """Removes the thing, and directories that are then empty."""
        os.unlink(self.place)
        for directory in DIRECTORIES:
            with contextlib.suppress(OSError):
                os.rmdir(in_root(self.root, directory, follow=False))


@dataclass(frozen=True)
class Link(_Thing):
    """A link. If its target has the adapter's name, an installation has made it; but upstream's adapter is a binary."""

    target: str

    @property
    def content(self) -> str:
        return f"-> {self.target}"

    def state(self) -> State:
        if not os.path.lexists(self.place):
            return State.MISSING
        target = os.readlink(self.place) if os.path.islink(self.place) else ""
        if target == self.target:
            return State.CURRENT
        file = in_root(self.root, self.path)
        is_namesake = os.path.basename(target) == os.path.basename(self.target)
        is_ours = is_namesake and not (os.path.isfile(file) and paths.is_binary(file))
        return State.OLD if is_ours else State.FOREIGN

    def make(self) -> None:
        os.makedirs(os.path.dirname(self.place), 0o755, exist_ok=True)
        if os.path.lexists(self.place):
            os.unlink(self.place)  # not os.replace: a runtime that starts then would refuse the new link's first name
        os.symlink(self.target, self.place)


@dataclass(frozen=True)
class File(_Thing):
    """A text file. `is_ours` returns whether an installation has written a file with this content."""

    content: str
    is_ours: Callable[[str], bool]

    def state(self) -> State:
        try:
            text = paths.read(in_root(self.root, self.path), paths.MAX_INPUT)[0].decode("utf-8", "replace")
        except FileNotFoundError:
            return State.FOREIGN if os.path.islink(self.place) else State.MISSING
        except ValueError:  # not a regular file
            return State.FOREIGN
        if text == self.content:
            return State.CURRENT
        return State.OLD if self.is_ours(text) else State.FOREIGN

    def make(self) -> None:
        write(self.place, self.content)


def write(place: str, text: str, mode: int = 0o644) -> None:
    """Makes or replaces a file as a whole, and makes the directories above it."""
    os.makedirs(os.path.dirname(place), 0o755, exist_ok=True)
    new = f"{place}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(new)  # perhaps a link
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), mode)
        file.write(text)
    os.replace(new, place)


Thing: TypeAlias = Link | File

_RESULTS = {State.MISSING: "made", State.OLD: "replaced", State.CURRENT: "is there", State.FOREIGN: "kept"}
_PLANNED = {"made": "would make", "replaced": "would replace", "removed": "would remove"}


class Action(NamedTuple):
    """A thing, and what was done with it, or would be done in a dry run."""

    thing: Thing
    result: str

    @property
    def is_change(self) -> bool:
        return self.result in _PLANNED

    @property
    def described(self) -> dict[str, object]:
        """The action for JSON."""
        return {"path": self.thing.path, "result": self.result, "changed": self.is_change}

    def show(self, *, dry_run: bool) -> None:
        why = ": `install` has not made it, or it was changed" if self.result == "kept" else ""
        show(f"{_PLANNED.get(self.result, self.result) if dry_run else self.result:14}{self.thing.path}{why}")
        if dry_run and self.result in ("made", "replaced"):
            show(*(f"    {line}".rstrip() for line in self.thing.content.splitlines()))


def changes(wanted: Sequence[Thing], unwanted: Sequence[Thing], *, dry_run: bool) -> Iterator[Action]:
    """Makes the wanted things, removes the unwanted ones that an installation has made, and yields each action."""
    for thing in wanted:
        action = Action(thing, _RESULTS[thing.state()])
        if action.is_change and not dry_run:
            thing.make()
        yield action
    for thing in unwanted:
        state = thing.state()
        if state in (State.CURRENT, State.OLD) and not dry_run:
            thing.remove()
        if state is not State.MISSING:
            yield Action(thing, "kept" if state is State.FOREIGN else "removed")
