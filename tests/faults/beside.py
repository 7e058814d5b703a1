"""Two adapters beside each other: only the owner's connection closes, again and again, while events flow."""

from __future__ import annotations

import random
import select
import socket
from contextlib import suppress
from pathlib import Path
from threading import Thread

from adapter.host.lock import first_locked
from tests.e2e.pod import HarnessError as Finding

from .node import NAME, Node
from .rows import Traffic, ends

INDEXES = ("00", "01")


class Proxy:
    """A socket between an adapter and the runtime, with one connection at a time."""

    def __init__(self, path: Path, runtime: Path) -> None:
        self.path, self._runtime = path, runtime
        self._pair: tuple[socket.socket, ...] = ()
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen()
        self._thread = Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):  # closed
            while True:
                adapter, runtime = self._listening.accept()[0], socket.socket(socket.AF_UNIX)
                with adapter, runtime, suppress(OSError):
                    runtime.connect(str(self._runtime))
                    self._pair = adapter, runtime
                    self._pass_on(adapter, runtime)
                self._pair = ()

    def _pass_on(self, adapter: socket.socket, runtime: socket.socket) -> None:
        other = {adapter: runtime, runtime: adapter}
        while True:
            for end in select.select(list(other), [], [])[0]:
                data = end.recv(1 << 16)
                if not data:
                    return
                other[end].sendall(data)

    def hang_up(self) -> None:
        for end in self._pair:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self.hang_up()
        self._thread.join()
        self._listening.close()


def hang_ups(node: Node, count: int, seed: int) -> str:
    """The runtime asks the adapter 00 first and 01 last; each is the owner for half of the time."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    node.terminate_externals()
    proxies = {index: Proxy(node.directory / f"{index}.sock", node.directory / "nri.sock") for index in INDEXES}
    pids: dict[str, str] = {}
    for index, proxy in proxies.items():
        node.start_external(index, proxy.path)
        pids[str(node.externals[-1].pid)] = index
    traffic, hung_up = Traffic(node, rng), dict.fromkeys(INDEXES, 0)

    def are_joined() -> bool:
        return len(node.joined()) == len(INDEXES)

    def owner() -> str:
        with (node.directory / "state/lock").open() as lock:
            is_held = first_locked(lock.fileno(), 0, 1) is not None  # the mark stays when the lock is released
            return pids.get(lock.read().split()[0], "") if is_held else ""

    def hang_up(pause: float) -> None:
        select.select([], [], [], pause)
        if index := owner():
            hung_up[index] += 1
            proxies[index].hang_up()

    def becomes_owner(index: str) -> bool:
        traffic.step()
        return owner() == index

    try:
        for number in range(count):
            node.until(are_joined, "both adapters")
            wanted = INDEXES[number * len(INDEXES) // count]
            if owner() != wanted:
                proxies[wanted].hang_up()  # the one that joins last becomes the owner
                node.until(lambda index=wanted: becomes_owner(index), f"the owner {wanted}")  # type: ignore[misc]
            closer = Thread(target=hang_up, args=(rng.uniform(0, 0.02),))
            closer.start()
            while closer.is_alive():
                traffic.step()
            closer.join()
            traffic.step()
        traffic.finish()
        node.until(lambda: not node.owed(), "an empty journal")
        notes = node.notes()
        if lost := [id_ for id_ in traffic.creates if not notes[f"create:{id_}"]]:
            raise Finding(f"creates lost: {lost}")
        return f"{traffic.events} events, {hung_up} hang-ups, {ends(node, *traffic.lives)}"
    finally:
        node.terminate_externals()
        for proxy in proxies.values():
            proxy.close()
        node.names = [NAME]
