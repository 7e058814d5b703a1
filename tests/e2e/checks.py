"""The verdict on a run, from the evidence that it left. Every function returns what it found wrong, in sentences."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import unified_diff
from logging.handlers import SysLogHandler
from pathlib import Path
from typing import Any

from tests.e2e.pod import Pod
from tests.e2e.runtimes import Runtime
from tests.peers.harness import Case, Oracle

LIFE = {
    ("create", "sandbox"): "RunPodSandbox",
    ("create", "container"): "StartContainer",
    ("delete", "container"): "StopContainer",
    ("delete", "sandbox"): "StopPodSandbox",
}
"""The requests of one pod's life in their order, and the NRI events that they come from."""
Key = tuple[str, str]
Json = dict[str, Any]


@dataclass(frozen=True)
class Call:
    key: Key
    request: Json
    path: str = ""
    cgroups: str = ""
    caller: str = ""
    caller_pid: int = 0

    @property
    def by_runtime(self) -> bool:
        """Whether the runtime itself ran the plugin, rather than the adapter."""
        return self.caller in ("containerd", "crio")

    @classmethod
    def of(cls, text: str, path: Path | str = "", **more: Any) -> Call:
        request = json.loads(text)
        kind = "sandbox" if request["id"] == request["sandboxID"] else "container"
        return cls((request["state"], kind), request, str(path), **more)


@dataclass
class Evidence:
    runtime: Runtime
    runtime_serves_sandboxes: bool
    conf: str
    pod: Pod = field(default_factory=lambda: Pod("", 0, "", 0))
    adapter_alive: bool = False
    calls: dict[str, list[Call]] = field(default_factory=dict)
    events: list[Json] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    runtime_log: str = ""
    leftovers: list[str] = field(default_factory=list)

    def first(self, plugin: str, key: Key) -> Call | None:
        """The plugin's first run of this kind; that there is one and no other, another check tells."""
        return next((call for call in self.calls[plugin] if call.key == key), None)

    def event(self, name: str) -> Json:
        return next((event for event in self.events if event["event"] == name), {})

    def is_ours(self, key: Key) -> bool:
        """Whether the adapter has to make this call, rather than the runtime itself."""
        return key[1] == "container" or not self.runtime_serves_sandboxes

    def pid(self, key: Key) -> int:
        """The pid that belongs into this request, according to the runtime; 0: none.

        Where the runtime tells no pid, the adapter finds it; at StopContainer that process has ended.
        """
        if key[0] == "delete" and not self.runtime.tells_pids:
            return 0
        return self.pod.pid if key[1] == "sandbox" else self.pod.container_pid


def judge(evidence: Evidence) -> list[str]:
    checks = (registered, exactly_once, by_the_right_caller, right_pids, like_oracle)
    found = [finding for check in checks for finding in check(evidence)]
    return [*found, *(f"left behind: {line}" for line in evidence.leftovers)]


def registered(evidence: Evidence) -> Iterator[str]:
    """The adapter must serve from the beginning to the end, and have nothing to complain about."""
    if not evidence.adapter_alive:
        yield "the adapter did not live to the end of the run"
    yield from errors(evidence.log)
    for line in evidence.runtime_log.splitlines():
        if "00-v010-adapter" in line and re.search(r"(?i)fail|error|clos|kill|drop|disconnect", line):
            yield f"the runtime complains: {line}"


def errors(log: list[str]) -> Iterator[str]:
    if not log:
        yield "the adapter has logged nothing"
    for line in log:
        priority = re.match(r"<(\d+)>", line)
        if not priority or int(priority[1]) & 7 <= SysLogHandler.LOG_ERR:
            yield f"the adapter has logged an error: {line}"


def exactly_once(evidence: Evidence) -> Iterator[str]:
    """Every plugin runs once per create and once per delete, in the order of the pod's life."""
    for plugin, calls in evidence.calls.items():
        ran = [call.key for call in calls]
        if ran != list(LIFE):
            yield f"{plugin} ran for {', '.join(map(' '.join, ran)) or 'nothing'}"


