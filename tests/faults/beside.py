"""External adapters beside each other, and what only an external one meets."""

from __future__ import annotations

import os
import random
import select
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event, Thread

from tests.e2e.pod import HarnessError as Finding
from tests.peers.harness import GoRuntime
from v010_adapter.events.deletes import SECOND_LOOK

from .node import LIMIT, NAME, STEPS, GoNode, PodLife
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


def hang_ups(node: GoNode, count: int, seed: int) -> str:
    """The runtime asks the adapter 00 first and 01 last; each loses its connection for half of the time."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    node.terminate_externals()
    proxies = {index: Proxy(node.directory / f"{index}.sock", node.directory / "nri.sock") for index in INDEXES}
    for index, proxy in proxies.items():
        node.start_external(index, proxy.path)
    traffic, hung_up = Traffic(node, rng), dict.fromkeys(INDEXES, 0)

    def are_joined() -> bool:
        return len(node.joined()) == len(INDEXES)

    def hang_up(index: str, pause: float) -> None:
        select.select([], [], [], pause)
        hung_up[index] += 1
        proxies[index].hang_up()

    try:
        for _ in range(count):
            node.until(are_joined, "both adapters")
            closer = Thread(target=hang_up, args=(rng.choice(INDEXES), rng.uniform(0, 0.02)))
            closer.start()
            while closer.is_alive():
                traffic.step()
            closer.join()
            traffic.step()
        traffic.finish()
        notes = node.notes()
        if lost := [id_ for id_ in traffic.creates if not notes[f"create:{id_}"]]:
            raise Finding(f"creates lost: {lost}")
        return f"{traffic.events} events, {hung_up} hang-ups, {ends(node, *traffic.lives)}"
    finally:
        node.terminate_externals()
        for proxy in proxies.values():
            proxy.close()
        node.names = [NAME]


def two(node: GoNode) -> None:
    """Starts two adapters in place of those that run: 00, which the runtime asks first, and 01."""
    node.terminate_externals()
    for index in INDEXES:
        node.start_external(index)
    both_join(node)


def both_join(node: GoNode) -> None:
    node.until(lambda: len(node.joined()) == len(INDEXES), "both adapters")


@contextmanager
def hanging(node: GoNode, index: str, *, is_killed: bool) -> Iterator[None]:
    """One of two adapters hangs. The runtime drops or keeps it, according to its version.

    It goes on after that, or a watchdog kills it, and a service manager starts it again.
    """
    process = node.externals[INDEXES.index(index)]
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGKILL if is_killed else signal.SIGCONT)
    if is_killed:
        process.wait()
        node.start_external(index)
        node.externals[INDEXES.index(index)] = node.externals.pop()
    both_join(node)


def end_two(node: GoNode) -> None:
    node.terminate_externals()
    node.start_external()
    node.rejoins()


def hang(node: GoNode, index: str, *, is_killed: bool = False) -> str:
    """An event takes the time of two requests while an adapter hangs, and what is served then is not repeated."""
    two(node)
    old, new, short = lives = [PodLife.make(f"{word}-{index}-{is_killed}") for word in ("old", "new", "short")]
    for event in STEPS[:2]:
        node.play(event, old)
    with hanging(node, index, is_killed=is_killed):
        for event, life in (*((event, new) for event in STEPS[:2]), ("StopContainer", old), ("RunPodSandbox", short)):
            if error := node.play(event, life, 2 * LIMIT).error:
                raise Finding(f"{event}: {error}")
    for event, life in (("StartContainer", short), *((event, life) for life in lives for event in STEPS[2:])):
        if life is not old or event != "StopContainer":
            node.play(event, life)
    figures = ends(node, *lives)
    end_two(node)
    return figures


def hang_in_a_create(node: GoNode) -> str:
    """The one that hangs has the lock of the id: the other one waits until its own deadline, and refuses."""
    two(node)
    life = PodLife.make("held")
    node.play("RunPodSandbox", life)
    stopped = Event()

    def stop() -> None:
        os.kill(node.externals[0].pid, signal.SIGSTOP)
        stopped.set()

    with node.fault("create", life, "hold", stop):
        error = node.play("StartContainer", life, 2 * LIMIT).error
    os.kill(node.externals[0].pid, signal.SIGCONT)
    both_join(node)
    if not stopped.is_set() or "another adapter, which works on" not in error:
        raise Finding(f"{error!r}")
    for event in STEPS[2:]:
        node.play(event, life)
    figures = ends(node, life)
    end_two(node)
    return figures


def two_runtimes(node: GoNode) -> str:
    """With one state directory. Neither lists what the other one runs, and nothing of it gets a delete."""
    node.until(lambda: len(node.joined()) == 1, "the adapter")
    life = PodLife.make("kept")
    node.plays(life, *STEPS[:2])
    folder = node.directory / "other"
    folder.mkdir()
    with GoRuntime(folder, node.version) as other:
        other.open(runtime=("other", "1.0.0"))
        if error := other.play("start").error:
            raise Finding(error)
        node.start_external("00", other.socket)
        node.until(lambda: other.play("plugins").plugins, "the adapter of the other runtime")
        select.select([], [], [], SECOND_LOOK + 1)
        node.externals.pop().kill()
    if deleted := [note for note in node.notes() if note.startswith("delete:") and note.endswith("-kept")]:
        raise Finding(f"deletes of what lives: {deleted}")
    node.plays(life, *STEPS[2:])
    return ends(node, life)


def full(node: GoNode) -> str:
    """The disk of the state directory is full at a create, and has room again before the adapter is killed."""

    def fault(filler: Path, life: PodLife) -> None:
        if node.owed():
            raise Finding("the disk is not full")
        filler.unlink()
        node.until(lambda: len(node.owed()) == len(life), "the records")

    return _on_full_disk(node, "1m", fault)


def filled(node: GoNode) -> str:
    """Others have filled the disk of the state directory, and it stays so: the adapter has a reserve."""

    def fault(_: Path, life: PodLife) -> None:
        if len(node.owed()) < len(life):
            raise Finding("the reserve was not used")

    return _on_full_disk(node, "8m", fault)


def _on_full_disk(node: GoNode, size: str, fault: Callable[[Path, PodLife], None]) -> str:
    """The adapter has joined when the disk gets full. It is killed after the creates, and after `fault`."""
    node.terminate_externals()
    state = node.directory / "state"
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "none", state], check=False).returncode:
        node.start_external()
        node.rejoins()
        return "not done: this process may not mount"
    try:
        node.start_external()
        node.rejoins()
        filler = state / "filler"
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        life = PodLife.make("full")
        node.plays(life, *STEPS[:2])
        fault(filler, life)
        node.kill()
        node.rejoins()
        node.plays(life, *STEPS[2:])
        return ends(node, life)
    finally:
        node.terminate_externals()
        subprocess.run(["umount", "-l", state], check=True)
        node.start_external()
        node.rejoins()


def long_delete(node: GoNode) -> str:
    """A delete outlasts the adapter's end: its plugin is left to finish, and no other adapter runs it again."""
    node.terminate_externals()
    settings = node.directory / "settings"
    text = settings.read_text()
    settings.write_text(text.replace("lateLimit: 3", "lateLimit: 60"))
    node.start_external()
    node.rejoins()
    settings.write_text(text)
    life = PodLife.make("long")
    node.plays(life, *STEPS[:2])
    with node.fault("delete", life, "long", node.externals[-1].terminate):
        node.play("StopContainer", life, 2 * LIMIT)
    node.externals[-1].wait()
    node.start_external()
    node.rejoins()
    node.plays(life, *STEPS[3:])
    return ends(node, life)


BESIDE: dict[str, Callable[[GoNode], str]] = {
    "the oldest of two hangs": partial(hang, index="00"),
    "the newest of two hangs": partial(hang, index="01"),
    "the oldest of two hangs, then SIGKILL": partial(hang, index="00", is_killed=True),
    "the newest of two hangs, then SIGKILL": partial(hang, index="01", is_killed=True),
    "one of two hangs in a create": hang_in_a_create,
    "two runtimes": two_runtimes,
    "a full state directory, then SIGKILL": full,
    "a full state directory with a reserve, then SIGKILL": filled,
    "SIGTERM during a delete of 12 s": long_delete,
}
