"""Scenarios that runtimes' own suites name, with the adapter beside a real runtime, and a plugin at all events."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.daemon.process import children_of
from tests.e2e import plugins
from tests.e2e.adjusting import shares
from tests.e2e.beside import COMMAND, Beside, status
from tests.e2e.conformer import EVENTS, REFUSAL, SHARES
from tests.e2e.gate import Gate
from tests.e2e.pod import STATE, Cri, HarnessError, until
from tests.e2e.runtimes import Crio, Runtime

PROGRAM = Path(__file__).with_name("conformer.py")
FOLDER = STATE / "conformer"
CONF = Path("/etc/nri/legacy/conf.json")
SETTINGS = f"legacy: {{config: {CONF}, plugins: {{conformer: {{events: [{', '.join(EVENTS)}]}}}}}}\n"
LIFE = [event for event in EVENTS if not event.endswith("PodSandbox")]  # the events of a container that is updated once
CREATION = "CreateContainer within sandbox", "Creating container: "
"""What containerd and CRI-O log when they begin with a creation."""
REFUSED = f"plugin: conformer: {REFUSAL}"  # what the adapter and the runtime say of a refused creation


def prepare(runtime: Runtime) -> None:
    """Installs the plugin; the runtime waits for plugins longer than a busy machine stands still."""
    runtime.request_timeout = "60s"
    FOLDER.mkdir()
    plugins.install(CONF, PROGRAM, str(FOLDER))


class Node:
    def __init__(self, runtime: Runtime, cri: Cri, adapter: Beside) -> None:
        self.runtime = runtime
        self.cri = cri
        self.adapter = adapter
        self.pod = cri.run_pod()

    def create(self, name: str) -> str:
        return self.cri.create(self.pod, name)

    def end(self, id_: str) -> None:
        self.cri("stop", "--timeout", "0", id_)
        until(lambda: "StopContainer" in events(id_), "the container's StopContainer event")
        self.cri("rm", id_)

    @property
    def has(self) -> set[str]:
        return {*self.cri("pods", "-q").split(), *self.cri("ps", "-a", "-q").split()}

    @property
    def owed(self) -> int:
        """How many pods and containers the adapter owes a delete."""
        return int(status()["owed"])


def play(runtime: Runtime, cri: Cri, adapters: Sequence[Beside]) -> Iterator[str]:
    """Plays the scenarios with two adapters of one name; yields, in sentences, what differs from the documentation."""
    node = Node(runtime, cri, adapters[0])
    other = _created_during_synchronize(node)
    yield from _refused(node, "CreateContainer", lambda: node.create("c2"))
    yield from _refused(node, "RunPodSandbox", lambda: node.cri.run_pod("p2").id)
    yield from _updates_of_another(node, other)
    if runtime.takes_every_adjustment:
        yield from _refused_registration()
    third = yield from _served_by_two(node, adapters)
    node.end(other)
    node.cri.end_pod(node.pod.id)
    may_miss = isinstance(runtime, Crio)  # which goes on with the creation when the adapter has only just answered
    for what, id_, missed in (("created during Synchronize", other, may_miss), ("served by two adapters", third, 0)):
        if events(id_) not in (LIFE, LIFE[missed:]):
            yield f"the events of the container {what}: {', '.join(events(id_))}"
    adapters[1].end()


def events(id_: str) -> list[str]:
    """The events of a pod or container at which the plugin has run."""
    return [event for event_id, event in _lines() if event_id == id_]


def _lines() -> list[list[str]]:
    file = FOLDER / "events"
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


def _created_during_synchronize(node: Node) -> str:
    """Creates a container while the runtime waits for the adapter's answer to Synchronize; it is told of it."""
    socket = STATE / "gate.sock"
    gate = Gate(socket)
    with ThreadPoolExecutor(2) as pool:
        joins = pool.submit(node.adapter.start, "-socket", str(socket))
        until(gate.holds.is_set, "the answer to Synchronize")
        before = _creations(node.runtime)
        created = pool.submit(node.create, "c1")
        until(lambda: _creations(node.runtime) > before, "the runtime to begin a creation")
        gate.open()
        joins.result()
    container = created.result()
    node.cri("start", container)
    node.cri("update", "--cpu-share", "299", container)
    return container


