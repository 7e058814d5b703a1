"""Broken plugins, each named by the rule that it breaks and by no other; plugins that keep all rules."""

from __future__ import annotations

import os
import re
import time
from contextlib import closing
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace

import pytest

from nri.testing import FLAVOURS
from nri.testing.contract import RULES, Launched, Result, ending, joining, judge, requests, watched
from nri.testing.contract.requests import pod_life
from nri.wire import Request
from tests.rig.brief import few
from tests.rig.embedded import Plugins, patient
from tests.rig.programs import Fifo
from tests.rig.waiting import limit

from .broken import ADJUST, BROKEN, NEWEST, RUNTIMES, UNDER, WANTED, WITH_CRIO, judged, named, of, sound


@pytest.mark.usefixtures("played_to_the_end")
@pytest.mark.parametrize("name", RUNTIMES)
def test_a_sound_plugin_keeps_all_rules_under_each_runtime(plugins: Plugins, name: str) -> None:
    report = judged(plugins, sound(), patient(FLAVOURS[name]))
    assert [verdict.rule.name for verdict in report.verdicts] == list(RULES)
    assert report.failures == []
    report.check()
    is_crio = name.startswith("cri-o")
    skipped = {"valid-name", "starts-before-runtime", "merges", "crashes-no-runtime", "changes-are-applied"}
    skipped |= {"updates-do-not-block", "refused-updates"}
    skipped |= set() if is_crio else {"repeated-stop", "lets-pods-stop"}
    assert {one.rule.name for one in report.verdicts if one.result is Result.DOES_NOT_APPLY} == skipped
    assert repr(report.verdicts[0]) == f"<registers: {Result.HOLDS}>"


@pytest.mark.parametrize("rule", few(list(BROKEN), 6))
def test_a_plugin_that_breaks_one_rule_is_named_by_that_rule_alone(plugins: Plugins, rule: str) -> None:
    report = judged(plugins, sound(BROKEN[rule]), patient(FLAVOURS[UNDER.get(rule, NEWEST)]))
    assert named(report) == [rule]
    (failure,) = report.failures
    assert failure.sent
    assert failure.came
    with pytest.raises(AssertionError) as raised:
        report.check()
    for said in (rule, f"sent: {failure.sent}", f"came: {failure.came}", failure.rule.source):
        assert said in str(raised.value)
        assert said in repr(report.failures)
    assert raised.traceback[-1].ishidden(raised)


LINUX = "api.ContainerAdjustment(linux=api.LinuxContainerAdjustment({}))"
MEMORY = LINUX.format("resources=api.LinuxResources(memory=api.LinuxMemory({}))")
VARIABLES = "api.ContainerAdjustment(env=[{}])"
ERRNO = LINUX.format(
    'seccomp_policy=api.LinuxSeccomp(syscalls=[api.LinuxSyscall(names=["a"], errno_ret=api.OptionalUInt32(value=1))])'
)
CHANGES = [
    (VARIABLES.format('api.KeyValue(key="-FOO")'), NEWEST, "changes-are-applied", "process.env[FOO]: NRI does not"),
    (VARIABLES.format('api.KeyValue(key="-FOO"), api.KeyValue(key="FOO", value="1")'), NEWEST, "", ""),
    (VARIABLES.format('api.KeyValue(key="-OTHER")'), NEWEST, "", ""),
    ('api.ContainerAdjustment(args=["", "a"])', "containerd/2.0.14", "changes-are-applied", "process.args: older"),
    ('api.ContainerAdjustment(args=["", "a"])', NEWEST, "", ""),
    (MEMORY.format("limit=api.OptionalInt64(value=5), swap=api.OptionalInt64(value=5)"), NEWEST, "", ""),
    (MEMORY.format("reservation=api.OptionalInt64(value=5)"), NEWEST, "changes-are-applied", "adjust: linux.resources"),
    (ERRNO, WITH_CRIO, "crashes-no-runtime", "linux.seccomp.syscalls[0].errnoRet: NRI 0.10 and 0.11 crash"),
    (ERRNO, NEWEST, "", ""),
    (ERRNO, "containerd/2.0.14", "changes-are-applied", "linux.seccomp.syscalls[0].errnoRet: NRI 0.10 and 0.11 crash"),
]


