"""The time of each run, by its outcome: counted once, when the run is no longer waited for."""

from __future__ import annotations

from adapter.job.runner import Outcome
from adapter.settings import PluginSettings

from ..processes import children
from .late import HOLD, IGNORE, LIMIT, done, hang
from .node import Node


def times(node: Node, name: str) -> dict[Outcome, tuple[int, float]]:
    """The number of a plugin's runs and their seconds, by outcome."""
    account = node.bridge.runner.accounts[name]
    return {outcome: (sum(one.counts), round(one.seconds, 6)) for outcome, one in account.times.items()}


def test_a_result_and_a_failure_are_told_apart(node: Node) -> None:
    node.plugins(a=HOLD, b="hold; echo nonsense")
    answer = node.create("c1")
    for name in "ab":
        hang(node, answer, f"{name} create c1 holds")
        node.loop.advance(0.25)
        node.release(name)
    assert done(node, answer).startswith("plugin: b: no result")
    assert times(node, "a") == {Outcome.DONE: (1, 0.25)}
    assert times(node, "b") == {Outcome.FAILED: (1, 0.25)}


def test_a_plugin_that_is_left_at_its_timeout_is_late_and_what_it_prints_behind_it_counts_no_more(node: Node) -> None:
    node.build(plugins={"a": PluginSettings(timeout=0.5, fail_create=False)})
    node.plugins(a=HOLD)
    answer = node.create("c1")
    hang(node, answer, "a create c1 holds")
    node.loop.advance(0.5)
    assert done(node, answer) == "ok"
    node.release("a")
    node.loop.until(lambda: not children(), "the plugin does not end")
    assert times(node, "a") == {Outcome.LATE: (1, 0.5)}


def test_a_result_behind_the_answer_is_a_result(node: Node) -> None:
    node.build(plugins={"a": IGNORE})
    node.plugins(a=HOLD)
    answer = node.create("c1")
    hang(node, answer, "a create c1 holds")
    node.loop.advance(LIMIT)
    assert done(node, answer) == "ok"
    assert times(node, "a") == {}
    node.loop.advance(1.1)
    node.release("a")
    node.idle()
    assert times(node, "a") == {Outcome.DONE: (1, 3.0)}


def test_a_plugin_that_works_on_after_its_result_has_succeeded(node: Node) -> None:
    node.plugins(a="answer; hold")
    answer = node.create("c1")
    hang(node, answer, "a create c1 holds")
    node.loop.advance(LIMIT)
    assert done(node, answer) == "ok"
    assert times(node, "a") == {Outcome.DONE: (1, LIMIT)}


def test_a_plugin_that_cannot_be_started_has_taken_no_time(node: Node) -> None:
    node.configure("missing")
    assert done(node, node.create("c1")).startswith("plugin: missing: not found")
    assert node.bridge.runner.accounts["missing"].failures == 1
    assert times(node, "missing") == {}
