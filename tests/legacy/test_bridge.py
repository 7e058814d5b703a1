"""Creates and deletes with real plugins: who runs, on what, what the event gets, and what comes of failures.

Nothing here waits for time: the clock is moved, and plugins hold until they are let go. `test_histories` shows orders
and times in every case; here are texts, counters, and what real programs get.
"""

from __future__ import annotations

import errno
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from nri import api
from v010_adapter.errors import ConfigError
from v010_adapter.events import work
from v010_adapter.events.life import Action
from v010_adapter.events.work import FIRST_PAUSE, LONGEST_PAUSE, MAX_ERROR
from v010_adapter.legacy.plugins import unfit
from v010_adapter.programs.process import Runner, RunOutcome
from v010_adapter.settings import LegacySettings, PluginSettings
from v010_adapter.state.ledger import PREFIX

from ..rig.node import Node, a_container, a_pod, saying
from .scenarios import FAIL, LATE, LIMIT, Player, done, logged

LENIENT: dict[str, Any] = {"fail_create": False}
THREE = dict.fromkeys("abc", "answer")
THREE_DELETES = "ran a create c1, b create c1, c create c1, a delete c1, b delete c1, c delete c1"


SCENARIOS = {
    "every plugin runs once for a create and once for the delete, in order": (
        "plugins b=answer a=answer; create c1 -> ok; stop c1 -> ok;"
        "ran b create c1, a create c1, b delete c1, a delete c1; counts runs=4"
    ),
    "a tolerated failure lets the create go on without its result": (
        "with fail_create=False; plugins a=answer b=fail_at_create c=answer; create c1 -> ok;"
        "logs create of container c1: plugin: b: broken (tolerated); chain of c: a; stop c1 -> ok;" + THREE_DELETES
    ),
    "a failed delete is tolerated and the others get theirs": (
        "plugins a=answer b=fail_at_delete c=answer; create c1 -> ok; stop c1 -> ok;"
        "logs delete of container c1: plugin: b: broken (tolerated);" + THREE_DELETES
    ),
}


BEHIND = "create of container c1: plugin: a: no result within 1.9 s, it goes on after the answer"