def by_the_right_caller(evidence: Evidence) -> Iterator[str]:
    """The runtime's own client runs the plugins where it has one, one and the same adapter everywhere else."""
    adapters = set()
    for call in evidence.calls["witness"]:
        if call.by_runtime == evidence.is_ours(call.key):
            yield f"{' '.join(call.key)} was the work of {call.caller}"
        if not call.by_runtime:
            adapters.add(call.caller_pid)
    if len(adapters) > 1:
        yield f"{len(adapters)} different processes ran the plugins"


def right_pids(evidence: Evidence) -> Iterator[str]:
    """The process that the runtime names is, at the create, in the cgroup of the pod or container."""
    for call in evidence.calls["witness"]:
        if evidence.pid(call.key) and call.key[0] == "create" and call.request["id"] not in call.cgroups:
            yield f"{' '.join(call.key)}: the process was not in the cgroup of {call.request['id']}: {call.cgroups}"
    if bool(evidence.pod.pid) != evidence.runtime.pods_have_a_process or not evidence.pod.container_pid:
        yield f"the runtime names the pids {evidence.pod.pid} and {evidence.pod.container_pid}"


def like_oracle(evidence: Evidence) -> Iterator[str]:
    """What the adapter sends is what the original client makes of the same pods and containers, as they came by NRI."""
    keys = [key for key in LIFE if evidence.is_ours(key)]
    if not all(evidence.event(event) for event in LIFE.values()):
        yield f"the recorder saw only {', '.join(event['event'] for event in evidence.events)}"
        return
    cases = [oracle_case(evidence, key) for key in keys]
    with Oracle() as oracle:
        outcomes = oracle.outcomes(cases)
    for key, case, told in zip(keys, cases, outcomes, strict=True):
        if told.error:
            yield f"{' '.join(key)}: the oracle says {told.error}"
        for plugin, request in zip(told.plugins, told.requests, strict=True):
            call = evidence.first(plugin, key)
            if call:
                expected = without_upstreams_inventions(json.loads(request), case)
                yield from differences(f"{plugin}, {' '.join(key)}", expected, call.request)


def oracle_case(evidence: Evidence, key: Key) -> Case:
    """The event's objects, complete: what the runtime leaves out, it said at the create, or says when asked."""
    event = evidence.event(LIFE[key])
    pod, container = event["pod"], event["container"]
    if not pod.get("linux", {}).get("cgroups_path"):
        pod = evidence.event("RunPodSandbox")["pod"]
    pid = {"pid": evidence.pid(key)}
    pod, container = (pod, container | pid) if container else (pod | pid, None)
    answers = {}
    if dump := evidence.first("dump", key):  # which the plugin behind it is told
        answer = {"plugin": "dump", "version": "0.1", "error": "", "metadata": {"file": dump.path}}
        answers["dump"] = json.dumps(answer).encode()
    return Case(key[0], pod, container, evidence.conf.encode(), answers)


def without_upstreams_inventions(request: Json, case: Case) -> Json:
    """The oracle's request without what upstream's conversion adds where the runtime said nothing."""
    subject: Any = case.container or case.pod
    invented = {"cpu", "memory"} - subject["linux"]["resources"].keys()
    resources = {key: value for key, value in request["spec"]["resources"].items() if key not in invented}
    return request | {"spec": request["spec"] | {"resources": resources}}


def differences(what: str, expected: Json, got: Json) -> Iterator[str]:
    """Yields the lines in which two JSON values differ, the order of their keys included."""
    before, after = (json.dumps(value, indent=1).splitlines() for value in (expected, got))
    for line in unified_diff(before, after, lineterm="", n=0):
        if not line.startswith(("---", "+++", "@@")):
            yield f"{what}: expected is {line[1:].strip()}" if line[0] == "-" else f"{what}: got is {line[1:].strip()}"
