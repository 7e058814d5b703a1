"""Random runs with real processes: one to three adapters, pods that come and go, faults of all kinds.

python -m tests.faults.runs NUMBER [FIRST SEED]
"""

from __future__ import annotations

import os
import random
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from threading import Thread

from tests.e2e.pod import HarnessError as Finding
from tests.peers.build import PeerMissing, peer

from .node import LIMIT, VERSIONS, GoNode
from .rows import Traffic, ends

Span = tuple[float, float]

EVENTS = 20
"""At least so many come for each fault."""
SETTLED = 10
"""So many events after its start an adapter has read all records: it reads some in each turn of its loop."""
TOLERATED = "another adapter, which works on", "no result within"
"""Parts of the errors of events whose lock was not to be had in time, and that came while the adapter was stopped."""


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


class Adapter:
    """One of the adapters. A service manager starts it again."""

    def __init__(self, node: GoNode, index: str) -> None:
        self._node, self._index = node, index
        self._proxy = Proxy(node.directory / f"{index}.sock", node.directory / "nri.sock")
        self.moments: list[float] = []
        """When it was stopped or killed."""
        self.removals: list[tuple[float, float]] = []
        """When state directories were moved away, from and to."""
        self.kills = 0
        self._start()

    def _start(self) -> None:
        self._node.start_external(self._index, self._proxy.path)
        self._process = self._node.externals.pop()

    def _send(self, number: signal.Signals) -> None:
        if number in {signal.SIGKILL, signal.SIGSTOP}:
            self.moments.append(time.monotonic())
        self._process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        self.kills += number is signal.SIGKILL
        self._send(number)
        self._process.wait()
        self._start()

    def kill(self, _: float) -> None:
        self._end(signal.SIGKILL)

    def term(self, _: float) -> None:
        self._end(signal.SIGTERM)

    def hang(self, seconds: float) -> None:
        self._send(signal.SIGSTOP)
        select.select([], [], [], seconds)
        self._send(signal.SIGCONT)

    def hang_and_kill(self, seconds: float) -> None:
        self._send(signal.SIGSTOP)
        select.select([], [], [], seconds)
        self._end(signal.SIGKILL)

    def lose(self, _: float) -> None:
        self._proxy.hang_up()

    def without_state(self, _: float) -> None:
        begin = time.monotonic()
        for path in (self._node.directory / "state").glob("*.*"):
            # At once: a record that is missing from a directory in use means that another adapter has run its deletes.
            shutil.rmtree(path.rename(self._node.directory / f"removed-{begin}-{path.name}"))
        self.removals.append((begin, time.monotonic()))
        select.select([], [], [], 2.5)  # each adapter writes within a second what it knows

    def close(self) -> None:
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        self._process.wait()
        self._proxy.close()


FAULTS: tuple[Callable[[Adapter, float], None], ...] = (
    *(Adapter.kill, Adapter.kill, Adapter.term, Adapter.hang, Adapter.hang_and_kill, Adapter.lose),
    Adapter.without_state,
)


def run(seed: int, directory: Path, marks: Counter[str]) -> str:
    """Plays one run; raises a Finding if the promise is broken."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    node = GoNode(directory, "external", rng.choice(VERSIONS))
    adapters: list[Adapter] = []
    try:
        node.start_runtime()
        adapters += [Adapter(node, f"{index:02}") for index in range(rng.choice((1, 2, 2, 3)))]
        traffic = Traffic(node, rng, limit=(len(adapters) + 1) * LIMIT, tolerated=TOLERATED)
        spans, was_removed = [(0.0, 0.0)], False

        def joined() -> bool:
            return len(node.joined()) == len(adapters)

        node.until(joined, "all adapters")
        for number in range(1, rng.choice((2, 4, 6)) + 1):
            for _ in range(SETTLED):
                traffic.step()
            fault, begin = rng.choice(FAULTS), time.monotonic()
            marks[fault.__name__] += 1
            was_removed |= fault is Adapter.without_state
            of = rng.choice(adapters), rng.choice((0.05, 1.0, 5.0))
            thread = Thread(target=fault, args=of)
            thread.start()
            while thread.is_alive() or traffic.events < EVENTS * number:
                traffic.step()
            thread.join()
            node.until(joined, f"all adapters after {fault.__name__}")
            spans.append((begin, time.monotonic()))
        traffic.finish()
        kills, moments = sum(adapter.kills for adapter in adapters), [at for one in adapters for at in one.moments]
        if was_removed and len(adapters) > 1:  # each makes the records again that it knows
            kills = len(node.notes())
        removals = [at for one in adapters for at in one.removals]
        under_way = {part["id"] for life, span in traffic.spans if is_near(span, removals) for part in life}
        figures = ends(node, *traffic.lives, kills=kills, excused=under_way)
        late = answered_late(node.log())
        if len(adapters) > 1:  # else nobody is there
            spans = [(at, at) for at in moments] + [(at, at + 1) for at in late]  # until it has joined again
        notes = node.notes()
        lost = [id_ for id_ in traffic.creates if not notes[f"create:{id_}"]]
        for id_ in lost:
            if not is_near(traffic.creates[id_], spans):
                raise Finding(f"{figures}; lost though no fault was near: {id_}")
        figures = f"{traffic.events} events, {len(late)} answered late, {figures}, {len(lost)} creates lost"
        return f"{node.version}, {len(adapters)} adapters, {figures}"
    finally:
        for adapter in adapters:
            adapter.close()
        node.close()


def answered_late(log: str) -> list[float]:
    """When an adapter told that it did not get the processor in time, as time.monotonic() counts."""
    lines = [line for line in log.splitlines() if "was answered after its deadline" in line]
    times = [datetime.strptime(line[:23], "%Y-%m-%d %H:%M:%S,%f").timestamp() for line in lines]
    return [at - time.time() + time.monotonic() for at in times]


def is_near(span: Span, others: Iterable[Span]) -> bool:
    """Whether a span of time has a moment in common with one of the others."""
    begin, end = span
    return any(begin <= until and since <= end for since, until in others)


def main() -> int:
    number = int(sys.argv[1])
    first = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
    try:
        for version in VERSIONS:
            peer("runtime", version)
    except PeerMissing as missing:
        print(f"no random runs here: {missing}")
        return int(os.environ.get("REQUIRE_PEERS") == "1")
    marks, bad = Counter[str](), 0
    for seed in range(first, first + number):
        with tempfile.TemporaryDirectory(prefix="runs-", ignore_cleanup_errors=True) as directory:
            try:
                print(f"{seed}: {run(seed, Path(directory), marks)}", flush=True)
            except (Finding, RuntimeError, OSError) as error:
                bad += 1
                log = Path(directory, "log")
                print(f"{seed}: FAILED {error!r}\n{log.read_text()[-4000:] if log.exists() else ''}", flush=True)
    print(f"{number} runs from {first}, {bad} failed; faults: {dict(marks)}")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