@pytest.mark.parametrize(("adjust", "runtime", "rule", "came"), few(CHANGES))
def test_a_change_is_judged_as_its_runtime_takes_it(
    plugins: Plugins, adjust: str, runtime: str, rule: str, came: str
) -> None:
    report = judged(plugins, sound(ADJUST.format(adjust)), patient(FLAVOURS[runtime]))
    assert named(report) == [rule] * bool(rule)
    assert [verdict.came[: len(came)] for verdict in report.failures] == [came] * bool(rule)


ANSWERS = {
    "no implementation": 'if method == "StopContainer": raise CallError(12, "no such method")',
    "no bytes of a message": 'if method == "CreateContainer": return b"\\xff"',
    "the end of the process": 'if method == "RemovePodSandbox": die()',
    "no bytes of the answer to a StateChange": 'if method == "RunPodSandbox": return b"\\xff"',
    "no implementation of StateChange": 'if request.method == "StateChange": raise CallError(12, "no such method")',
}


@pytest.mark.parametrize("name", few(list(ANSWERS)))
def test_what_is_no_answer_to_an_event_is_named(plugins: Plugins, name: str) -> None:
    report = judged(plugins, sound(ANSWERS[name]), patient(FLAVOURS["cri-o/1.34.0"]))
    assert named(report) == ["answers-events"]
    for rule in ("large-message", "answers-in-time", "lets-pods-stop"):
        assert of(report, rule).came == "the plugin has failed at the usual events"


@pytest.mark.ci
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
    its = 'message.plugins[0].index == "10" and message.plugins[0].name == "a"'
    dies = f'{configure}\nif method == "ValidateContainerAdjustment" and {its}: die()'
    failure = judged(plugins, sound(dies)).failures[0]
    assert (failure.rule.name, failure.sent[:27]) == ("answers-events", "ValidateContainerAdjustment")
    dies_of_answer = f"""{configure}
if method == "CreateContainer":
    adjust = api.ContainerAdjustment(args=["x"])
    update = api.ContainerUpdate(container_id="x")
    return api.CreateContainerResponse(adjust=adjust, update=[update]).SerializeToString()
if method == "ValidateContainerAdjustment" and message.adjust.args and message.update: die()"""
    assert named(judged(plugins, sound(dies_of_answer))) == ["answers-events"]


VALIDATES = """
    if method == "Configure": return api.ConfigureResponse(events=0x2000).SerializeToString()
    if method == "ValidateContainerAdjustment":"""


@pytest.mark.parametrize(
    ("does", "rules"),
    [
        ("return api.ValidateContainerAdjustmentResponse(reject=True, reason='no').SerializeToString()", []),
        ("container.id or die()", []),
        ("die()", ["answers-events"]),
        ("raise CallError(12, 'no such method')", ["answers-events"]),
        (
            "container.linux.resources.memory.limit.value == container.linux.resources.pids.limit == 2**63 - 1"
            " and die()",
            ["extreme-values"],
        ),
        ("container.id == 'zero' and not container.linux.resources.memory.limit.value and die()", ["extreme-values"]),
        ("'a\\r\\n\\tb' in container.args and 'lines=a\\r\\n\\tb' in container.env and die()", ["extreme-values"]),
        ("'a\\r\\n\\tb' == pod.labels['lines'] == container.annotations['lines'] and die()", ["extreme-values"]),
        ("len(request.payload) > 3 << 20 and die()", ["large-message"]),
    ],
)
def test_a_plugin_that_only_validates_is_asked_in_all_situations(plugins: Plugins, does: str, rules: list[str]) -> None:
    assert named(judged(plugins, sound(f"{VALIDATES} {does}"))) == rules


