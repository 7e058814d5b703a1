"""Chains that take longer than their event: what is answered when, and what runs behind the answer.

Nothing here waits for time: the clock is moved, and plugins hold until they are let go.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest

from adapter.nri.stub import MARGIN
from adapter.settings import PluginSettings

from ..processes import children, is_running
from .node import Answer, Node

HOLD = "hold; answer"
LIMIT = 2.0 - MARGIN
"""When an event of two seconds is answered at the latest."""
IGNORE = PluginSettings(fail_create=False)


def holding_deletes(script: str = "answer") -> str:
    """A plugin that holds at deletes."""
    return f'[ "$state" = create ] || hold; {script}'


def done(node: Node, answer: Answer) -> str:
    node.wait(answer)
    return answer.outcome


def created(node: Node, *ids: str) -> None:
    for id_ in ids:
        assert done(node, node.create(id_)) == "ok"


def logged(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= level]


def hang(node: Node, answer: Answer, *words: str) -> None:
    """Waits until plugins hold, and checks that nobody has been answered."""
    node.hear(*words)
    assert answer.pending


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


def pids(caplog: pytest.LogCaptureFixture) -> list[int]:
    """The processes that the log has named, in order."""
    found = [
        int(text.split("pid ")[1].split()[0].rstrip(",")) for text in logged(caplog, logging.INFO) if "pid " in text
    ]
    return list(dict.fromkeys(found))


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
    assert logged(caplog) == ["create of container c1: no result within 1.9 s; it goes on behind the answer"]
    node.release("a")
    node.idle()
    assert node.counters == {"runs": 1, "late": 1}


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
        "create of container c1: plugin: a: no result (no output), exit code 3, output: <empty> (tolerated)"
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


def test_behind_the_answer_too_a_timeout_runs_for_each_plugin_anew(node: Node) -> None:
    node.build(fail_create=False, timeout=5)
    node.plugins(a=HOLD, b=HOLD, c="answer")
    node.create("c1")
    node.hear("a create c1 holds")
    node.loop.advance(LIMIT)
    node.loop.advance(5 - LIMIT)
    node.hear("b create c1 holds")
    node.loop.advance(4.9)
    node.release("b")
    node.idle()
    assert [result["plugin"] for result in node.requests("c")[0]["results"]] == ["b"]


def test_a_timeout_longer_than_the_limit_does_not_strike_the_next_plugin(node: Node) -> None:
    node.build(fail_create=False, timeout=40, late_limit=30)
    node.plugins(a=HOLD, b=HOLD, c="answer")
    node.create("c1")
    node.hear("a create c1 holds")
    node.loop.advance(LIMIT)
    node.loop.advance(30 - LIMIT)
    node.hear("b create c1 holds")
    node.loop.advance(15)
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


# Deletes


@pytest.mark.parametrize("fail", [True, False])
def test_a_late_delete_is_answered_and_goes_on_whatever_the_policy(node: Node, fail: bool) -> None:
    node.build(fail_delete=fail)
    node.plugins(a=holding_deletes(), b="answer")
    created(node, "c1")
    answer = node.delete("c1")
    hang(node, answer, "a delete c1 holds")
    node.loop.advance(LIMIT)
    assert answer.outcome == "ok"
    assert node.runs[2:] == ["a delete c1"]
    node.release("a")
    node.idle()
    assert node.runs[2:] == ["a delete c1", "b delete c1"]
    assert [result["plugin"] for result in node.requests("b")[1]["results"]] == ["a"]


def test_a_late_delete_that_fails_is_not_answered_again(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.build(fail_delete=True)
    node.plugins(a=holding_deletes("""[ "$state" = create ] && answer || echo '{"error":"broken"}'"""), b="answer")
    created(node, "c1")
    answer = node.delete("c1")
    hang(node, answer, "a delete c1 holds")
    node.loop.advance(LIMIT)
    node.release("a")
    node.idle()
    assert answer.outcome == "ok"
    assert node.runs[2:] == ["a delete c1", "b delete c1"]
    assert logged(caplog, logging.ERROR) == ["delete of container c1: plugin: a: broken"]


def test_a_delete_goes_on_without_a_plugin_that_hangs_longer_than_the_limit(node: Node) -> None:
    node.plugins(a=holding_deletes(), b="answer")
    created(node, "c1")
    answer = node.delete("c1")
    hang(node, answer, "a delete c1 holds")
    node.loop.advance(LIMIT)
    node.loop.advance(30)
    node.idle()
    assert node.runs[2:] == ["a delete c1", "b delete c1"]


# Waiting for one another


def test_the_next_event_of_the_same_id_waits(node: Node) -> None:
    node.build(fail_create=False)
    node.plugins(a='[ "$state" = delete ] || hold; answer', b="answer")
    create = node.create("c1")
    hang(node, create, "a create c1 holds")
    node.loop.advance(LIMIT)
    delete = node.delete("c1")
    node.loop.settle()
    assert node.runs == ["a create c1"]
    assert delete.pending
    node.release("a")
    assert done(node, delete) == "ok"
    assert node.runs == ["a create c1", "b create c1", "a delete c1", "b delete c1"]


def test_a_delete_that_waits_is_answered_in_time_and_comes_later(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.build(fail_create=False)
    node.plugins(a='[ "$state" = delete ] || hold; answer')
    create = node.create("c1")
    hang(node, create, "a create c1 holds")
    node.loop.advance(LIMIT)
    caplog.clear()
    delete = node.delete("c1")
    node.loop.advance(LIMIT - 0.001)
    assert delete.pending
    node.loop.advance(0.002)
    assert delete.outcome == "ok"
    assert logged(caplog) == ["delete of container c1: waited for create of container c1; it goes on behind the answer"]
    assert node.delete("c1").outcome == "nothing to do", "it is queued already"
    node.release("a")
    node.idle()
    assert node.runs == ["a create c1", "a delete c1"]


def test_a_delete_waits_for_a_create_that_is_not_even_late(node: Node) -> None:
    node.plugins(a='[ "$state" = delete ] || hold; answer')
    create, delete = node.create("c1"), node.delete("c1")
    hang(node, create, "a create c1 holds")
    node.release("a")
    node.wait(create, delete)
    assert (create.outcome, delete.outcome) == ("ok", "ok")
    assert node.runs == ["a create c1", "a delete c1"]


def test_a_delete_of_a_create_that_has_started_nobody_runs_nobody(node: Node) -> None:
    node.plugins(a='[ "$id" = pod ] && hold; answer')
    pod = node.create_pod(within=60)
    node.hear("a create pod holds")
    create, delete = node.create("c1", within=1), node.delete("c1", within=2)
    node.loop.advance(1)
    assert create.outcome.startswith("plugin: a: not run")
    node.release("a")
    node.wait(pod, delete)
    assert delete.outcome == "ok"
    assert node.runs == ["a create pod"]


def test_others_do_not_wait(node: Node) -> None:
    node.build(fail_create=False)
    node.plugins(a="""case $id in c1|pod1) [ "$state" = delete ] || hold;; esac; answer""")
    for late in (node.create("c1", "pod0"), node.create_pod("pod1")):
        assert late.pending
    node.hear("a create c1 holds", "a create pod1 holds")
    for answer in (node.create("c2", "pod0"), node.create_pod("pod2"), node.create("c3", "pod2")):
        assert done(node, answer) == "ok"
    assert done(node, node.delete("c2", "pod0")) == "ok"
    assert done(node, node.delete("c3", "pod2")) == "ok"
    assert done(node, node.delete_pod("pod2")) == "ok"
    node.release("a")
    node.release("a")
    node.idle()


def test_a_container_waits_for_its_pods_create(node: Node) -> None:
    node.build(fail_create=False)
    node.plugins(a="""[ "$id$state" = podcreate ] && hold; answer""", b="answer")
    pod = node.create_pod()
    hang(node, pod, "a create pod holds")
    node.loop.advance(LIMIT)
    assert pod.outcome == "ok"
    container = node.create("c1")
    node.loop.settle()
    assert node.runs == ["a create pod"]
    node.release("a")
    assert done(node, container) == "ok"
    assert node.runs == ["a create pod", "b create pod", "a create c1", "b create c1"]


def test_a_create_that_waits_too_long_fails_if_a_plugin_must_not(node: Node) -> None:
    """Like one that conf.json has got since the pod's create."""
    node.build(plugins={"a": IGNORE, "c": IGNORE})
    node.plugins(a='[ "$id" = pod ] && hold; answer')
    pod = node.create_pod()
    hang(node, pod, "a create pod holds")
    node.loop.advance(LIMIT)
    assert pod.outcome == "ok"
    for name in "bc":
        node.plugin(name)
    node.configure("c", "b", "a")
    container = node.create("c1")
    node.loop.advance(LIMIT - 0.001)
    assert container.pending
    node.loop.advance(0.002)
    assert container.outcome == "plugin: b: not run: waited for create of sandbox pod"
    node.release("a")
    node.idle()
    assert node.runs == ["a create pod"]
    assert node.delete("c1").outcome == "nothing to do"


