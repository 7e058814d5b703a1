"""The contract: broken plugins, each named by the rule that it breaks and by no other; plugins that keep all rules."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from nri import Context, Plugin, api
from nri.testing import FLAVOURS, Flavour, Late
from nri.testing.contract import RULES, External, Launched, Report, Result, Running, Verdict, ending, judge, starts
from nri.testing.node import Node
from tests.peers.harness import require

from .fixtures import ROOT, Plugins, forked

NEWEST = "containerd/2.4.2"
WITH_0_11, WITH_CRIO = "containerd/2.2.1", "cri-o/1.36.3"

SOUND = """
seen, stopped = set(), set()
def told(request):
    return events.CALLS[request.method].request.FromString(request.payload)
def die():
    os._exit(3)
def answer(plugin, request):
    method, message = request.method, told(request) if request.method in events.CALLS else None
    if method == "StateChange":
        method = events.BY_EVENT[message.event].method
    container, pod = getattr(message, "container", None), getattr(message, "pod", None)
{breaks}
    if method == "Configure":
        return api.ConfigureResponse(events=0x7FF).SerializeToString()
    if method == "Synchronize":
        return api.SynchronizeResponse(more=message.more).SerializeToString()
    if message is None:
        raise CallError(12, "no such method")
    return b""
{run}
"""
"""A plugin that keeps all rules, but for {breaks}."""
RUN = "raw.run(answer)"

TWICE = 'api.ContainerAdjustment(env=[api.KeyValue(key="A", value="1")] * 2)'
SYSCTL = 'api.ContainerAdjustment(linux=api.LinuxContainerAdjustment(sysctl={"kernel.shm_rmid_forced": "1"}))'
ADJUST = 'if method == "CreateContainer": return api.CreateContainerResponse(adjust={}).SerializeToString()'
WANTED = 'api.UpdateContainersRequest(update=[api.ContainerUpdate(container_id="gone")]).SerializeToString()'

BROKEN = {
    "takes-configuration": 'if method == "Configure": raise CallError(2, "no")',
    "known-events": 'if method == "Configure": return api.ConfigureResponse(events=0x4000).SerializeToString()',
    "synchronizes": 'if method == "Synchronize" and not (message.more or message.pods): raise CallError(2, "no")',
    "synchronizes-in-parts": 'if method == "Synchronize": return b""',
    "answers-events": 'if method == "StartContainer": die()',
    "unknown-call": 'if message is None: raise CallError(2, "what?")',
    "unknown-fields": 'if b"\\xc2\\x3e" in request.payload: raise CallError(13, "what?")',
    "sparse-messages": 'if container and not container.linux.HasField("resources"): die()',
    "extreme-values": "if container and container.linux.resources.memory.limit.value == 2**63 - 1: die()",
    "large-message": 'if method == "CreateContainer" and len(request.payload) > 3 << 20: die()',
    "failed-create": """
        if method == "StartContainer": seen.add(container.id)
        if method == "RemoveContainer" and pod.uid and container.id != "unknown" and container.id not in seen: die()""",
    "stop-after-pod": """
        if method == "StopPodSandbox": stopped.add(pod.id)
        if method == "StopContainer" and pod.id in stopped: die()""",
    "repeated-stop": """
        if method == "StopPodSandbox":
            if pod.id in stopped: die()
            stopped.add(pod.id)""",
    "unknown-container": """
        if method == "CreateContainer": seen.add(container.id)
        if method == "StartContainer" and container.id not in seen: die()""",
    "interleaved-containers": """
        if method == "StartContainer":
            if seen: die()
            seen.add(container.id)
        if method == "StopContainer": seen.discard(container.id)""",
    "merges": ADJUST.format(TWICE),
    "crashes-no-runtime": ADJUST.format(SYSCTL),
    "changes-are-applied": ADJUST.format(
        "api.ContainerAdjustment(linux=api.LinuxContainerAdjustment(resources="
        "api.LinuxResources(memory=api.LinuxMemory(swap=api.OptionalInt64(value=5)))))"
    ),
    "stops-are-not-refused": 'if method == "StopPodSandbox": raise CallError(2, "no")',
    "refused-updates": f"""
        if any(getattr(one, "code", 0) for one in plugin.heard): die()
        if method == "StartContainer": plugin.ask("UpdateContainers", {WANTED})""",
}
"""What breaks a rule, and no other."""
UNDER = {"crashes-no-runtime": WITH_0_11, "repeated-stop": WITH_CRIO, "stops-are-not-refused": WITH_CRIO}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forks plugins off, and waits longer than a slow machine needs for the end of one."""
    monkeypatch.setattr(starts, "spawn", forked)
    monkeypatch.setattr(ending, "END", 60)