def test_a_plugin_that_is_subscribed_to_no_event_of_the_pod_is_not_judged_by_its_answers(plugins: Plugins) -> None:
    configure = 'if method == "Configure": return api.ConfigureResponse(events=0x800).SerializeToString()'
    life = [call for call in pod_life(patient()) if call[0] != "UpdatePodSandbox"]
    report = judge(Launched(plugins.file(plugins.write("10-a", sound(configure)))), patient(), life)
    assert (named(report), of(report, "answers-events").result) == ([], Result.DOES_NOT_APPLY)


def test_a_pod_is_updated_while_its_container_runs_if_the_runtime_updates_pods() -> None:
    updates = ["UpdatePodSandbox", "PostUpdatePodSandbox"]
    new, old = ([*dict(pod_life(FLAVOURS[name]))] for name in (NEWEST, "containerd/2.0.14"))
    assert [method for method in new if method not in updates] == old
    assert new[new.index("StopContainer") - 2 : new.index("StopContainer")] == updates
    assert not [one for _, one in pod_life(FLAVOURS[NEWEST]) if re.search(r"\bpid: |/proc/\d", str(one))]


def test_the_parts_of_a_full_node_are_all_its_pods_and_containers() -> None:
    parts = requests.full_node()
    assert [pod.id for part in parts for pod in part.pods] == [f"pod-{n}" for n in range(requests.PODS)]
    assert len({one.id for part in parts for one in part.containers}) == requests.CONTAINERS
    assert {len(part.pods) + len(part.containers) for part in parts} == {requests.PER_PART}


def test_a_plugin_that_is_not_told_of_the_end_of_pods_is_not_judged_by_it(plugins: Plugins) -> None:
    configure = 'if method == "Configure": return api.ConfigureResponse(events=1).SerializeToString()'
    verdict = of(judged(plugins, sound(configure), patient(FLAVOURS[WITH_CRIO])), "lets-pods-stop")
    assert (verdict.result, verdict.came) == (Result.DOES_NOT_APPLY, "the plugin is not subscribed to the events")


def test_a_refused_configuration_is_no_unknown_event_and_an_unknown_event_no_refused_configuration(
    plugins: Plugins,
) -> None:
    assert of(judged(plugins, sound(BROKEN["known-events"])), "takes-configuration").result is Result.HOLDS
    refuses = 'if method == "Configure": raise CallError(2, "invalid plugin events in my configuration")'
    assert named(judged(plugins, sound(refuses))) == ["takes-configuration"]


def test_notes_fail_no_test(plugins: Plugins) -> None:
    """What refuses a text that is none, sets a field, and does not give the same answer twice."""
    adjusts = """
        if method == "Configure" and "{]" in message.config: raise CallError(2, "no")
        if method == "CreateContainer":
            seen.add(len(seen))
            adjust = api.ContainerAdjustment(env=[api.KeyValue(key="A", value=str(len(seen)))])
            return api.CreateContainerResponse(adjust=adjust).SerializeToString()"""
    report = judged(plugins, sound(adjusts))
    assert named(report) == []
    notes = {note.subject: note.text for note in report.notes}
    assert notes.keys() == {"conflicts", "configuration", "idempotence", "time"}
    assert notes["conflicts"] == 'plugins "10-a" and "another plugin" both tried to set Env A: the event fails'
    assert notes["configuration"] == "empty text is taken, broken text is refused (error 2: no), large text is taken"


# ---- time, and the end


