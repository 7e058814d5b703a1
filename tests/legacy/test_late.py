"""Chains that take longer than their event: what is answered when, and what runs after the answer.

Nothing here waits for time: the clock is moved, and plugins hold until they are let go.
"""

from __future__ import annotations

from typing import Any

import pytest

from adapter.programs.runner import Outcome

from ..processes import children, is_running
from .node import Node
from .scenarios import LATE, LIMIT, Player, pids

BEHIND = "create of container c1: plugin: a: no result within 1.9 s, it goes on after the answer"

ALONE = {
    "the answer goes out 100 ms before the deadline and not before": (
        f"plugins a=hold; create c1; a holds; +1.899; it is pending; +0.001; it is {LATE}"
    ),
    "a plugin that may fail lets the event go and its chain on": (
        f"with fail_create=False; plugins a=hold; create c1; a holds; late; it is ok; logs {BEHIND}; let a; idle;"
        f"ran a create c1; counts runs=1 late=1"
    ),
    "a plugin that fails after the answer is logged and counted": (
        f"with fail_create=False; plugins a=hold_and_exit_3 b=answer; create c1; a holds; late; it is ok;"
        f"logs {BEHIND}; let a; idle; ran a create c1, b create c1;"
        f"logs create of container c1: plugin: a: no result (no output), exit code 3 (tolerated);"
        "counts runs=2 failures=1 late=1"
    ),
    "the others run after the answer in order": (
        "with fail_create=False; plugins a=answer b=hold c=answer d=answer; create c1; b holds; late; it is ok;"
        "settle; ran a create c1, b create c1; let b; idle; ran c create c1, d create c1; chain of d: a b c"
    ),
    "an event fails for a plugin that has not run and must not fail, and nothing of the chain runs later": (
        "with a.fail_create=False b.fail_create=False; plugins a=hold_at_create b=answer c=answer; create c1;"
        "a holds; late; it is plugin: c: not run: a: no result within 1.9 s; let a; idle; stop c1 -> ok;"
        "ran a create c1, a delete c1"
    ),
    "the delete of a failed create comes when its plugin has ended": (
        f"plugins a=hold_at_create; create c1; a holds; late; it is {LATE}; stop c1; settle; it is pending; let a;"
        "it gets ok; ran a create c1, a delete c1"
    ),
    "a delete that waits for a failed create is answered in time, and comes at the limit": (
        f"with late_limit=30; plugins a=hold_at_create; create c1; a holds; late; it is {LATE}; stop c1; late;"
        "it is ok; ran a create c1; +26.1; ran; +0.2; idle; ran a delete c1; let a"
    ),
    "a delete that came before its create has failed waits for the create's plugin": (
        f"plugins a=hold_at_create; create c1; a holds; +1; stop c1; +0.9; create c1 is {LATE}; settle;"
        "ran a create c1; let a; stop c1 gets ok; ran a delete c1"
    ),
    "behind a plugin that works on the rest runs after the answer": (
        "with fail_create=False; plugins a=work_on b=answer; create c1; a holds; late; it is ok; idle;"
        "ran a create c1, b create c1; chain of b: a;"
        "logs create of container c1: a took 1.9 s (legacy.plugins.a.timeout), it goes on after the answer"
    ),
    "behind a plugin that works on one that must not fail fails": (
        "plugins a=work_on b=answer; create c1; a holds; late;"
        "it is plugin: b: not run: a took 1.9 s (legacy.plugins.a.timeout); idle;"
        "ran a create c1"
    ),
    "a late plugin's error names the one before it that took more time": (
        "plugins a=hold b=hold; create c1; a holds; +1.5; let a; b holds; +0.4;"
        "it is plugin: b: no result within 0.4 s: a took 1.5 s (legacy.plugins.a.timeout)"
    ),
    "a late plugin's error does not name one that took less time": (
        "plugins a=hold b=hold; create c1; a holds; +0.5; let a; b holds; +1.4; it is plugin: b: no result within 1.4 s"
    ),
}
ONE_ANOTHER = {
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
    "a create that waits too long fails if a plugin must not, like one that conf.json has got meanwhile": (
        "with a.fail_create=False c.fail_create=False; plugins a=hold_for_pod; create pod; a holds; late; it is ok;"
        "plugin b; plugin c; conf c b a; create c1; +1.899; it is pending; +0.002;"
        "it is plugin: b: not run: waited for create of sandbox pod; let a; idle; ran a create pod;"
        "stop c1 -> -"
    ),
}
KILLED = "create c1; a holds; late; it is {}; idle; counts runs={} failures=1 late=1 killed=1"
LIMITS = {
    "a plugin's timeout comes before the call's": (
        "with a.timeout=0.5 a.fail_create=False; plugins a=hold b=answer; create c1; a holds; +0.499; it is pending;"
        "ran a create c1; +0.001; it gets ok; ran b create c1; chain of b: ;"
        "counts runs=2 late=1 failures=1"
    ),
    "at its timeout a plugin that has printed its result has succeeded": (
        "with timeout=0.5; plugins a=work_on b=answer; create c1; a holds; +0.5; it gets ok; chain of b: a;"
        "counts runs=2"
    ),
    "a plugin is killed at its own timeout": (
        "with fail_create=False timeout=0.5 kill_on_timeout=True; plugins a=hold b=answer; create c1; a holds; +0.5;"
        "it gets ok; ran a create c1, b create c1; counts runs=2 late=1 failures=1 killed=1"
    ),
    "the chain goes on without a plugin that hangs longer than the limit": (
        f"with fail_create=False late_limit=30; plugins a=hold b=answer; create c1; a holds; late; logs {BEHIND};"
        f"+28.099; ran a create c1; +0.002; idle; ran b create c1; chain of b: ;"
        f"logs create of container c1: plugin: a: no result within 30.0 s (tolerated) |"
        "a: pid N has no result in time: left to finish"
    ),
    "a plugin with a result that works on is left at the limit": (
        "with fail_create=False late_limit=30; plugins a=hold b=work_on c=answer; create c1; a holds; late; let a;"
        "b starts; +30; idle; chain of c: a b; counts runs=3 late=1"
    ),
}