def patient(name: str = NEWEST) -> Flavour:
    """Returns a runtime that no slow machine is late for."""
    return replace(FLAVOURS[name], registration_timeout=60, request_timeout=60)


def sound(breaks: str = "", run: str = RUN) -> str:
    lines = breaks.strip("\n").splitlines() or ["pass"]
    indent = min(len(line) - len(line.lstrip()) for line in lines)
    return SOUND.format(breaks="\n".join(f"    {line[indent:]}" for line in lines), run=run)


def judged(plugins: Plugins, source: str, flavour: Flavour | None = None) -> Report:
    return judge(Launched(plugins.file(plugins.write("10-a", source))), flavour or patient())


def named(report: Report) -> list[str]:
    """Returns the rules that fail."""
    return [verdict.rule.name for verdict in report.failures]


def of(report: Report, rule: str) -> Verdict:
    return next(verdict for verdict in report.verdicts if verdict.rule.name == rule)


@pytest.mark.parametrize("name", FLAVOURS)
def test_a_sound_plugin_keeps_all_rules_under_each_runtime(plugins: Plugins, name: str) -> None:
    report = judged(plugins, sound(), patient(name))
    assert [verdict.rule.name for verdict in report.verdicts] == list(RULES)
    assert report.failures == []
    is_crio = name.startswith("cri-o")
    skipped = {"valid-name", "merges", "crashes-no-runtime", "changes-are-applied"}
    skipped |= {"updates-do-not-block", "refused-updates"}
    skipped |= set() if is_crio else {"repeated-stop", "stops-are-not-refused"}
    assert {one.rule.name for one in report.verdicts if one.result is Result.DOES_NOT_APPLY} == skipped


@pytest.mark.parametrize("rule", BROKEN)
def test_a_plugin_that_breaks_one_rule_is_named_by_that_rule_alone(plugins: Plugins, rule: str) -> None:
    report = judged(plugins, sound(BROKEN[rule]), patient(UNDER.get(rule, NEWEST)))
    assert named(report) == [rule]
    (failure,) = report.failures
    assert failure.sent
    assert failure.came


ANSWERS = {
    "no implementation": 'if method == "StopContainer": raise CallError(12, "no such method")',
    "no bytes of a message": 'if method == "CreateContainer": return b"\\xff"',
    "the end of the process": 'if method == "RemovePodSandbox": die()',
    "no implementation of StateChange": 'if request.method == "StateChange": raise CallError(12, "no such method")',
}


@pytest.mark.parametrize("breaks", ANSWERS.values(), ids=ANSWERS)
def test_what_is_no_answer_to_an_event(plugins: Plugins, breaks: str) -> None:
    report = judged(plugins, sound(breaks), patient("containerd/2.0.14"))
    assert named(report) == ["answers-events"]
    assert of(report, "large-message").came == "the plugin has failed at the usual events"


def test_a_refusal_is_no_failure(plugins: Plugins) -> None:
    """A plugin may refuse pods and containers, and be subscribed to few events or to all of them."""
    refuses = 'if container or pod: raise CallError(2, "I refuse")'
    report = judged(plugins, sound(refuses))
    assert named(report) == []
    assert ("refusals", "RunPodSandbox: error 2: I refuse") in report.notes
    for mask, rules in ((1, {"large-message", "failed-create", "unknown-container"}), (0, set())):
        configure = f'if method == "Configure": return api.ConfigureResponse(events={mask}).SerializeToString()'
        report = judged(plugins, sound(configure))
        assert named(report) == []
        assert all(of(report, rule).result is Result.DOES_NOT_APPLY for rule in rules)


def test_a_validator_is_asked(plugins: Plugins) -> None:
    configure = 'if method == "Configure": return api.ConfigureResponse(events=0x2008).SerializeToString()'
    assert named(judged(plugins, sound(configure))) == []
    dies = f'{configure}\nif method == "ValidateContainerAdjustment" and message.plugins[0].name == "a": die()'
    failure = judged(plugins, sound(dies)).failures[0]
    assert (failure.rule.name, failure.sent[:27]) == ("answers-events", "ValidateContainerAdjustment")


# ---- time, and the end