def test_a_create_that_waits_too_long_is_answered_and_runs_later_if_all_may_fail(node: Node) -> None:
    node.build(fail_create=False)
    node.plugins(a='[ "$id" = pod ] && hold; answer', b="answer")
    pod = node.create_pod()
    hang(node, pod, "a create pod holds")
    node.loop.advance(LIMIT)
    container = node.create("c1")
    node.loop.advance(LIMIT)
    assert container.outcome == "ok"
    assert node.runs == ["a create pod"]
    node.release("a")
    node.idle()
    assert node.runs == ["a create pod", "b create pod", "a create c1", "b create c1"]


def test_a_pods_stop_waits_for_its_containers_chains(node: Node) -> None:
    node.plugins(a="""[ "$state" = delete ] && [ "$id" = c1 ] && hold; answer""", b="answer")
    assert done(node, node.create_pod()) == "ok"
    created(node, "c1", "c2")
    container = node.delete("c1")
    hang(node, container, "a delete c1 holds")
    node.loop.advance(LIMIT)
    pod = node.delete_pod()
    assert done(node, node.delete("c2")) == "ok"
    before = len(node.runs)
    node.loop.settle()
    assert pod.pending
    assert len(node.runs) == before
    node.release("a")
    assert done(node, pod) == "ok"
    assert node.runs[-3:] == ["b delete c1", "a delete pod", "b delete pod"]