@pytest.mark.parametrize("name", [*ALONE, *ONE_ANOTHER, *LIMITS])
def test_scenario(name: str, player: Player) -> None:
    player.play((ALONE | ONE_ANOTHER | LIMITS)[name])


def test_a_plugin_that_must_not_fail_fails_its_create_and_is_left_to_finish(
    node: Node, player: Player, caplog: pytest.LogCaptureFixture
) -> None:
    player.play(f"plugins a=hold; create c1; a holds; late; it is {LATE}; counts runs=1 late=1 failures=1")
    [pid] = pids(caplog)
    assert is_running(pid), "it is not killed"
    left = "a: pid N has no result in time: left to finish"
    player.play(f"logs create of container c1: {LATE} | {left}; let a")
    node.loop.until(lambda: pid not in children())
    assert node.runs == ["a create c1"]
    assert "has ended: exit code 0" in caplog.records[-1].getMessage()


@pytest.mark.parametrize("fail", [True, False])
def test_a_plugin_that_has_printed_its_result_has_succeeded_and_works_on_and_is_not_killed(
    node: Node, player: Player, fail: bool
) -> None:
    """It is neither late nor a failure."""
    steps = (
        f"with fail_create={fail} kill_on_timeout={fail}; plugins a=work_on_at_create_and_say_so; create c1; a holds;"
    )
    steps += "late; it is ok; counts runs=1; logs; let a"
    player.play(steps)
    assert not node.busy
    node.hear("a create c1 ends")
    player.play("stop c1 -> ok")


@pytest.mark.parametrize("general", [True, False])
def test_where_it_is_configured_a_plugin_without_a_result_is_killed_with_its_event(
    node: Node, player: Player, general: bool, caplog: pytest.LogCaptureFixture
) -> None:
    setting = "kill_on_timeout" if general else "a.kill_on_timeout"
    player.play(f"with {setting}=True; plugins a=hold; " + KILLED.format(LATE, 1))
    [pid] = pids(caplog)
    node.loop.until(lambda: pid not in children())
    assert "has ended: killed by signal 9" in caplog.records[-1].getMessage()


# The time of each run, by its outcome: counted once, when the run is no longer waited for

DONE, FAILED, LATE_RUN = Outcome.DONE, Outcome.FAILED, Outcome.LATE
TIMES: dict[str, tuple[str, dict[str, Any]]] = {
    "a result and a failure are told apart": (
        (
            "plugins a=hold b=hold_and_say_nonsense; create c1; a holds; +0.25; let a; b holds; +0.25; let b;"
            "it gets plugin: b: no result..."
        ),
        {"a": {DONE: (1, 0.25)}, "b": {FAILED: (1, 0.25)}},
    ),
    "a plugin that is left at its timeout is late": (
        "with a.timeout=0.5 a.fail_create=False; plugins a=hold; create c1; a holds; +0.5; it gets ok; let a",
        {"a": {LATE_RUN: (1, 0.5)}},
    ),
    "a run that goes on after the answer is not counted yet": (
        "with fail_create=False; plugins a=hold; create c1; a holds; late; it is ok",
        {"a": {}},
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
def test_times(name: str, node: Node, player: Player) -> None:
    steps, expected = TIMES[name]
    player.play(steps)
    if "left at its timeout" in name:  # what it prints behind the timeout counts no more
        node.loop.until(lambda: not children(), "the plugin does not end")
    accounts = node.bridge.runner.accounts
    assert expected == {
        plugin: {of: (sum(one.counts), round(one.seconds, 6)) for of, one in accounts[plugin].times.items()}
        for plugin in expected
    }
