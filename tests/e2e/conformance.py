"""Scenarios that runtimes' own suites name, with the adapter beside a real runtime, and a plugin at all events."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

from tests.daemon.process import children_of
from tests.e2e import plugins
from tests.e2e.beside import Beside, status
from tests.e2e.conformer import EVENTS, REFUSAL
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
NRI = "/run/nri/nri.sock"
HEADER = 8
PLUGIN_SERVICE = 1  # the connection on which the runtime calls the plugin, by the multiplexer's id
ANSWERS = 2  # answers of the plugin to the end of Synchronize, each in one frame: the first is Configure's


def prepare(runtime: Runtime) -> None:
    """Installs the plugin; the runtime waits for plugins longer than a busy machine stands still."""
    runtime.request_timeout = "60s"
    FOLDER.mkdir()
    plugins.install(CONF, PROGRAM, str(FOLDER))


def play(cri: Cri, adapter: Beside, runtime: Runtime) -> Iterator[str]:
    """Plays the scenarios; yields, in sentences, what differs from the documentation."""
    pod = cri.run_pod()
    container = _created_during_synchronize(runtime, adapter, lambda: cri.create(pod))
    cri("start", container)
    cri("update", "--cpu-share", "299", container)
    yield from _refused(cri, runtime, "CreateContainer", lambda: cri.create(pod, "c2"))
    cri("rm", cri.create(pod, "c2"))
    yield from _refused(cri, runtime, "RunPodSandbox", lambda: cri.run_pod("p2").id)
    cri.end_pod(cri.run_pod("p2").id)
    cri("stop", "--timeout", "0", container)
    until(lambda: "StopContainer" in events(container), "the container's StopContainer event")
    cri("rm", container)
    cri.end_pod(pod.id)
    may_miss = isinstance(runtime, Crio)  # which goes on with the creation when the adapter has only just answered
    if events(container) not in (LIFE, LIFE[may_miss:]):
        yield f"the events of the container created during Synchronize: {', '.join(events(container))}"


def events(id_: str) -> list[str]:
    """The events of a pod or container at which the plugin has run."""
    return [event for event_id, event in _lines() if event_id == id_]


def _lines() -> list[list[str]]:
    file = FOLDER / "events"
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


def _created_during_synchronize(runtime: Runtime, adapter: Beside, create: Callable[[], str]) -> str:
    """Creates a container while the runtime waits for the adapter's answer to Synchronize; it is told of it."""
    place = STATE / "gate.sock"
    gate = Gate(place)

    def creations() -> int:
        text = runtime.log.read_text(errors="replace")
        return sum(text.count(begins) for begins in CREATION)

    with ThreadPoolExecutor(2) as pool:
        joins = pool.submit(adapter.start, "-socket", str(place))
        until(gate.holds.is_set, "the answer to Synchronize")
        before = creations()
        created = pool.submit(create)
        until(lambda: creations() > before, "the runtime to begin a creation")
        gate.open()
        joins.result()
    return created.result()


def _refused(cri: Cri, runtime: Runtime, event: str, create: Callable[[], str]) -> Iterator[str]:
    """Lets the plugin refuse a creation, which leaves nothing behind."""

    def left() -> tuple[set[str], int]:
        """The pods and containers, and how many of them the adapter owes a delete."""
        return {*cri("pods", "-q").split(), *cri("ps", "-a", "-q").split()}, int(status()["owed"])

    before = left()
    (FOLDER / "refuse").write_text(event)
    try:
        create()
        yield f"the plugin has refused {event} in vain"
    except HarnessError as error:
        if REFUSED not in str(error):
            yield f"the plugin has refused {event}, and the runtime says: {error}"
    (FOLDER / "refuse").unlink()
    refused = next(id_ for id_, of_id in reversed(_lines()) if of_id == event)
    expected = [event, "StopPodSandbox", "RemovePodSandbox"]
    if event == "CreateContainer":  # where its end is not told, the adapter runs the delete by itself
        expected = [event, "StopContainer", *(["RemoveContainer"] if runtime.tells_end_of_refused else [])]
    until(lambda: len(events(refused)) >= len(expected), f"the events after a refused {event}")
    if events(refused) != expected:
        yield f"the events of what was refused: {', '.join(events(refused))}"
    if event == "RunPodSandbox" and runtime.leaves_refused_pods:
        _end_processes(refused)
    if (after := left()) != before:
        yield f"a refused {event} has left behind: {after}, before there was {before}"


def _end_processes(pod: str) -> None:
    """Kills what containerd 2.0 to 2.2 leaves of a refused pod: the shim and its pause process."""
    [shim] = [int(file.parent.name) for file in Path("/proc").glob("[0-9]*/cmdline") if pod in file.read_text()]
    for pid in [*children_of(shim), shim]:
        os.kill(pid, signal.SIGKILL)


class Gate:
    """A socket between the adapter and the runtime that keeps back the adapter's answer to Synchronize."""

    def __init__(self, path: Path) -> None:
        self._listening = socket.create_server(str(path), family=socket.AF_UNIX)
        self._is_open = threading.Event()
        self.holds = threading.Event()  # set when the answer is there: the runtime waits for it
        threading.Thread(target=self._serve, daemon=True).start()

    def open(self) -> None:
        self._is_open.set()

    def _serve(self) -> None:
        adapter = self._listening.accept()[0]
        self._listening.close()
        with adapter, socket.socket(socket.AF_UNIX) as runtime:
            runtime.connect(NRI)
            back = threading.Thread(target=self._back, args=(runtime, adapter), daemon=True)
            back.start()
            with adapter.makefile("rb") as frames:
                self._pass_on(frames, runtime)
            runtime.shutdown(socket.SHUT_RDWR)
            back.join()

    def _back(self, runtime: socket.socket, adapter: socket.socket) -> None:
        with runtime.makefile("rb", buffering=0) as source, adapter.makefile("wb", buffering=0) as target:
            shutil.copyfileobj(source, target)
        adapter.shutdown(socket.SHUT_RDWR)

    def _pass_on(self, frames: BinaryIO, runtime: socket.socket) -> None:
        answers = 0
        while header := frames.read(HEADER):
            answers += int.from_bytes(header[:4]) == PLUGIN_SERVICE
            frame = header + frames.read(int.from_bytes(header[4:]))
            if answers == ANSWERS and not self.holds.is_set():
                self.holds.set()
                self._is_open.wait()
            runtime.sendall(frame)