def test_a_pods_stop_waits_for_a_late_create_of_its_container(node: Node) -> None:
    node.build(fail_create=False)
    node.plugins(a="""[ "$state$id" = createc1 ] && hold; answer""")
    assert done(node, node.create_pod()) == "ok"
    node.create("c1")
    node.hear("a create c1 holds")
    node.loop.advance(LIMIT)
    container, pod = node.delete("c1"), node.delete_pod()
    node.loop.advance(LIMIT)
    assert (container.outcome, pod.outcome) == ("ok", "ok")
    assert node.runs == ["a create pod", "a create c1"]
    node.release("a")
    node.idle()
    assert node.runs[2:] == ["a delete c1", "a delete pod"]


def test_a_pods_stop_does_not_wait_for_containers_of_another(node: Node) -> None:
    node.plugins(a="""[ "$state$id" = deletec1 ] && hold; answer""")
    assert done(node, node.create_pod("other")) == "ok"
    created(node, "c1")
    late = node.delete("c1")
    hang(node, late, "a delete c1 holds")
    assert done(node, node.delete_pod("other")) == "ok"


def test_a_container_that_stops_after_its_pod_does_not_wait_for_the_pods_delete(node: Node) -> None:
    """containerd's exit notice is asynchronous."""
    node.plugins(a="""[ "$state$id" = deletepod ] && hold; answer""")
    assert done(node, node.create_pod()) == "ok"
    created(node, "c1")
    pod = node.delete_pod()
    hang(node, pod, "a delete pod holds")
    assert done(node, node.delete("c1")) == "ok"


