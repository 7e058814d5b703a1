"""Plugins that fail, a conf.json that is broken, and what is told of runs."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from adapter.errors import ConfigError
from adapter.nri import api
from adapter.process import PATIENCE
from adapter.settings import PluginSettings

from .node import Answer, Node, a_container, a_pod

FAIL = """echo '{"error":"broken"}'"""


def done(node: Node, answer: Answer) -> str:
    node.wait(answer)
    return answer.outcome


def logged(caplog: pytest.LogCaptureFixture, level: int = logging.ERROR) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == level]


# Failures

FAILURES = [
    ("""echo '{"error":"broken"}'""", "broken"),
    ("""echo '{"error":"broken"}'; exit 3""", "broken"),
    ("exit 0", "no result (no output), exit code 0"),
    ("exit 3", "no result (no output), exit code 3"),
    ("echo first >&2; echo boom >&2; exit 1", "no result (no output), exit code 1, stderr: 'boom'"),
    ("kill -9 $$", "no result (no output), killed by signal 9"),
    ("echo hello; exit 1", "no result (line 1, column 1: unexpected 'h'), exit code 1, output: 'hello\\n'"),
    ("echo '{}{}'", "no result (line 1, column 3: something behind the JSON value), exit code 0, output: '{}{}\\n'"),
    (r"printf '\377\376'", r"no result (line 1, column 1: unexpected byte 0xff), exit code 0, output: '\\xff\\xfe'"),
    (
        """echo '{"error":1}'""",
        """no result ('error' is a number, not a string), exit code 0, output: '{"error":1}\\n'""",
    ),
    ("answer; kill -9 $$", ""),
    ("answer; exit 3", ""),
    ("echo null; exit 255", ""),
]


@pytest.mark.parametrize(("script", "reason"), FAILURES, ids=[script[:20] for script, _ in FAILURES])
def test_a_create_fails_as_its_plugin_does(
    node: Node, script: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The exit code does not count where there is a result."""
    node.plugins(a="answer", b=script, c="answer")
    outcome = done(node, node.create("c1"))
    if not reason:
        assert outcome == "ok"
        assert node.runs == ["a create c1", "b create c1", "c create c1"]
        return
    assert outcome.startswith(f"plugin: b: {reason}")
    assert len(outcome) < 400
    assert node.runs == ["a create c1", "b create c1"]
    assert logged(caplog) == [f"create of container c1: {outcome}"]
    assert node.counters["failures"] == 1


LIMIT = 1 << 20


@pytest.mark.parametrize(
    ("size", "outcome"), [(LIMIT, "ok"), (LIMIT + 1, "plugin: a: no result (more than 1048576 bytes)")]
)
def test_output_may_be_a_mebibyte_long(node: Node, size: int, outcome: str) -> None:
    node.plugins(a=f"yes '' | head -c {size - 2}; printf '{{}}'")
    answer = node.create("c1")
    node.loop.advance(PATIENCE)
    assert done(node, answer)[: len(outcome)] == outcome
    assert len(answer.outcome) < 500


def test_plugins_of_a_failed_create_get_their_delete_and_those_not_started_get_none(node: Node) -> None:
    node.plugins(a="answer", b=f'[ "$state" = delete ] && answer || {FAIL}', c="answer")
    assert done(node, node.create("c1")) == "plugin: b: broken"
    assert done(node, node.delete("c1")) == "ok"
    assert node.runs == ["a create c1", "b create c1", "a delete c1", "b delete c1"]


CANNOT_START: list[tuple[str, Callable[[Node], Any]]] = [
    ("not found in", lambda node: (node.folder / "b").unlink()),
    ("is not an executable file", lambda node: (node.folder / "b").chmod(0o644)),
    ("Exec format error", lambda node: node.programs.write("b", b"no shebang\n")),
    ("No such file or directory", lambda node: node.programs.write("b", b"#!/no/such/interpreter\n")),
]


