"""A node in a folder: real programs as plugins, a loop that goes step by step, and a clock that stands still."""

from __future__ import annotations

import json
import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from adapter.legacy.bridge import Bridge
from adapter.legacy.request import Subject
from adapter.loop import READ, Loop, Timer
from adapter.nri import Context, Deferred, api
from adapter.settings import LegacySettings

PATIENCE = 20
"""Seconds, by the real clock, after which a test that waits for something has failed."""


@contextmanager
def impatience(what: str) -> Iterator[None]:
    """Fails what waits too long."""

    def give_up(*_: object) -> None:
        pytest.fail(f"nothing happens: {what}")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class SteppedLoop(Loop):
    """A loop that can be run until something is the case, and whose time passes only when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.time = lambda: self.now
        self._met: Callable[[], bool] = lambda: False
        self._bugs: list[Exception] = []

    def until(self, met: Callable[[], bool], what: str = "") -> None:
        """Runs until a condition holds, which is looked at after each callback."""
        self._met = met
        with impatience(what):
            while not met():
                self.run()
                self._complain()

    def settle(self) -> None:
        """Runs what is ready or due, without waiting for anything."""
        self._met = lambda: False
        for _ in range(3):
            super().call_at(self.now, self.stop)
            self.run()
            self._complain()

    def _complain(self) -> None:
        if self._bugs:
            raise self._bugs.pop()

    def advance(self, seconds: float) -> None:
        """Lets time pass; what is due then is called."""
        self.now += seconds
        self.settle()

    def watch(self, fd: int, callback: Callable[[], object], events: int = READ) -> None:
        super().watch(fd, self._checked(callback), events)

    def modify(self, fd: int, callback: Callable[[], object], events: int) -> None:
        super().modify(fd, self._checked(callback), events)

    def call_at(self, moment: float, callback: Callable[[], object]) -> Timer:
        return super().call_at(moment, self._checked(callback))

    def _checked(self, callback: Callable[[], object]) -> Callable[[], object]:
        def checked() -> None:
            try:
                callback()
            except Exception as bug:
                self._bugs.append(bug)
                self.stop()
                raise
            if self._met():
                self.stop()

        return checked


class Programs:
    """A folder of programs."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def shell(self, name: str, text: str, mode: int = 0o755) -> str:
        """Makes a shell script and returns its path."""
        return self.write(name, f"#!/bin/sh\n{text}\n".encode(), mode)

    def write(self, name: str, content: bytes, mode: int = 0o755) -> str:
        path = self.folder / name
        path.write_bytes(content)
        path.chmod(mode)
        return str(path)

    def fifo(self, name: str) -> Fifo:
        return Fifo(self.folder / name)


class Fifo:
    """A gate between a test and its programs: one side waits until the other puts a line in. One way only."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        # Both ends, so that opening it waits on neither side.
        self.fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def __str__(self) -> str:
        return str(self.path)

    def put(self, line: str = "go") -> None:
        os.write(self.fd, line.encode() + b"\n")

    def get(self) -> str:
        """Waits for a program to put a line in."""
        with impatience(f"nothing comes through {self.path}"):
            select.select([self.fd], [], [])
        return os.read(self.fd, 4096).decode()

    def close(self) -> None:
        os.close(self.fd)


def open_descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def is_running(pid: int) -> bool:
    """Whether there is such a process that is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children() -> list[int]:
    """Our children, zombies included."""
    lists = list(Path("/proc/self/task").glob("*/children"))
    assert lists, "this kernel does not tell a process's children"
    return [int(pid) for path in lists for pid in path.read_text().split()]


PRELUDE = """#!/bin/sh
request=$(cat)
state=${{request#*'"state":"'}}; state=${{state%%'"'*}}
id=${{request#*'"id":"'}}; id=${{id%%'"'*}}
printf '%s\\n' "$request" >> '{folder}/requests-{name}'
echo "{name} $state $id" >> '{folder}/runs'
say() {{ echo "{name} $state $id $1" > '{folder}/said'; }}
hold() {{ say holds; read line < '{folder}/gate-{name}'; }}
answer() {{ echo '{{"plugin":"{name}","metadata":{{"of":"'$state'"}}}}'; }}
"""
"""What plugins of a node can do: `say WORD` to the test, `hold` until it lets them go on, and `answer`."""


class Answer:
    """What became of an event."""

    def __init__(self, deferred: Deferred[Any] | None) -> None:
        self.outcome = "nothing to do" if deferred is None else "pending"
        if deferred is not None:
            deferred.then(self._settle)

    def _settle(self, reply: object, error: Exception | None) -> None:
        assert self.outcome == "pending", "answered twice"
        assert reply is None
        self.outcome = "ok" if error is None else str(error)

    @property
    def pending(self) -> bool:
        return self.outcome == "pending"


