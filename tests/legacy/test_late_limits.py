"""The limits of late plugins: their own timeout, killing, and how long they may take behind the answer."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from adapter.settings import PluginSettings

from ..processes import children
from .late import HOLD, LIMIT, done, hang, logged, pids
from .node import Node

# A timeout of its own


def test_a_plugins_timeout_comes_before_the_calls(node: Node) -> None:
    node.build(plugins={"a": PluginSettings(timeout=0.5, fail_create=False)})
    node.plugins(a=HOLD, b="answer")
    answer = node.create("c1")
    hang(node, answer, "a create c1 holds")
    node.loop.advance(0.499)
    assert answer.pending
    assert node.runs == ["a create c1"]
    node.loop.advance(0.001)
    assert done(node, answer) == "ok"
    assert node.runs == ["a create c1", "b create c1"]
    assert "results" not in node.requests("b")[0]
    assert node.counters == {"runs": 2, "late": 1, "failures": 1}


def test_a_plugins_timeout_fails_an_event_that_needs_it(node: Node) -> None:
    node.build(timeout=0.5)
    node.plugins(a="answer", b=HOLD, c="answer")
    answer = node.create("c1")
    hang(node, answer, "b create c1 holds")
    node.loop.advance(0.5)
    assert answer.outcome == "plugin: b: no result within 0.5 s"
    assert node.runs == ["a create c1", "b create c1"]


def test_a_timeout_runs_for_each_plugin_anew(node: Node) -> None:
    node.build(timeout=0.5)
    node.plugins(a=HOLD, b=HOLD, c=HOLD)
    answer = node.create("c1")
    for name in "abc":
        hang(node, answer, f"{name} create c1 holds")
        node.loop.advance(0.4)
        node.release(name)
    assert done(node, answer) == "ok"


def test_at_its_timeout_a_plugin_that_has_printed_its_result_has_succeeded(node: Node) -> None:
    node.build(timeout=0.5)
    node.plugins(a="answer; hold", b="answer")
    answer = node.create("c1")
    hang(node, answer, "a create c1 holds")
    node.loop.advance(0.5)
    assert done(node, answer) == "ok"
    assert [result["plugin"] for result in node.requests("b")[0]["results"]] == ["a"]
    assert node.counters == {"runs": 2}


def test_a_timeout_longer_than_the_call_is_the_calls(node: Node) -> None:
    node.build(timeout=50)
    node.plugins(a=HOLD)
    answer = node.create("c1")
    hang(node, answer, "a create c1 holds")
    node.loop.advance(LIMIT)
    assert answer.outcome == "plugin: a: no result within 1.9 s"


def test_a_general_timeout_can_be_lifted_for_a_plugin(node: Node) -> None:
    node.build(timeout=0.5, plugins={"a": PluginSettings(timeout=0)})
    node.plugins(a=HOLD)
    answer = node.create("c1")
    hang(node, answer, "a create c1 holds")
    node.loop.advance(1)
    assert answer.pending
    node.release("a")
    assert done(node, answer) == "ok"


# Killing


@pytest.mark.parametrize("own", [{"kill_on_timeout": True}, {"plugins": {"a": PluginSettings(kill_on_timeout=True)}}])
def test_where_it_is_configured_a_plugin_without_a_result_is_killed_with_its_event(
    node: Node, own: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    node.build(**own)
    node.plugins(a=HOLD)
    answer = node.create("c1")
    hang(node, answer, "a create c1 holds")
    node.loop.advance(LIMIT)
    assert answer.outcome == "plugin: a: no result within 1.9 s"
    [pid] = pids(caplog)
    node.loop.until(lambda: pid not in children())
    assert "has ended: killed by signal 9" in caplog.records[-1].getMessage()
    assert node.counters == {"runs": 1, "late": 1, "failures": 1, "killed": 1}


def test_a_plugin_is_killed_at_its_own_timeout(node: Node) -> None:
    node.build(fail_create=False, timeout=0.5, kill_on_timeout=True)
    node.plugins(a=HOLD, b="answer")
    answer = node.create("c1")
    hang(node, answer, "a create c1 holds")
    node.loop.advance(0.5)
    assert done(node, answer) == "ok"
    assert node.runs == ["a create c1", "b create c1"]
    assert node.counters == {"runs": 2, "late": 1, "failures": 1, "killed": 1}


def test_a_killed_plugin_lets_the_chain_behind_the_answer_go_on(node: Node) -> None:
    node.build(fail_create=False, kill_on_timeout=True)
    node.plugins(a=HOLD, b="answer")
    answer = node.create("c1")
    hang(node, answer, "a create c1 holds")
    node.loop.advance(LIMIT)
    assert answer.outcome == "ok"
    node.idle()
    assert node.runs == ["a create c1", "b create c1"]
    assert node.counters == {"runs": 2, "late": 1, "failures": 1, "killed": 1}


def test_a_plugin_that_has_printed_its_result_is_not_killed(node: Node) -> None:
    node.build(kill_on_timeout=True)
    node.plugins(a="answer; hold; say ends")
    answer = node.create("c1")
    hang(node, answer, "a create c1 holds")
    node.loop.advance(LIMIT)
    assert answer.outcome == "ok"
    node.release("a")
    node.hear("a create c1 ends")
    assert node.counters == {"runs": 1}


# The limit behind the answer


def test_the_chain_goes_on_without_a_plugin_that_hangs_longer_than_the_limit(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.build(fail_create=False, late_limit=30)
    node.plugins(a=HOLD, b="answer")
    answer = node.create("c1")
    hang(node, answer, "a create c1 holds")
    node.loop.advance(LIMIT)
    node.loop.advance(30 - LIMIT - 0.001)
    assert node.runs == ["a create c1"]
    node.loop.advance(0.002)
    node.idle()
    assert node.runs == ["a create c1", "b create c1"]
    assert "results" not in node.requests("b")[0]
    assert logged(caplog, logging.ERROR) == ["create of container c1: plugin: a: no result within 30.0 s (tolerated)"]
    assert any(text.endswith("has no result in time: left to finish") for text in logged(caplog))


def test_what_a_plugin_answers_after_the_limit_is_too_late(node: Node) -> None:
    node.build(fail_create=False, late_limit=30)
    node.plugins(a=HOLD, b=HOLD)
    node.create("c1")
    node.hear("a create c1 holds")
    node.loop.advance(LIMIT)
    node.loop.advance(30)
    node.hear("b create c1 holds")
    node.release("a")
    node.loop.settle()
    node.release("b")
    node.idle()
    assert node.runs == ["a create c1", "b create c1"]
    assert "results" not in node.requests("b")[0]


def test_a_plugin_that_was_started_behind_the_answer_has_the_limit_too(node: Node) -> None:
    node.build(fail_create=False, late_limit=30)
    node.plugins(a=HOLD, b=HOLD, c="answer")
    node.create("c1")
    node.hear("a create c1 holds")
    node.loop.advance(LIMIT)
    node.release("a")
    node.hear("b create c1 holds")
    node.loop.advance(29.9)
    assert node.runs == ["a create c1", "b create c1"]
    node.loop.advance(0.2)
    node.idle()
    assert node.runs == ["a create c1", "b create c1", "c create c1"]


def test_behind_the_answer_the_shorter_of_timeout_and_limit_counts(node: Node) -> None:
    node.build(fail_create=False, late_limit=30, plugins={"b": PluginSettings(timeout=5)})
    node.plugins(a=HOLD, b=HOLD, c="answer")
    node.create("c1")
    node.hear("a create c1 holds")
    node.loop.advance(LIMIT)
    node.release("a")
    node.hear("b create c1 holds")
    node.loop.advance(5)
    node.idle()
    assert node.runs == ["a create c1", "b create c1", "c create c1"]


@pytest.mark.parametrize(("timeout", "first", "second"), [(5, 5, 4.9), (40, 30, 15)])
def test_behind_the_answer_the_timeout_and_the_limit_run_for_each_plugin_anew(
    node: Node, timeout: float, first: float, second: float
) -> None:
    node.build(fail_create=False, timeout=timeout, late_limit=30)
    node.plugins(a=HOLD, b=HOLD, c="answer")
    node.create("c1")
    node.hear("a create c1 holds")
    node.loop.advance(LIMIT)
    node.loop.advance(first - LIMIT)
    node.hear("b create c1 holds")
    node.loop.advance(second)
    node.release("b")
    node.idle()
    assert [result["plugin"] for result in node.requests("c")[0]["results"]] == ["b"]


def test_before_the_answer_there_is_no_limit(node: Node) -> None:
    node.build(fail_create=False, late_limit=1)
    node.plugins(a=HOLD)
    answer = node.create("c1", within=60)
    hang(node, answer, "a create c1 holds")
    node.loop.advance(50)
    assert answer.pending
    node.release("a")
    assert done(node, answer) == "ok"
    assert node.counters == {"runs": 1}


def test_a_plugin_with_a_result_that_works_on_is_left_at_the_limit(node: Node) -> None:
    node.build(fail_create=False, late_limit=30)
    node.plugins(a=HOLD, b="answer; hold", c="answer")
    node.create("c1")
    node.hear("a create c1 holds")
    node.loop.advance(LIMIT)
    node.release("a")
    node.hear("b create c1 holds")
    node.loop.advance(30)
    node.idle()
    assert [result["plugin"] for result in node.requests("c")[0]["results"]] == ["a", "b"]
    assert "failures" not in node.counters