def test_a_whole_pod_that_waits_comes_in_order(node: Node) -> None:
    """All of it happens while one plugin hangs in the pod's create."""
    node.build(fail_create=False)
    node.plugins(a="""[ "$state$id" = createpod ] && hold; answer""")
    answers = [node.create_pod(), node.create("c1"), node.create("c2"), node.delete("c1"), node.delete_pod()]
    answers.append(node.delete("c2"))
    node.hear("a create pod holds")
    node.loop.advance(LIMIT)
    assert [answer.outcome for answer in answers] == ["ok"] * 6
    node.release("a")
    node.idle()
    runs = node.runs
    assert runs[0] == "a create pod"
    for earlier, later in (("create c1", "delete c1"), ("create c2", "delete c2"), ("delete c1", "delete pod")):
        assert runs.index(f"a {earlier}") < runs.index(f"a {later}")
    assert len(runs) == 6


def test_each_event_has_its_own_deadline_while_it_waits(node: Node) -> None:
    node.build(fail_create=False)
    node.plugins(a="""[ "$state$id" = createpod ] && hold; answer""")
    answers = [node.create_pod(within=4), node.create("c1", within=3), node.create("c2", within=1), node.create("c3")]
    node.hear("a create pod holds")
    order = []
    for _ in range(40):
        node.loop.advance(0.1)
        order += [number for number, answer in enumerate(answers) if not answer.pending and number not in order]
    assert order == [2, 3, 1, 0]
    node.release("a")
    node.idle()


# Little time


@pytest.mark.parametrize(("within", "answered"), [(0.2, 0.1), (0.1, 0.05), (0.02, 0.01)])
def test_of_a_call_with_little_time_the_margin_is_half(node: Node, within: float, answered: float) -> None:
    node.plugins(a=HOLD)
    answer = node.create("c1", within=within)
    node.hear("a create c1 holds")
    node.loop.advance(answered * 0.99)
    assert answer.pending
    node.loop.advance(answered * 0.02)
    assert answer.outcome.startswith("plugin: a: no result within")


@pytest.mark.parametrize("within", [0, -1])
def test_a_call_whose_time_is_over_is_answered_at_once(node: Node, within: float) -> None:
    node.plugins(a=HOLD)
    answer = node.create("c1", within=within)
    node.loop.settle()
    assert answer.outcome.startswith("plugin: a: no result within 0.0 s")


def test_a_delete_whose_time_is_over_runs_all_the_same(node: Node) -> None:
    node.plugins(a="answer")
    created(node, "c1")
    assert done(node, node.delete("c1", within=-1)) == "ok"
    node.idle()
    assert node.runs == ["a create c1", "a delete c1"]


# The end


def test_it_is_idle_when_the_last_late_chain_has_ended(node: Node) -> None:
    node.build(fail_create=False)
    node.plugins(a=HOLD)
    answers = [node.create("c1"), node.create("c2")]
    node.hear("a create c1 holds", "a create c2 holds")
    node.loop.advance(LIMIT)
    assert [answer.outcome for answer in answers] == ["ok", "ok"]
    told: list[str] = []
    node.bridge.when_idle(lambda: told.append("idle"))
    node.release("a")
    node.loop.until(lambda: len(node.bridge.ledger) == 2)
    assert told == []
    node.release("a")
    node.loop.until(lambda: bool(told), "it is never idle")