LATE_ONES = {
    "the answer goes out 100 ms before the deadline and not before": (
        f"plugins a=hold; create c1; a holds; +1.899; it is pending; +0.001; it is {LATE}"
    ),
    "a plugin that fails after the answer is logged and counted": (
        f"with fail_create=False; plugins a=hold_and_exit_3 b=answer; create c1; a holds; late; it is ok;"
        f"logs {BEHIND}; let a; idle; ran a create c1, b create c1;"
        f"logs create of container c1: plugin: a: no result (no output), exit code 3 (tolerated);"
        "counts runs=2 failures=1 late=1"
    ),
    "a late plugin is killed if the setting says so and the rest runs after the answer": (
        "with fail_create=False kill_on_timeout=True; plugins a=hold b=answer; create c1; a holds; late; it is ok;"
        "idle; ran a create c1, b create c1; chain of b: ; counts runs=2 failures=1 late=1 killed=1"
    ),
    "behind a plugin that works on the rest runs after the answer": (
        "with fail_create=False; plugins a=work_on b=answer; create c1; a holds; late; it is ok; idle;"
        "ran a create c1, b create c1; chain of b: a;"
        "logs create of container c1: a took 1.9 s (legacy.plugins.a.timeout), it goes on after the answer"
    ),
    "a late plugin's error names the one before it that took the most time": (
        "plugins a=hold b=hold c=hold d=hold; create c1; a holds; +0.2; let a; b holds; +1.0; let b; c holds; +0.3;"
        "let c; d holds; +0.4; it is plugin: d: no result within 0.4 s: b took 1.0 s (legacy.plugins.b.timeout)"
    ),
    "a late delete that fails is not answered again": (
        "with fail_delete=True; plugins a=hold_and_fail_at_delete b=answer; create c1 -> ok; stop c1; a holds; late;"
        "it is ok; settle;"
        "logs delete of container c1: plugin: a: no result within 1.9 s, it goes on after the answer; let a; idle;"
        "it is ok; ran a create c1, b create c1, a delete c1, b delete c1;"
        "logs delete of container c1: plugin: a: broken"
    ),
    "a delete that waits is answered in time and comes later": (
        f"with fail_create=False; plugins a=hold_at_create; create c1; a holds; late; logs {BEHIND}; stop c1; +1.899;"
        f"it is pending; +0.002; it is ok;"
        f"logs delete of container c1: waited for create of container c1, it goes on after the answer; stop c1 -> -;"
        f"let a; idle; ran a create c1, a delete c1"
    ),
    "what a delete waited for is named in the order in which it came": (
        "with fail_create=False; plugins a=hold_at_create; create pod; a holds; let a; it gets ok;"
        "create c3 within 9; create c1 within 9; create c4 within 9; create c2 within 9; stop pod; late; it is ok;"
        "logs delete of sandbox pod: waited for create of container c3, create of container c1, "
        "create of container c4, create of container c2, it goes on after the answer; let a; let a; let a; let a; idle"
    ),
    "a create that waits too long fails if a plugin must not, like one that conf.json has got meanwhile": (
        "with a.fail_create=False c.fail_create=False; plugins a=hold_for_pod; create pod; a holds; late; it is ok;"
        "plugin b; plugin c; conf c b a; create c1; +1.899; it is pending; +0.002;"
        "it is plugin: b: not run: waited for create of sandbox pod; let a; idle; ran a create pod;"
        "stop c1 -> -"
    ),
    "a plugin's timeout comes before the call's": (
        "with a.timeout=0.5 a.fail_create=False; plugins a=hold b=answer; create c1; a holds; +0.499; it is pending;"
        "ran a create c1; +0.001; it gets ok; ran b create c1; chain of b: ;"
        "counts runs=2 late=1 failures=1"
    ),
    "at its timeout a plugin that has printed its result has succeeded": (
        "with timeout=0.5; plugins a=work_on b=answer; create c1; a holds; +0.5; it gets ok; chain of b: a;"
        "counts runs=2"
    ),
    "the chain goes on without a plugin that hangs longer than the limit": (
        f"with fail_create=False late_limit=30 timeout=50; plugins a=hold b=answer; create c1; a holds; late;"
        f"logs {BEHIND};"
        f"+28.099; ran a create c1; +0.002; idle; ran b create c1; chain of b: ;"
        f"logs create of container c1: plugin: a: no result within 30.0 s (tolerated) |"
        "a: container c1: pid N has no result in time: left to finish; +20"
    ),
}


@pytest.mark.parametrize("name", [*SCENARIOS, *LATE_ONES])
def test_what_a_scenario_says_happens(name: str, player: Player) -> None:
    player.play((SCENARIOS | LATE_ONES)[name])


# The time of each run, by its outcome: counted once, when the run is no longer waited for

DONE, FAILED = RunOutcome.DONE, RunOutcome.FAILED
TIMES: dict[str, tuple[str, dict[str, Any]]] = {
    "a result and a failure are told apart": (
        (
            "plugins a=hold b=hold_and_say_nonsense; create c1; a holds; +0.25; let a; b holds; +0.25; let b;"
            "it gets plugin: b: no result..."
        ),
        {"a": {DONE: (1, 0.25)}, "b": {FAILED: (1, 0.25)}},
    ),
    "a result after the answer is a result": (
        "with fail_create=False; plugins a=hold; create c1; a holds; late; it is ok; +1.1; let a; idle",
        {"a": {DONE: (1, 3.0)}},
    ),
    "a plugin that works on after its result has succeeded": (
        "plugins a=work_on; create c1; a holds; late; it is ok",
        {"a": {DONE: (1, LIMIT)}},
    ),
    "a plugin that cannot be started has taken no time": (
        "conf missing; create c1 -> plugin: missing: not found...; counts failures=1",
        {"missing": {}},
    ),
}