@pytest.mark.parametrize(("reason", "spoil"), CANNOT_START, ids=[reason for reason, _ in CANNOT_START])
def test_a_plugin_that_cannot_be_started_fails_its_create_and_gets_no_delete(
    node: Node, reason: str, spoil: Callable[[Node], Any]
) -> None:
    node.plugins(a="answer", b="answer", c="answer")
    spoil(node)
    outcome = done(node, node.create("c1"))
    assert outcome.startswith("plugin: b: ")
    assert reason in outcome
    node.plugin("b")
    assert done(node, node.delete("c1")) == "ok"
    assert node.runs == ["a create c1", "a delete c1"]


def test_the_only_plugin_that_cannot_be_started_leaves_nothing_to_delete(node: Node) -> None:
    node.configure("absent")
    assert done(node, node.create("c1")).startswith("plugin: absent: not found in")
    assert node.delete("c1").outcome == "nothing to do"
    assert not node.busy
    node.loop.advance(100)  # no deadline is left behind


def test_a_failure_is_told_with_the_names_of_the_pod_and_the_container(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where the runtime tells a delete no more than the ids."""
    node.build(fail_create=False)
    node.plugins(a=FAIL)
    pod, container = a_pod(namespace="default", name="web"), a_container("c1", name="nginx")
    done(node, node.handle("RunPodSandbox", api.RunPodSandboxRequest(pod=pod)))
    done(node, node.handle("StartContainer", api.StartContainerRequest(pod=pod, container=container)))
    done(node, node.delete("c1"))
    done(node, node.delete_pod())
    assert [line.partition(": ")[0] for line in logged(caplog)] == [
        f"{state} of {of}"
        for state, of in (
            ("create", "sandbox default/web (pod)"),
            ("create", "container default/web/nginx (c1)"),
            ("delete", "container default/web/nginx (c1)"),
            ("delete", "sandbox default/web (pod)"),
        )
    ]


def test_a_key_that_resembles_a_known_one_is_warned_of_once(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.plugins(a="""echo '{"Specs": {}, "spek": {}, "errors": "x", "conf": 1}'""")
    assert [done(node, node.create(id_)) for id_ in ("c1", "c2")] == ["ok", "ok"]
    text = "a: the key {!r} in its result is unknown and ignored; did you mean {!r}?"
    assert logged(caplog, logging.WARNING) == [text.format("Specs", "spec"), text.format("errors", "error")]


def test_a_tolerated_failure_lets_the_create_go_on(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.build(fail_create=False)
    node.plugins(a="answer", b=FAIL, c="answer")
    assert done(node, node.create("c1")) == "ok"
    assert node.runs == ["a create c1", "b create c1", "c create c1"]
    assert [result["plugin"] for result in node.requests("c")[0]["results"]] == ["a"]
    assert logged(caplog) == ["create of container c1: plugin: b: broken (tolerated)"]
    done(node, node.delete("c1"))
    assert node.runs[3:] == ["a delete c1", "b delete c1", "c delete c1"]


def test_a_plugin_that_cannot_be_started_can_be_tolerated(node: Node) -> None:
    node.build(fail_create=False)
    node.plugins(a="answer", c="answer")
    node.configure("a", "absent", "c")
    assert done(node, node.create("c1")) == "ok"
    assert node.runs == ["a create c1", "c create c1"]


@pytest.mark.parametrize(
    ("general", "of_b", "outcome"),
    [
        (True, None, "plugin: b: broken"),
        (True, False, "ok"),
        (False, None, "ok"),
        (False, True, "plugin: b: broken"),
    ],
)
def test_what_is_configured_for_a_plugin_goes_before_what_is_for_all(
    node: Node, general: bool, of_b: bool | None, outcome: str
) -> None:
    own = {"b": PluginSettings(fail_create=of_b), "a": PluginSettings(fail_create=not general)}
    node.build(fail_create=general, plugins=own)
    node.plugins(b=FAIL)
    assert done(node, node.create("c1")) == outcome


def test_a_failed_delete_is_tolerated_and_the_others_get_theirs(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.plugins(a="answer", b=f'[ "$state" = create ] && answer || {FAIL}', c="answer")
    done(node, node.create("c1"))
    assert done(node, node.delete("c1")) == "ok"
    assert node.runs[3:] == ["a delete c1", "b delete c1", "c delete c1"]
    assert logged(caplog) == ["delete of container c1: plugin: b: broken (tolerated)"]


def test_a_delete_that_must_not_fail_fails_once_and_the_others_get_theirs(node: Node) -> None:
    """CRI-O repeats a stop that failed; there is no second delete."""
    node.build(fail_delete=True)
    node.plugins(a="answer", b=f'[ "$state" = create ] && answer || {FAIL}', c="answer")
    done(node, node.create("c1"))
    assert done(node, node.delete("c1")) == "plugin: b: broken"
    assert node.delete("c1").outcome == "nothing to do"
    assert node.runs[3:] == ["a delete c1", "b delete c1", "c delete c1"]


def test_a_plugin_that_has_gone_misses_its_delete_and_the_others_get_theirs(node: Node) -> None:
    node.plugins(a="answer", b="answer", c="answer")
    done(node, node.create("c1"))
    (node.folder / "b").unlink()
    assert done(node, node.delete("c1")) == "ok"
    assert node.runs[3:] == ["a delete c1", "c delete c1"]


# A broken conf.json


def test_a_broken_conf_json_without_a_good_one_before_fails_creates(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.conf_json.write_text("{")
    reason = f"{node.conf_json}:1: unexpected end"
    for id_ in ("c1", "c2"):
        with pytest.raises(ConfigError) as caught:
            node.create(id_)
        assert str(caught.value) == f"{reason} (no plugin can run)"
    assert node.delete("c1").outcome == "nothing to do"
    assert logged(caplog) == [
        f"{reason}; no plugin can run",
        f"create of container c1: {reason} (no plugin can run)",
        f"create of container c2: {reason} (no plugin can run)",
    ]
    assert node.bridge.faults == [f"{reason}; no plugin can run"]


def test_a_broken_conf_json_is_tolerated_where_failures_are(node: Node) -> None:
    node.build(fail_create=False)
    node.conf_json.write_text("{")
    assert node.create("c1").outcome == "nothing to do"


def test_a_broken_conf_json_leaves_the_last_good_plugins(node: Node) -> None:
    node.plugins(a="answer")
    done(node, node.create("c1"))
    node.conf_json.write_text("{")
    assert done(node, node.create("c2")) == "ok"
    assert node.runs == ["a create c1", "a create c2"]


def test_a_broken_conf_json_fails_no_sandbox_that_is_not_ours(node: Node) -> None:
    node.build(sandboxes="never")
    node.conf_json.write_text("{")
    assert node.create_pod().outcome == "nothing to do"
    with pytest.raises(ConfigError):
        node.create("c1")


# What else is seen


def test_runs_are_counted(node: Node) -> None:
    node.plugins(a="answer", b="answer")
    done(node, node.create("c1"))
    done(node, node.delete("c1"))
    assert node.counters == {"runs": 4}


def test_it_is_idle_when_no_chain_is_under_way(node: Node) -> None:
    node.plugins(a="hold; answer")
    assert not node.busy
    answer = node.create("c1")
    node.hear("a create c1 holds")
    assert node.busy
    node.release("a")
    done(node, answer)
    assert not node.busy


def test_whoever_waits_for_it_to_be_idle_is_called_once(node: Node) -> None:
    calls: list[str] = []
    node.bridge.when_idle(lambda: calls.append("at once"))
    assert calls == ["at once"]
    node.plugins(a="answer")
    answer = node.create("c1")
    node.bridge.when_idle(lambda: calls.append(answer.outcome))
    done(node, answer)
    node.idle()
    done(node, node.delete("c1"))
    assert calls == ["at once", "ok"]


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


@pytest.mark.parametrize(
    "conf",
    [b'"\xff"', b"[" * 5000 + b"]" * 5000, rb'"\ud800"', b"1" * 5000],
    ids=["bytes", "deep", "surrogate", "digits"],
)
def test_at_the_level_debug_odd_configurations_do_no_harm(
    node: Node, caplog: pytest.LogCaptureFixture, conf: bytes
) -> None:
    """They are valid, and so are the requests."""
    caplog.set_level(logging.DEBUG)
    node.plugins(a="answer", b="answer")
    node.conf_json.write_bytes(b'{"plugins":[{"type":"a","conf":%s},{"type":"b"}]}' % conf)
    assert done(node, node.create("c1")) == "ok"
    assert node.runs == ["a create c1", "b create c1"]