class Node:
    """A node with legacy plugins, a runtime that sends events by hand, and what was seen of it."""

    def __init__(self, loop: SteppedLoop, folder: Path) -> None:
        self.loop = loop
        self.folder = folder
        self.programs = Programs(folder)
        self.conf_json = folder / "conf.json"
        self.heard: list[str] = []
        """What plugins have said: `PLUGIN STATE ID WORD`."""
        self.bridge = self.build()
        self._said = self.programs.fifo("said")
        self._gates: dict[str, Fifo] = {}
        loop.watch(self._said.fd, self._listen)

    def build(self, **legacy: Any) -> Bridge:
        """Makes the bridge, with settings of the `legacy:` part."""
        own = {"config": str(self.conf_json), "path": (str(self.folder),), **legacy}
        self.bridge = Bridge(self.loop, LegacySettings(**own))
        return self.bridge

    def _listen(self) -> None:
        self.heard += os.read(self._said.fd, 65536).decode().splitlines()

    def plugins(self, **scripts: str) -> None:
        """Makes plugins and a conf.json that names them in this order."""
        for name, script in scripts.items():
            self.plugin(name, script)
        self.configure(*scripts)

    def plugin(self, name: str, script: str = "answer") -> None:
        text = PRELUDE.format(name=name, folder=self.folder) + script + "\n"
        self.programs.write(name, text.encode())
        if name not in self._gates:
            self._gates[name] = self.programs.fifo(f"gate-{name}")

    def configure(self, *entries: str | tuple[str, object]) -> None:
        """Writes conf.json: types, or types with their conf."""
        pairs = [entry if isinstance(entry, tuple) else (entry, None) for entry in entries]
        plugins = [{"type": type_} | ({} if conf is None else {"conf": conf}) for type_, conf in pairs]
        self.conf_json.write_text(json.dumps({"version": "0.1", "plugins": plugins}))

    def release(self, name: str) -> None:
        """Lets a plugin that holds go on."""
        self._gates[name].put()

    # Events

    def create(self, id_: str, pod: str = "pod", *, within: float = 2.0, **fields: Any) -> Answer:
        """StartContainer."""
        return self._create(self.bridge.container(a_container(id_, **fields), a_pod(pod)), "StartContainer", within)

    def create_pod(self, id_: str = "pod", *, within: float = 2.0, **fields: Any) -> Answer:
        """RunPodSandbox."""
        return self._create(self.bridge.pod(a_pod(id_, **fields)), "RunPodSandbox", within)

    def delete(self, id_: str, pod: str = "pod", *, event: str = "StopContainer", within: float = 2.0) -> Answer:
        """StopContainer as containerd sends it when it knows no more than the ids."""
        subject = self.bridge.container(api.Container(id=id_, pod_sandbox_id=pod), api.PodSandbox(id=pod))
        return Answer(self.bridge.delete(subject, self._context(event, within)))

    def delete_pod(self, id_: str = "pod", *, event: str = "StopPodSandbox", within: float = 2.0) -> Answer:
        """StopPodSandbox as containerd 1.7 sends it."""
        return Answer(self.bridge.delete(self.bridge.pod(api.PodSandbox(id=id_)), self._context(event, within)))

    def _create(self, subject: Subject, event: str, within: float) -> Answer:
        return Answer(self.bridge.create(subject, self._context(event, within)))

    def _context(self, event: str, within: float) -> Context:
        return Context(event, self.loop.now + within, self.loop.time)

    # What is seen

    def wait(self, *answers: Answer) -> None:
        """Runs until the events are answered."""
        self.loop.until(lambda: not any(answer.pending for answer in answers), "no answer comes")

    def hear(self, *words: str) -> None:
        """Runs until plugins have said this."""
        self.loop.until(lambda: set(words) <= set(self.heard), f"{words} is not said; {self.heard} was")

    def idle(self) -> None:
        """Runs until no chain is under way."""
        self.loop.until(lambda: not self.busy, "a chain does not end")

    @property
    def busy(self) -> bool:
        told: list[bool] = []
        self.bridge.when_idle(lambda: told.append(True))
        return not told

    @property
    def runs(self) -> list[str]:
        """Every run of a plugin that has read its request, in order: `PLUGIN STATE ID`."""
        path = self.folder / "runs"
        return path.read_text().splitlines() if path.exists() else []

    def requests(self, name: str) -> list[dict[str, Any]]:
        """What a plugin got, in order."""
        path = self.folder / f"requests-{name}"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def counters(self) -> dict[str, int]:
        return {name: count for name, count in self.bridge.runner.counters.items() if count}

    def close(self) -> None:
        """Lets every plugin go on and waits until all have ended and have been reaped."""
        for fifo in self._gates.values():
            for _ in range(100):
                fifo.put()
        self.loop.until(lambda: not children(), "plugins are left")
        for fifo in (self._said, *self._gates.values()):
            self.loop.unwatch(fifo.fd)
            fifo.close()


def a_pod(id_: str = "pod", **fields: Any) -> api.PodSandbox:
    """A pod as a runtime describes it when it starts."""
    linux = api.LinuxPodSandbox(cgroups_path=f"/{id_}", resources=api.LinuxResources())
    return api.PodSandbox(**{"id": id_, "pid": 11, "linux": linux, "labels": {"of": id_}, **fields})


def a_container(id_: str, **fields: Any) -> api.Container:
    """A container as a runtime describes it when it starts."""
    linux = api.LinuxContainer(cgroups_path=f"/{id_}", resources=api.LinuxResources())
    return api.Container(**{"id": id_, "pid": 22, "linux": linux, "annotations": {"of": id_}, **fields})