@pytest.mark.parametrize("name", TIMES)
def test_the_time_of_a_run_is_counted_once_by_its_outcome(name: str, node: Node, player: Player) -> None:
    steps, expected = TIMES[name]
    player.play(steps)
    accounts = node.serving.runner.accounts
    assert expected == {
        plugin: {of: (sum(one.counts), round(one.seconds, 6)) for of, one in accounts[plugin].times.items()}
        for plugin in expected
    }


# Failures

REASONS = [  # what a plugin does, and what its create fails with
    ("""echo '{"error":"broken"}'""", "broken"),
    ("""echo '{"error":"broken"}'; exit 3""", "broken"),
    ("exit 3", "no result (no output), exit code 3"),
    ("echo first >&2; echo boom >&2; exit 1", "no result (no output), exit code 1"),
    ("echo hello; exit 1", "no result (line 1, column 1: unexpected 'h'), exit code 1"),
    (r"printf '\377\376'", r"no result (line 1, column 1: unexpected byte 0xff), exit code 0"),
    ("answer; kill -9 $$", ""),
    ("echo null; exit 255", ""),
]


@pytest.mark.parametrize(("script", "reason"), REASONS, ids=[script[:20] for script, _ in REASONS])
def test_a_create_fails_as_its_plugin(node: Node, script: str, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    """The exit code does not count where there is a result."""
    node.plugins(a="answer", b=script, c="answer")
    outcome = done(node, node.create("c1"))
    if not reason:
        assert (outcome, node.runs) == ("ok", ["a create c1", "b create c1", "c create c1"])
        return
    assert outcome == f"plugin: b: {reason}"
    assert node.runs == ["a create c1", "b create c1"]
    assert logged(caplog, logging.ERROR) == [f"create of container c1: {outcome}"]
    assert node.counters["failures"] == 1


def test_a_long_error_is_cut_in_the_answer_and_in_the_log(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    """A plugin may copy what the author of a pod has written."""
    for length, shown in ((MAX_ERROR, "é" * MAX_ERROR), (MAX_ERROR + 1, "é" * MAX_ERROR + " …")):
        caplog.clear()
        node.plugins(a=saying(error="é" * length))
        outcome = done(node, node.create("c1"))
        assert outcome == f"plugin: a: {shown}"
        assert logged(caplog, logging.ERROR) == [f"create of container c1: {outcome}"]


@contextmanager
def being_written(path: Path) -> Iterator[None]:
    """Nobody can execute a file that somebody has open for writing."""
    with path.open("ab"):
        yield


def test_a_plugin_that_is_being_written_is_started_when_it_is_whole(node: Node) -> None:
    node.plugins(a="answer", b="answer")
    with being_written(node.folder / "b"):
        create = node.create("c1")
        node.loop.until(lambda: node.runs == ["a create c1"], "the plugin before it")
        for _ in range(3):
            node.loop.advance(LONGEST_PAUSE)
        assert create.pending
    node.loop.advance(LONGEST_PAUSE)
    assert done(node, create) == "ok"
    assert node.runs == ["a create c1", "b create c1"]
    assert "failures" not in node.counters


def test_a_plugin_that_is_being_written_is_started_after_longer_and_longer_pauses(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawn = Mock(side_effect=OSError(errno.ETXTBSY, "Text file busy"))
    monkeypatch.setattr(Runner, "spawn", spawn)
    node.plugins(a="answer")
    create = node.create("c1")
    node.loop.settle()
    for starts, pause in enumerate((0.01, 0.02, 0.04, 0.08, LONGEST_PAUSE, LONGEST_PAUSE), 1):
        node.loop.advance(pause - 1e-3)
        assert spawn.call_count == starts
        node.loop.advance(2e-3)
        assert spawn.call_count == starts + 1
    node.loop.advance(2)
    assert done(node, create) == "plugin: a: " + f"{node.folder}/a: Text file busy"


@pytest.mark.parametrize("fail", [True, False])
def test_a_plugin_that_is_written_until_the_event_is_due_has_failed(node: Node, fail: bool) -> None:
    """It gets no delete, and those after it run as after any failure."""
    node.build(fail_create=fail)
    node.plugins(a="answer", b="answer")
    with being_written(node.folder / "a"):
        create = node.create("c1")
        node.loop.settle()
        assert create.pending
        node.loop.advance(2)
        outcome = done(node, create)
        node.idle()
    assert outcome == ("plugin: a: " + f"{node.folder}/a: Text file busy" if fail else "ok")
    assert node.runs == ([] if fail else ["b create c1"])
    done(node, node.delete("c1"))
    assert node.runs == ([] if fail else ["b create c1", "b delete c1"])


@pytest.mark.parametrize("fails", ["", "b"])
def test_plugins_that_are_all_written_until_the_event_is_due_have_all_failed(
    node: Node, caplog: pytest.LogCaptureFixture, fails: str
) -> None:
    """As after an installer has replaced them all. The event is answered once; what need not fail runs after that."""
    node.build(fail_create=False, plugins={fails: PluginSettings(fail_create=True)} if fails else {})
    node.plugins(a="answer", b="answer", c="answer")
    with being_written(node.folder / "a"), being_written(node.folder / "b"):
        create = node.create("c1")
        node.loop.settle()
        node.loop.advance(2)
        outcome = done(node, create)
        node.loop.advance(LONGEST_PAUSE)
        node.idle()
    assert outcome == (f"plugin: b: not run: a: {node.folder}/a: Text file busy" if fails else "ok")
    assert node.runs == ([] if fails else ["c create c1"])
    assert "a bug" not in caplog.text


@pytest.mark.parametrize("action", [Action.SET_LIMIT, Action.KILL_IF_ASKED])
def test_a_bug_in_an_action_is_logged_and_the_others_are_done(
    node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, action: Action
) -> None:
    node.build(fail_create=False, kill_on_timeout=True)
    node.plugins(a="hang")
    monkeypatch.setitem(vars(work)["_ACTIONS"], action, Mock(side_effect=KeyError("bug")))
    create = node.create("c1")
    node.loop.settle()
    node.loop.advance(2)
    assert done(node, create) == "ok"
    assert f"a bug: create of container c1: {action}" in caplog.text
    assert "KeyError: 'bug'" in caplog.text


def test_a_delete_waits_for_a_plugin_that_is_being_written_too(node: Node) -> None:
    node.plugins(a="answer")
    done(node, node.create("c1"))
    with being_written(node.folder / "a"):
        delete = node.delete("c1")
        node.loop.settle()
        node.serving.end()
        assert node.turns.directory.names(PREFIX, is_alone=True), "the next process runs it, if this one ends now"
        node.loop.advance(FIRST_PAUSE)
        assert delete.pending
    node.loop.advance(LONGEST_PAUSE)
    assert done(node, delete) == "ok"
    assert node.runs == ["a create c1", "a delete c1"]


def test_a_plugin_that_cannot_be_started_fails_its_create_and_gets_no_delete(node: Node) -> None:
    node.plugins(**THREE)
    (node.folder / "b").unlink()
    assert done(node, node.create("c1")).startswith("plugin: b: not found in")
    node.plugin("b")
    assert done(node, node.delete("c1")) == "ok"
    assert node.runs == ["a create c1", "a delete c1"]


def test_a_failure_is_told_with_the_names_of_pod_and_container(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    """Also where the runtime tells a delete no more than the ids."""
    node.build(**LENIENT)
    node.plugins(a=FAIL)
    pod, container = a_pod(namespace="default", name="web"), a_container("c1", name="nginx")
    done(node, node.handle("RunPodSandbox", api.RunPodSandboxRequest(pod=pod)))
    done(node, node.handle("StartContainer", api.StartContainerRequest(pod=pod, container=container)))
    node.wait(node.delete("c1"), node.delete_pod())
    of_pod, of_container = "sandbox default/web (pod)", "container default/web/nginx (c1)"
    told = [f"create of {of_pod}", f"create of {of_container}", f"delete of {of_container}", f"delete of {of_pod}"]
    assert [line.partition(": ")[0] for line in logged(caplog, logging.ERROR)] == told


# A broken conf.json


def test_a_broken_conf_json_with_no_good_one_before_fails_creates(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.conf_json.write_text("{")
    reason = f"{node.conf_json}:1:2: unexpected end"
    for id_ in ("c1", "c2"):
        with pytest.raises(ConfigError) as caught:
            node.create(id_)
        assert str(caught.value) == f"{reason} (no plugin can run)"
    assert node.delete("c1").outcome == "nothing to do"
    refused = [f"create of container {id_}: {reason} (no plugin can run)" for id_ in ("c1", "c2")]
    assert logged(caplog, logging.ERROR) == [f"{reason}; no plugin can run", *refused]
    assert node.serving.describe()["faults"] == [f"{reason}; no plugin can run"]
    node.build(sandboxes="never")
    assert node.create_pod().outcome == "nothing to do", "it fails no sandbox that is not ours"
    node.build(fail_create=False)
    assert node.create("c1").outcome == "nothing to do", "it is tolerated where failures are"


def test_it_is_unfit_while_its_creates_would_fail_for_a_missing_program_or_list(node: Node) -> None:
    """A failure that is tolerated is no reason."""

    def why(**own: Any) -> str:
        return unfit(LegacySettings(config=str(node.conf_json), path=(str(node.folder),), **own))

    node.configure("a", "b")
    node.plugin("a")
    assert why().startswith("plugin: b: not found in")
    node.plugin("b")
    assert why() == ""
    node.conf_json.write_text("{")
    assert why() == f"{node.conf_json}:1:2: unexpected end"
    assert why(**LENIENT) == ""
    node.configure("absent")
    assert why(plugins={"absent": PluginSettings(fail_create=False)}) == ""


# Exempt namespaces

EXEMPT: dict[str, Any] = {"exempt": frozenset(["mine"]), "fail_delete": True}


def test_no_failure_of_a_plugin_refuses_a_create_or_a_delete_in_an_exempt_namespace(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a delete does not name the namespace."""
    monkeypatch.setattr("v010_adapter.host.paths.TIMESTAMP_STEP", -1 << 63)  # conf.json is read once
    node.build(**EXEMPT)
    node.plugins(a=FAIL, b="answer")
    outcomes = []
    for namespace in ("mine", "other"):
        pod = a_pod(namespace, namespace=namespace)
        request = api.StartContainerRequest(pod=pod, container=a_container(f"c-{namespace}"))
        outcomes += [
            done(node, node.handle("RunPodSandbox", api.RunPodSandboxRequest(pod=pod))),
            done(node, node.handle("StartContainer", request)),
            done(node, node.delete(f"c-{namespace}", namespace)),
            done(node, node.delete_pod(namespace)),
        ]
    assert outcomes == ["ok"] * 4 + ["plugin: a: broken"] * 4
    assert node.runs[:4] == ["a create mine", "b create mine", "a create c-mine", "b create c-mine"]


# What else is seen


def test_at_the_level_debug_requests_and_results_are_told(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    node.plugin("a")
    node.configure(("a", {"n": 1}))
    done(node, node.create("c1"))
    [record] = [record for record in caplog.records if record.levelno == logging.DEBUG]
    fields = record.fields  # type: ignore[attr-defined]
    assert (fields["event"], fields["plugin"], fields["state"], fields["id"]) == ("StartContainer", "a", "create", "c1")
    assert json.loads(fields["request"]) == node.requests("a")[0]
    assert json.loads(fields["result"])["plugin"] == "a"
    assert fields["error"] is None
    assert '"conf":{"n":1}' in record.getMessage(), "as bytes, which the formatters know as JSON"
    node.build(timeout=0.5)
    node.plugins(a="hold")
    create = node.create("c2")
    node.hear("a create c2 holds")
    node.loop.advance(0.5)
    done(node, create)
    [_, record] = [record for record in caplog.records if record.levelno == logging.DEBUG]
    assert record.fields["error"] == "plugin: a: no result in time"  # type: ignore[attr-defined]


def test_a_plugin_that_is_to_stand_by_and_is_not_found_is_told(node: Node) -> None:
    node.configure("missing")
    node.build(standby=1)
    node.serving.synchronize([], [])
    node.loop.settle()
    assert node.serving.describe()["standby"]["missing"]["off"].startswith("not found in")