def _creations(runtime: Runtime) -> int:
    text = runtime.log.read_text(errors="replace")
    return sum(text.count(begins) for begins in CREATION)


def _refused(node: Node, event: str, create: Callable[[], str]) -> Iterator[str]:
    """Lets the plugin refuse a creation, which leaves nothing behind, and tries it again."""
    before = node.has, node.owed
    (FOLDER / "refuse").write_text(event)
    try:
        create()
        yield f"the plugin has refused {event} in vain"
    except HarnessError as error:
        if REFUSED not in str(error):
            yield f"the plugin has refused {event}, and the runtime says: {error}"
    (FOLDER / "refuse").unlink()
    refused = next(id_ for id_, of_id in reversed(_lines()) if of_id == event)
    expected = [event, *_ends(event, is_told=node.runtime.tells_end_of_refused)]
    until(lambda: len(events(refused)) >= len(expected), f"the events after a refused {event}")
    if events(refused) != expected:
        yield f"the events of what was refused: {', '.join(events(refused))}"
    if event == "RunPodSandbox" and node.runtime.leaves_refused_pods:
        _end_processes(refused)
    if (node.has, node.owed) != before:
        yield f"a refused {event} has left behind: {node.has - before[0]}, deletes owed {before[1]}, now {node.owed}"
    again = create()
    if event == "CreateContainer":
        node.cri("rm", again)
    else:
        node.cri.end_pod(again)


def _ends(event: str, *, is_told: bool) -> list[str]:
    """The events after a refused one. Where a container's are not told, the adapter runs the delete by itself."""
    if event == "RunPodSandbox":
        return ["StopPodSandbox", "RemovePodSandbox"]
    return ["StopContainer", "RemoveContainer"] if is_told else ["StopContainer"]


def _end_processes(pod: str) -> None:
    """Kills what containerd 2.0 to 2.2 leaves of a refused pod: the shim and its pause process."""
    [shim] = [int(file.parent.name) for file in Path("/proc").glob("[0-9]*/cmdline") if pod in file.read_text()]
    for pid in [*children_of(shim), shim]:
        os.kill(pid, signal.SIGKILL)


def _updates_of_another(node: Node, other: str) -> Iterator[str]:
    """Each event of a container asks for CPU shares of another one: now or with the next answer that can carry them."""
    pid = node.cri.pid("inspect", other)
    (FOLDER / "other").write_text(other)
    container = node.create("c3")
    at_once = node.runtime.takes_updates_at_any_time
    yield from shares(pid, SHARES["PostCreateContainer" if at_once else "CreateContainer"], "what a creation asks for")
    node.cri("start", container)
    yield from shares(pid, SHARES["PostStartContainer" if at_once else "CreateContainer"], "what a start asks for")
    node.cri("update", "--cpu-share", "299", container)
    yield from shares(pid, SHARES["PostUpdateContainer" if at_once else "UpdateContainer"], "what an update asks for")
    node.cri("stop", "--timeout", "0", container)
    yield from shares(pid, SHARES["StopContainer"], "what a stop asks for")
    node.cri("rm", container)
    yield from shares(pid, SHARES["RemoveContainer" if at_once else "StopContainer"], "what a removal asks for")
    (FOLDER / "other").unlink()
    if events(container) != LIFE:
        yield f"the events of a container: {', '.join(events(container))}"


def _refused_registration() -> Iterator[str]:
    """Since NRI 0.12 runtimes refuse some names: the adapter ends with the runtime's reason, no other is disturbed."""
    settings = FOLDER / "none.yaml"
    settings.touch()
    line = [str(COMMAND), "-idx", "00", "-name", "two words", "-config", str(settings)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=90, check=False)
    if done.returncode != 1 or "the runtime refused plugin 00-two words: " not in done.stderr:
        yield f"refused by the runtime, the adapter ends with {done.returncode}: {done.stderr}"


def _served_by_two(node: Node, adapters: Sequence[Beside]) -> Generator[str, None, str]:
    owed = node.owed
    adapters[1].start()
    container = node.create("c4")
    node.cri("start", container)
    node.cri("update", "--cpu-share", "299", container)
    adapters[0].kill()
    node.end(container)
    if node.owed != owed:
        yield f"the second adapter owes {node.owed} deletes, not {owed}"
    return container
