"""What else may happen while a container is held: deadlines, cancelled calls, deleted pods, signals, joins, statistics.

Nothing may execute after its delete. How long others wait is printed.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Thread

from tests.e2e.held import held
from tests.e2e.holding import TOLD, Start
from tests.e2e.launched import Launched
from tests.e2e.pod import CONTAINER, NAMESPACES, STATE, Cri, HarnessError, Sandbox, until
from tests.e2e.runtimes import Crio, Runtime
from tests.peers.build import peer

SIGNALS = {"command": ["/bin/sh", "-c", "while :; do kill -CONT -1; echo sent; sleep 0.01; done"]}
MANY = 100
"""Signals after which one would have had an effect."""
HOLDS_FOR = 4.0
"""Seconds of the holds that others may wait for."""
EXPECTED = ("has come while the container was held", "the container's process has ended while it was held")
"""Errors in the log that are the faults of this run."""


class Timed(Thread):
    """A call that runs beside others, and how long it takes."""

    def __init__(self, call: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._call = call
        self.seconds = 0.0
        self.has_failed = False
        self.start()

    def run(self) -> None:
        began = time.monotonic()
        try:
            self._call()
        except HarnessError:
            self.has_failed = True
        self.seconds = time.monotonic() - began

    def ended(self, what: str) -> float:
        """Waits for its end; returns the seconds that it has taken."""
        self.join(90)
        if self.is_alive():
            raise HarnessError(f"{what} does not end")
        return self.seconds


def say(text: str) -> None:
    print(f"    {text}", file=sys.stderr, flush=True)


def play(runtime: Runtime, cri: Cri, adapter: Launched) -> Iterator[str]:
    yield from _deadline(runtime, cri, adapter)
    yield from _cancelled(runtime, cri, adapter)
    yield from _deleted(runtime, cri, adapter)
    yield from _signals(runtime, cri, adapter)
    _statistics(cri, adapter)
    _join(cri, adapter)


def _deadline(runtime: Runtime, cri: Cri, adapter: Launched) -> Iterator[str]:
    """The deadline of the CRI call passes. containerd ends the start; CRI-O starts the container after it."""
    pod = cri.run_pod("deadline")
    start = held(cri, pod, "deadline", adapter, ("-t", "3s"))
    start.join(60)
    if not start.error:
        yield "a start that is held does not end at the deadline of the call"
    if isinstance(runtime, Crio):
        if start.has_run():
            yield "a container runs before its plugin is done, after the deadline of the call"
        start.tell("go")
        until(start.has_run, "the container to run after the deadline of its call")
    else:
        start.tell("go")
        yield from _never(start)
    cri("rmp", "-f", pod.id)


def _cancelled(runtime: Runtime, cri: Cri, adapter: Launched) -> Iterator[str]:
    """The client gives the call up, and the pod is deleted then."""
    pod = cri.run_pod("cancelled")
    start = held(cri, pod, "cancelled", adapter)
    start.cancel()
    yield from _delete(runtime, cri, pod, start)


def _deleted(runtime: Runtime, cri: Cri, adapter: Launched) -> Iterator[str]:
    """The pod is deleted while the call waits."""
    pod = cri.run_pod("deleted")
    start = held(cri, pod, "deleted", adapter)
    yield from _delete(runtime, cri, pod, start)


def _delete(runtime: Runtime, cri: Cri, pod: Sandbox, start: Start) -> Iterator[str]:
    """Deletes the pod of a container that is held. CRI-O does so after the hold: the program ends before its delete."""
    removal = Timed(lambda: until(partial(_is_removed, cri, pod), "the pod to be removed"))
    if isinstance(runtime, Crio):
        start.tell("go")
        removal.ended("the removal of the pod")
    else:
        removal.ended("the removal of the pod")
        start.tell("go")
        yield from _never(start)
    if start.id in cri("ps", "-a", "-q"):
        yield f"{start.name}: the pod is not deleted"
    if running := processes(start.id):
        yield f"{start.name}: it runs after its pod has been deleted: {running}"
    until((TOLD / f"{start.name}-deleted").exists, f"the delete of {start.name}")


def _is_removed(cri: Cri, pod: Sandbox) -> bool:
    """Whether the pod could be removed: containerd refuses that while the start of a container has not ended."""
    with suppress(HarnessError):
        cri("rmp", "-f", pod.id)
    return pod.id not in cri("pods", "-q", "--no-trunc")


def _never(start: Start) -> Iterator[str]:
    """The container's process ends, and has not become its program."""
    until(lambda: not processes(start.id), f"the end of {start.name}")
    if start.has_run():
        yield f"{start.name}: it must not run, and has run"


