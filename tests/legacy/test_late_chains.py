"""Chains that take longer than their event: what is answered when, and what runs behind the answer.

Nothing here waits for time: the clock is moved, and plugins hold until they are let go.
"""

from __future__ import annotations

import logging

import pytest

from ..processes import children, is_running
from .late import HOLD, IGNORE, LIMIT, done, hang, logged, pids
from .node import Node

# Alone


def test_the_answer_goes_out_100_ms_before_the_deadline_and_not_before(node: Node) -> None:
    node.plugins(a=HOLD)
    answer = node.create("c1", within=2.0)
    node.hear("a create c1 holds")
    node.loop.advance(1.899)
    assert answer.pending
    node.loop.advance(0.001)
    assert answer.outcome == "plugin: a: no result within 1.9 s"


def test_a_plugin_that_must_not_fail_fails_its_create_and_is_left_to_finish(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.plugins(a=HOLD)
    answer = node.create("c1")
    node.hear("a create c1 holds")
    node.loop.advance(LIMIT)
    assert answer.outcome == "plugin: a: no result within 1.9 s"
    [pid] = pids(caplog)
    assert is_running(pid), "it is not killed"
    assert not node.busy, "the chain has ended"
    assert node.counters == {"runs": 1, "late": 1, "failures": 1}
    assert logged(caplog) == [
        "create of container c1: plugin: a: no result within 1.9 s",
        f"a: pid {pid} has no result in time: left to finish",
    ]
    node.release("a")
    node.loop.until(lambda: pid not in children())
    assert node.runs == ["a create c1"]
    assert "has ended: exit code 0" in caplog.records[-1].getMessage()


def test_a_plugin_that_may_fail_lets_the_event_go_and_its_chain_on(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.build(fail_create=False)
    node.plugins(a=HOLD)
    answer = node.create("c1")
    hang(node, answer, "a create c1 holds")
    node.loop.advance(LIMIT)
    assert answer.outcome == "ok"
    assert node.busy
    assert logged(caplog) == ["create of container c1: plugin: a: no result within 1.9 s; it goes on behind the answer"]
    node.release("a")
    node.idle()
    assert node.counters == {"runs": 1, "late": 1}
    assert logged(caplog, logging.INFO)[-1] == "create of container c1: it has ended behind the answer"


def test_a_plugin_that_fails_behind_the_answer_is_logged_and_counted(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.build(fail_create=False)
    node.plugins(a="hold; exit 3", b="answer")
    answer = node.create("c1")
    hang(node, answer, "a create c1 holds")
    node.loop.advance(LIMIT)
    node.release("a")
    node.idle()
    assert answer.outcome == "ok"
    assert node.runs == ["a create c1", "b create c1"]
    assert logged(caplog, logging.ERROR) == [
        "create of container c1: plugin: a: no result (no output), exit code 3 (tolerated)"
    ]


def test_half_a_result_is_none(node: Node) -> None:
    node.plugins(a="""printf '{"plugin"'; hold; printf ':"a"}'""")
    answer = node.create("c1")
    hang(node, answer, "a create c1 holds")
    node.loop.advance(LIMIT)
    assert answer.outcome == "plugin: a: no result within 1.9 s"


def test_the_event_is_answered_as_soon_as_the_chain_ends(node: Node) -> None:
    node.plugins(a=HOLD, b="answer")
    answer = node.create("c1")
    hang(node, answer, "a create c1 holds")
    node.loop.advance(1.5)
    node.release("a")
    assert done(node, answer) == "ok"
    node.loop.advance(100)
    assert node.counters == {"runs": 2}


# Before another plugin


def test_the_others_run_behind_the_answer_in_order(node: Node) -> None:
    node.build(fail_create=False)
    node.plugins(a="answer", b=HOLD, c="answer", d="answer")
    answer = node.create("c1")
    hang(node, answer, "b create c1 holds")
    node.loop.advance(LIMIT)
    assert answer.outcome == "ok"
    node.loop.settle()
    assert node.runs == ["a create c1", "b create c1"]
    node.release("b")
    node.idle()
    assert node.runs == [f"{name} create c1" for name in "abcd"]
    assert [result["plugin"] for result in node.requests("d")[0]["results"]] == ["a", "b", "c"]


def test_an_event_fails_for_a_plugin_that_has_not_run_and_must_not_fail(node: Node) -> None:
    """The chain ends there: nothing of it runs later."""
    node.build(plugins={"a": IGNORE, "b": IGNORE})
    node.plugins(a='[ "$state" = delete ] || hold; answer', b="answer", c="answer")
    answer = node.create("c1")
    hang(node, answer, "a create c1 holds")
    node.loop.advance(LIMIT)
    assert answer.outcome == "plugin: c: not run: a: no result within 1.9 s"
    assert not node.busy
    node.release("a")
    assert done(node, node.delete("c1")) == "ok"
    assert node.runs == ["a create c1", "a delete c1"], "who was not started gets no delete"


def test_an_event_fails_for_the_plugin_that_runs_and_must_not_fail(node: Node) -> None:
    node.build(plugins={"b": IGNORE})
    node.plugins(a=HOLD, b="answer")
    answer = node.create("c1")
    hang(node, answer, "a create c1 holds")
    node.loop.advance(LIMIT)
    assert answer.outcome == "plugin: a: no result within 1.9 s"


def test_plugins_that_are_done_do_not_fail_an_event_that_is_late(node: Node) -> None:
    node.build(plugins={"b": IGNORE, "c": IGNORE})
    node.plugins(a="answer", b=HOLD, c="answer")
    answer = node.create("c1")
    hang(node, answer, "b create c1 holds")
    node.loop.advance(LIMIT)
    assert answer.outcome == "ok"
    node.release("b")
    node.idle()
    assert node.runs == ["a create c1", "b create c1", "c create c1"]


def test_the_delete_of_a_failed_create_comes_though_its_plugin_still_runs(node: Node) -> None:
    node.plugins(a='[ "$state" = delete ] || hold; answer')
    answer = node.create("c1")
    hang(node, answer, "a create c1 holds")
    node.loop.advance(LIMIT)
    assert done(node, node.delete("c1")) == "ok"
    assert node.runs == ["a create c1", "a delete c1"]


# Prints its result and works on


def test_the_answer_waits_for_the_plugins_end_as_the_original_did(node: Node) -> None:
    node.plugins(a="answer; hold")
    answer = node.create("c1")
    node.hear("a create c1 holds")
    node.loop.advance(1)
    assert answer.pending
    node.release("a")
    assert done(node, answer) == "ok"


@pytest.mark.parametrize("fail", [True, False])
def test_a_plugin_that_has_printed_its_result_has_succeeded_and_works_on(
    node: Node, fail: bool, caplog: pytest.LogCaptureFixture
) -> None:
    node.build(fail_create=fail)
    node.plugins(a='answer; [ "$state" = delete ] || hold; say ends')
    answer = node.create("c1")
    hang(node, answer, "a create c1 holds")
    node.loop.advance(LIMIT)
    assert answer.outcome == "ok"
    assert not node.busy
    assert node.counters == {"runs": 1}, "it is neither late nor a failure"
    assert logged(caplog) == []
    node.release("a")
    node.hear("a create c1 ends")
    assert done(node, node.delete("c1")) == "ok"


def test_behind_a_plugin_that_works_on_the_rest_runs_after_the_answer(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.build(fail_create=False)
    node.plugins(a="answer; hold", b="answer")
    answer = node.create("c1")
    hang(node, answer, "a create c1 holds")
    node.loop.advance(LIMIT)
    assert answer.outcome == "ok"
    node.idle()
    assert node.runs == ["a create c1", "b create c1"]
    assert [result["plugin"] for result in node.requests("b")[0]["results"]] == ["a"]
    assert logged(caplog) == ["create of container c1: no time was left; it goes on behind the answer"]


def test_behind_a_plugin_that_works_on_one_that_must_not_fail_fails(node: Node) -> None:
    node.plugins(a="answer; hold", b="answer")
    answer = node.create("c1")
    hang(node, answer, "a create c1 holds")
    node.loop.advance(LIMIT)
    assert answer.outcome == "plugin: b: not run: no time was left"
    assert not node.busy
    assert node.runs == ["a create c1"]


def test_a_failure_that_was_printed_counts_though_the_plugin_works_on(node: Node) -> None:
    node.plugins(a="""echo '{"error":"broken"}'; hold""", b="answer")
    answer = node.create("c1")
    hang(node, answer, "a create c1 holds")
    node.loop.advance(LIMIT)
    assert answer.outcome == "plugin: a: broken"
    assert node.runs == ["a create c1"]


def test_one_that_works_on_is_not_waited_for_by_the_next_event_either(node: Node) -> None:
    node.plugins(a='answer; [ "$state" = delete ] || hold')
    answer = node.create("c1")
    hang(node, answer, "a create c1 holds")
    node.loop.advance(LIMIT)
    assert done(node, node.delete("c1")) == "ok"
    assert node.runs == ["a create c1", "a delete c1"]
