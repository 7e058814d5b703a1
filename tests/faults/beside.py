"""External adapters beside each other, and what only an external one meets."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event

from tests.e2e.pod import HarnessError as Finding
from tests.peers.harness import GoRuntime
from v010_adapter.events.deletes import SECOND_LOOK

from .node import LIMIT, STEPS, GoNode, PodLife
from .rows import ends

INDEXES = ("00", "01")


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