def test_a_plugin_that_does_not_register_is_named(plugins: Plugins, monkeypatch: pytest.MonkeyPatch) -> None:
    report = judged(plugins, sound(run="sys.exit(5)"))
    assert named(report) == ["registers"]
    assert report.failures[0].came == "the plugin has ended with exit code 5"
    assert of(report, "answers-in-time").came == "the plugin has not joined the runtime"
    late = replace(patient(), registration_timeout=0.01)
    report = judged(plugins, sound(run="signal.pause()"), late)
    assert (named(report), report.failures[0].came) == (["registers"], "no answer in 0.03 s")
    monkeypatch.setattr(joining, "ends", lambda *_: False)  # it only closes the connection, as far as can be seen
    report = judged(plugins, sound(run="sys.exit(5)"))
    assert (named(report), report.failures[0].came) == (["registers"], "connection closed by the plugin")


def test_a_plugin_that_registers_too_late_is_named(plugins: Plugins, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its registration comes, as from a machine where it hardly runs, when a runtime has given it up."""
    clock = chain([0], repeat(100))
    monkeypatch.setattr(joining, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    report = judged(plugins, sound(), patient())
    assert named(report) == ["registers"]
    assert report.failures[0].came == "RegisterPlugin after 100.0 s"


def test_a_plugin_that_does_not_answer_is_named(plugins: Plugins) -> None:
    """A slow machine makes more answers late, which the same rule reports."""
    never = 'if method == "StartContainer": return None'
    report = judged(plugins, sound(never), replace(patient(), request_timeout=0.2))
    assert named(report) == ["answers-in-time"]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("method", ["StartContainer", "Synchronize"])
def test_a_plugin_that_waits_for_its_own_updates_is_named(plugins: Plugins, method: str) -> None:
    waits = f'if method == "{method}": plugin.call("UpdateContainers", {WANTED})'
    assert named(judged(plugins, sound(waits))) == ["updates-do-not-block"]


def test_a_plugin_may_update_containers_without_waiting_for_the_answer(plugins: Plugins) -> None:
    asks = f'if method == "StartContainer": plugin.ask("UpdateContainers", {WANTED})'
    report = judged(plugins, sound(asks))
    assert named(report) == []
    assert of(report, "updates-do-not-block").result is of(report, "refused-updates").result is Result.HOLDS


@pytest.mark.ci
def test_a_late_answer_is_no_wait_for_the_plugins_own_updates(
    plugins: Plugins, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plugin answers without the answer to its update, but too late: the clock jumps when the update comes."""
    monkeypatch.setattr(watched, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + 90 * len(updated)))
    updated: list[str] = []
    serve = watched.Watched._serve

    def note(self: watched.Watched, request: Request) -> None:
        updated.append(request.method)
        serve(self, request)

    monkeypatch.setattr(watched.Watched, "_serve", note)
    asks = f'if method == "StartContainer": plugin.ask("UpdateContainers", {WANTED})'
    report = judged(plugins, sound(asks))
    assert named(report) == ["answers-in-time"]
    assert of(report, "updates-do-not-block").came == "an answer was late"


def test_what_a_plugin_has_started_does_not_stay(plugins: Plugins, tmp_path: Path) -> None:
    fifo, end = tmp_path / "fifo", Fifo(tmp_path / "end")
    os.mkfifo(fifo)
    starts = f"""
        if method == "Configure":
            held = os.open({str(fifo)!r}, os.O_WRONLY)
            if os.fork() == 0:
                plugin.trunk.close()
                open({str(end)!r}).read()  # to the end of the test, if nobody kills it
                os._exit(0)
            os.write(held, b".")
            os.close(held)"""
    with closing(end), open(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        assert named(judged(plugins, sound(starts))) == []
        os.set_blocking(reader.fileno(), True)
        with limit("what the plugin has started stays"):
            assert reader.read(), "to its end: nobody has it open any more"


@pytest.mark.usefixtures("played_to_the_end")
def test_a_plugin_that_stays_is_named(plugins: Plugins, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "END", 0.05)
    stays = "raw.run(answer)\nsignal.pause()"
    (failure,) = judged(plugins, sound(run=stays)).failures
    assert (failure.rule.name, failure.came) == ("ends-with-connection", "the plugin is still running after 0.05 s")
