"""A whole `Adapter` in a history: what stands in for processes that are watched, and for the owner's socket."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from adapter.daemon.owner_socket import OwnerSocket
from adapter.daemon.router import Adapter
from adapter.settings import HooksSettings, Settings

from ..link import Link
from .lives import Life

if TYPE_CHECKING:
    from .surges import Surges


class PodProcesses:
    """In place of watched processes: the node of the history knows which pids live."""

    def __init__(self, node: Surges, life: Life, on_exit: Callable[[str], object]) -> None:
        self.node, self.life, self._on_exit = node, life, on_exit
        self.watched: dict[str, int] = {}
        node.watchers.append(self)

    def watch(self, id_: str, pid: int) -> None:
        self.watched.setdefault(id_, pid)
        self.look()

    def forget(self, id_: str) -> None:
        self.watched.pop(id_, None)

    def look(self) -> None:
        for id_, pid in list(self.watched.items()):
            if pid not in self.node.pids.values():
                self.forget(id_)
                self.life.call_soon(partial(self._on_exit, id_))


class Whole(Adapter):
    """An adapter with the lock and the bridge of a life."""

    def __init__(self, node: Surges, life: Life) -> None:
        own = Settings(hooks=HooksSettings(enabled=False))
        super().__init__(life, own, [], "adapter", Link())  # type: ignore[arg-type]
        self.node, self.life = node, life

    def _begin(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("adapter.daemon.serving.Lock", lambda *_: self.life.owner)
            patch.setattr("adapter.daemon.serving.Bridge", lambda *_: self.life.bridge)
            patch.setattr("adapter.daemon.lease.OwnerSocket", partial(PlayedSocket, self.node))
            super()._begin()


class End:
    """One end of a connection between an adapter that waits and the owner."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.other = self
        self._data = b""
        self._is_closed = False
        life.on_end.append(self.close)

    def fileno(self) -> int:
        return id(self)

    def send(self, data: bytes) -> None:
        self.other._data += data
        self.other.life.become_ready(self.other.fileno())

    def recv(self, _size: int) -> bytes:
        if not (self._data or self.other._is_closed):
            raise BlockingIOError
        data, self._data = self._data, b""
        return data

    def close(self) -> None:
        self._is_closed = True
        self.life.on_end.remove(self.close)
        self.other.life.become_ready(self.other.fileno())


class PlayedSocket(OwnerSocket):
    """In place of the owner's socket and of the connections with it."""

    def __init__(self, node: Surges, life: Any, *arguments: Any) -> None:
        super().__init__(life, *arguments)
        self.node, self.life = node, life

    def open(self) -> None:
        self.close()
        self.node.listening = self

    def close(self) -> None:
        super().close()
        if self.node.listening is self:
            self.node.listening = None

    def connect(self) -> Any:
        owner = self.node.listening
        if owner is None or owner.life.is_dead:
            return None
        theirs, mine = End(self.life), End(owner.life)
        theirs.other, mine.other = mine, theirs
        owner._on_connection(mine)  # type: ignore[arg-type]
        return theirs