def test_a_plugin_that_does_not_register(plugins: Plugins) -> None:
    report = judged(plugins, sound(run="sys.exit(5)"))
    assert named(report) == ["registers"]
    assert report.failures[0].came == "the plugin has ended with exit code 5"
    assert of(report, "answers-in-time").came == "the plugin has not joined the runtime"
    late = replace(patient(), registration_timeout=0.01)
    assert named(judged(plugins, sound(run="signal.pause()"), late)) == ["registers"]


def test_a_plugin_that_does_not_answer(plugins: Plugins) -> None:
    """A slow machine makes more answers late, which the same rule reports."""
    never = 'if method == "StartContainer": return None'
    report = judged(plugins, sound(never), replace(patient(), request_timeout=0.2))
    assert named(report) == ["answers-in-time"]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No plugin is waited for while it waits for the answer to its UpdateContainers."""

    def wait(self: starts.Watched, done: Callable[[], bool], timeout: float) -> None:
        starts.Plugin._wait(self, lambda: done() or bool(self._held), timeout)
        if not done():
            raise Late("no answer")

    monkeypatch.setattr(starts.Watched, "_wait", wait)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("method", ["StartContainer", "Synchronize"])
def test_a_plugin_that_waits_for_its_own_updates(plugins: Plugins, method: str) -> None:
    waits = f'if method == "{method}": plugin.call("UpdateContainers", {WANTED})'
    assert named(judged(plugins, sound(waits))) == ["updates-do-not-block"]


def test_a_plugin_that_does_not_wait_for_its_updates(plugins: Plugins) -> None:
    asks = f'if method == "StartContainer": plugin.ask("UpdateContainers", {WANTED})'
    report = judged(plugins, sound(asks))
    assert named(report) == []
    assert of(report, "updates-do-not-block").result is of(report, "refused-updates").result is Result.HOLDS


def test_a_plugin_that_stays(plugins: Plugins, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "END", 0.05)
    stays = "raw.run(answer)\nsignal.pause()"
    assert named(judged(plugins, sound(run=stays))) == ["ends-with-connection"]


# ---- plugins that connect by themselves


def external(plugins: Plugins, source: str) -> Report:
    """Judges a plugin that connects to the runtime's socket."""
    path, at = plugins.write("10-a", source), plugins.path / "nri.sock"

    def run() -> Running:
        with socket.socket(socket.AF_UNIX) as trunk:
            trunk.connect(str(at))
            environment = {"NRI_PLUGIN_SOCKET": str(trunk.fileno())}
            return subprocess.Popen([path], env=environment, pass_fds=[trunk.fileno()])

    return judge(External(at, run), patient())


def test_a_plugin_that_connects_by_itself(plugins: Plugins) -> None:
    report = external(plugins, sound())
    assert named(report) == []
    assert of(report, "valid-name").result is Result.HOLDS
    assert not any(note.subject == "SIGTERM" for note in report.notes)


def test_a_plugin_that_connects_by_itself_with_a_name_that_is_none(plugins: Plugins) -> None:
    ask = 'plugin.ask("RegisterPlugin", api.RegisterPluginRequest(plugin_name="a", plugin_idx="1").SerializeToString())'
    run = f"plugin = raw.RawPlugin(answer)\n{ask}\nwhile plugin.serve(): pass"
    assert named(external(plugins, sound(run=run))) == ["valid-name"]


def test_a_plugin_that_connects_by_itself_and_does_not_join_again(
    plugins: Plugins, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "END", 0.2)
    source = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + sound(run=f"{RUN}\nwhile True: signal.pause()")
    report = external(plugins, source)
    assert named(report) == ["ends-with-connection"]
    assert any(note.subject == "SIGTERM" for note in report.notes)


class Injector(Plugin):
    """Gives each container a variable."""

    def create_container(self, request: api.CreateContainerRequest, context: Context) -> api.CreateContainerResponse:
        return api.CreateContainerResponse(adjust={"env": [{"key": "A", "value": request.container.id}]})


@pytest.mark.parametrize("nri_runtime", ["cri-o/1.34.0", NEWEST], indirect=True)
def test_the_fixture_judges_a_class_and_a_file(nri_runtime: Node, tmp_path: Path) -> None:
    nri_runtime.played = patient(f"{nri_runtime.flavour.name}/{nri_runtime.flavour.version.removeprefix('v')}")
    assert nri_runtime.contract(Injector).failures == []
    path = tmp_path / "20-file.py"
    path.write_text("import nri\nclass Mine(nri.Plugin): pass\nnri.run(Mine())\n")
    report = nri_runtime.contract(path)
    assert (report.plugin, report.failures, report.flavour.nri) == ("20-file", [], nri_runtime.played.nri)
