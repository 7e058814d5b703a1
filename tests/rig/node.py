"""A node in a folder: real programs as plugins, and a runtime that sends events by hand."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from nri import Context, Deferred, api
from v010_adapter.events.turns import Turns
from v010_adapter.settings import LegacySettings, PluginSettings

from .holder import PlayedHolder
from .loop import SteppedLoop
from .processes import NO_PROCESS, children
from .programs import Fifo, Programs
from .serving import Alone, PluginServing

PRELUDE = """\
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

    def __init__(self, deferred: Any) -> None:
        self.outcome = "pending" if isinstance(deferred, Deferred) else "nothing to do"
        self.reply: Any = None if isinstance(deferred, Deferred) else deferred
        if isinstance(deferred, Deferred):
            deferred.then(self._settle)

    def _settle(self, reply: object, error: Exception | None) -> None:
        assert self.outcome == "pending", "answered twice"
        self.reply = reply
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
        self.holder: PlayedHolder | None = None
        self.serving = self.build()
        self._said = self.programs.fifo("said")
        self._gates: dict[str, Fifo] = {}
        loop.watch(self._said.fd, self._listen)

    def build(self, turns: Turns | None = None, **legacy: Any) -> PluginServing:
        """Makes the serving, with settings of the `legacy:` part."""
        own = {"config": str(self.conf_json), "path": (str(self.folder),), **legacy}
        self.turns = turns or Alone(self.loop.time)
        self.serving = PluginServing(self.loop, LegacySettings(**own), self.turns, holder=self.holder)
        return self.serving

    def _listen(self) -> None:
        self.heard += os.read(self._said.fd, 65536).decode().splitlines()

    def plugins(self, **scripts: str) -> None:
        """Makes plugins and a conf.json that names them in this order."""
        for name, script in scripts.items():
            self.plugin(name, script)
        self.configure(*scripts)

    def plugin(self, name: str, script: str = "answer") -> None:
        self.programs.shell(name, PRELUDE.format(name=name, folder=self.folder) + script)
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
        request = api.StartContainerRequest(pod=a_pod(pod), container=a_container(id_, **fields))
        return self.handle("StartContainer", request, within)

    def create_pod(self, id_: str = "pod", *, within: float = 2.0, **fields: Any) -> Answer:
        """RunPodSandbox."""
        return self.handle("RunPodSandbox", api.RunPodSandboxRequest(pod=a_pod(id_, **fields)), within)

    def delete(self, id_: str, pod: str = "pod", *, event: str = "StopContainer", within: float = 2.0) -> Answer:
        """StopContainer as containerd sends it when it knows no more than the ids."""
        container = api.Container(id=id_, pod_sandbox_id=pod)
        return self.handle(event, api.StopContainerRequest(container=container, pod=api.PodSandbox(id=pod)), within)

    def delete_pod(self, id_: str = "pod", *, event: str = "StopPodSandbox", within: float = 2.0) -> Answer:
        """StopPodSandbox as containerd 1.7 sends it."""
        return self.handle(event, api.StopPodSandboxRequest(pod=api.PodSandbox(id=id_)), within)

    def handle(self, event: str, request: Any, within: float = 2.0) -> Answer:
        """Any event."""
        context = Context(event, within, self.loop.time, self.loop.time(), size=request.ByteSize())
        return Answer(self.serving.serve(request, context))

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
        self.serving.when_idle(lambda: told.append(True))
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
        accounts = self.serving.runner.accounts.values()
        names = ("runs", "failures", "late", "killed")
        return {name: count for name in names if (count := sum(getattr(account, name) for account in accounts))}

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
    return api.PodSandbox(**{"id": id_, "pid": NO_PROCESS, "linux": linux, "labels": {"of": id_}, **fields})


def a_container(id_: str, **fields: Any) -> api.Container:
    """A container as a runtime describes it when it starts."""
    linux = api.LinuxContainer(cgroups_path=f"/{id_}", resources=api.LinuxResources())
    return api.Container(**{"id": id_, "pid": NO_PROCESS, "linux": linux, "annotations": {"of": id_}, **fields})


# Containers whose creation plugins take part in


def configured(node: Node, *events: str, plugins: str = "a b", **own: Any) -> Node:
    """A node whose plugins are configured for these events."""
    settings = {name: PluginSettings(events=frozenset(events), **own) for name in plugins.split()}
    node.build(plugins=settings)
    return node


def container(id_: str = "c1", **fields: Any) -> api.Container:
    made = a_container(id_, env=["PATH=/bin", "A=1"], args=["sleep", "9"], **fields)
    made.annotations["zone"] = "a"
    made.pid = 0
    return made


def creating(node: Node, id_: str = "c1", within: float = 2.0) -> Answer:
    request = api.CreateContainerRequest(pod=a_pod(), container=container(id_))
    return node.handle("CreateContainer", request, within)


def saying(**result: object) -> str:
    """A plugin's script that prints a result."""
    return f"printf '%s' '{json.dumps(result)}'"


def created(node: Node, id_: str = "c1") -> api.ContainerAdjustment:
    answer = creating(node, id_)
    node.wait(answer)
    assert answer.outcome == "ok"
    return api.ContainerAdjustment() if answer.reply is None else answer.reply.adjust
