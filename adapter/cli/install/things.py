"""What an installation is made of: links and files of the node, each of which knows how far it is there."""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from adapter.host import paths
from adapter.host.paths import in_root

DIRECTORIES = "/opt/nri/plugins", "/opt/nri", "/etc/nri", "/etc/systemd/system/multi-user.target.wants"
"""The directories that installations make, the inner ones first. They are removed when nothing is left in them."""
_ELF = b"\x7fELF"
"""The first bytes of a binary."""


class State(Enum):
    """How far a thing is there."""

    MISSING = auto()
    CURRENT = auto()
    OLD = auto()
    """Another installation of the adapter has made it."""
    FOREIGN = auto()
    """Somebody else has made it, or has changed it."""


@dataclass(frozen=True)
class Thing(ABC):
    """A link or a file. `path` is the node's, whose files are below the directory `root`."""

    root: str
    path: str

    @property
    def place(self) -> str:
        """Where the thing is for this process. If it is a link, this is the link's own place."""
        return in_root(self.root, self.path, follow=False)

    @property
    @abstractmethod
    def content(self) -> str:
        """What people see of the thing before it is made."""

    @abstractmethod
    def state(self) -> State:
        """Returns how far the thing is there. Raises OSError."""

    @abstractmethod
    def make(self) -> None:
        """Makes the thing and the directories above it, in place of an old one. Raises OSError."""

    def remove(self) -> None:
        """Removes the thing, and the directories that are empty then. Raises OSError."""
        os.unlink(self.place)
        for directory in DIRECTORIES:
            with contextlib.suppress(OSError):
                os.rmdir(in_root(self.root, directory, follow=False))


@dataclass(frozen=True)
class Link(Thing):
    """A symbolic link. A link to any file of the same name is an adapter's, unless it is a binary: upstream's."""

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
        is_ours = os.path.basename(target) == os.path.basename(self.target) and not self._leads_to_binary()
        return State.OLD if is_ours else State.FOREIGN

    def _leads_to_binary(self) -> bool:
        file = in_root(self.root, self.path)
        if not os.path.isfile(file):
            return False
        with open(file, "rb") as opened:
            return opened.read(len(_ELF)) == _ELF

    def make(self) -> None:
        os.makedirs(os.path.dirname(self.place), 0o755, exist_ok=True)
        if os.path.lexists(self.place):
            os.unlink(self.place)  # no rename: a runtime that starts meanwhile refuses a link of another name
        os.symlink(self.target, self.place)


@dataclass(frozen=True)
class File(Thing):
    """A text file. `is_ours` tells from its content whether an installation has written it."""

    text: str
    is_ours: Callable[[str], bool]

    @property
    def content(self) -> str:
        return self.text

    def state(self) -> State:
        try:
            text = paths.read(in_root(self.root, self.path), paths.MAX_INPUT)[0].decode("utf-8", "replace")
        except FileNotFoundError:
            return State.FOREIGN if os.path.islink(self.place) else State.MISSING
        except ValueError:  # not a regular file: to open a FIFO could take for ever
            return State.FOREIGN
        if text == self.text:
            return State.CURRENT
        return State.OLD if self.is_ours(text) else State.FOREIGN

    def make(self) -> None:
        os.makedirs(os.path.dirname(self.place), 0o755, exist_ok=True)
        new = f"{self.place}.new"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)  # perhaps a link
        with open(new, "x", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(self.text)
        os.replace(new, self.place)