def _signals(runtime: Runtime, cri: Cri, adapter: Launched) -> Iterator[str]:
    """Another container sends SIGCONT to all of its PID namespace, again and again: the pod's, on CRI-O the node's."""
    pids = 2 if isinstance(runtime, Crio) else 0  # CRI-O's pause needs CAP_SYS_RESOURCE
    security = {"security_context": {"namespace_options": NAMESPACES | {"pid": pids}}}
    linux = {"linux": CONTAINER["linux"] | security}
    pod = cri.run_pod("signals", security)
    cri("start", cri.create(pod, "free-sender", **SIGNALS, **linux))
    start = held(cri, pod, "signals", adapter, more=linux)
    before = _sent()
    until(lambda: _sent() >= before + MANY, "the signals")
    if start.has_run():
        yield "signals: the program runs before its plugin is done"
    if not start.is_alive():
        yield f"signals: the start has ended while it was held: {start.error}"
    start.tell("go")
    yield from start.faults(starts=True)
    cri("rmp", "-f", pod.id)


def _sent() -> int:
    """Returns how often the sender has sent signals."""
    return sum(
        line.endswith(" sent")
        for log in (STATE / "logs" / "signals").glob("*")
        for line in log.read_text().splitlines()
    )


def _statistics(cri: Cri, adapter: Launched) -> None:
    """The kubelet's metrics."""
    pod = cri.run_pod("statistics")
    cri("start", cri.create(pod, "free"))
    start = held(cri, pod, "statistics", adapter)
    calls = {"stats": ("stats", "-a"), "statsp": ("statsp",), "ps": ("ps", "-a"), "inspect": ("inspect", start.id)}
    timed = {name: Timed(partial(cri, *words)) for name, words in calls.items()}
    time.sleep(HOLDS_FOR)  # so long a hold is the subject
    waiting = [name for name, call in timed.items() if call.is_alive()]
    start.tell("go")
    times = ", ".join(f"{name} {call.ended(name):.2f} s" for name, call in timed.items())
    say(f"while a container is held for {HOLDS_FOR:g} s: {times}; until its end: {', '.join(waiting) or 'none'}")
    start.join()
    cri("rmp", "-f", pod.id)


def _join(cri: Cri, adapter: Launched) -> None:
    """Another NRI plugin joins, and another pod's container starts."""
    pod, other = cri.run_pod("join"), cri.run_pod("other")
    free = cri.create(other, "free")
    start = held(cri, pod, "join", adapter)
    seen = STATE / "joined.jsonl"
    line = [str(peer("recorder")), "-idx", "95", "-name", "joins", "-socket", "/run/nri/nri.sock", "-out", str(seen)]
    joins, began = subprocess.Popen(line, stderr=subprocess.DEVNULL), time.monotonic()
    try:
        until(lambda: seen.exists() and '"Configure"' in seen.read_text(), "the plugin to be configured")
        waits = Timed(lambda: cri("start", free))
        time.sleep(HOLDS_FOR)  # so long a hold is the subject
        has_joined = _has_joined(seen)
        start.tell("go")
        until(partial(_has_joined, seen), "the plugin to join")
        took, seconds = time.monotonic() - began, waits.ended("the start of another pod's container")
        say(
            f"while one is held for {HOLDS_FOR:g} s, a plugin joins: it has joined before the end: {has_joined}, "
            f"after {took:.1f} s; another pod's start takes {seconds:.2f} s"
        )
        start.join()
    finally:
        joins.kill()
        joins.wait()
    cri("rmp", "-f", pod.id)
    cri("rmp", "-f", other.id)


def _has_joined(seen: Path) -> bool:
    return seen.exists() and '"Synchronize"' in seen.read_text()


def processes(id_: str) -> list[str]:
    """Returns the command lines of the processes in a container's cgroup."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if id_ in (path / "cgroup").read_text() and (line := (path / "cmdline").read_bytes()):
                found.append(line.replace(b"\0", b" ").decode())
    return found
