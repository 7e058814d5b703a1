"""Late chains and the events behind them: deletes, what waits for what, calls with little time."""

from __future__ import annotations

import logging

import pytest

from .late import HOLD, IGNORE, LIMIT, created, done, hang, holding_deletes, logged
from .node import Node

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
