"""Chains that take longer than their event: what is answered when, and what runs behind the answer.

Nothing here waits for time: the clock is moved, and plugins hold until they are let go.
"""

from __future__ import annotations

from typing import Any

import pytest

from adapter.job.runner import Outcome

from ..processes import children, is_running
from .node import Node
from .scenarios import FAIL, HOLD, LATE, LIMIT, Case, Player, case, pids

IGNORED = {"fail_create": False}
ALL_MAY_FAIL = {"fail_create": False}
AT_CREATE, AT_DELETE = '[ "$state" = delete ] || hold; answer', '[ "$state" = create ] || hold; answer'
IN_POD = '[ "$state$id" = createpod ] && hold; answer'
IN_CREATE, IN_DELETE = ('[ "$state$id" = %s ] && hold; answer' % of for of in ("createc1", "deletec1"))  # noqa: UP031
ANSWER = "answer"
BEHIND = "create of container c1: plugin: a: no result within 1.9 s, it goes on behind the answer"

ALONE = {
    "the answer goes out 100 ms before the deadline and not before": case(
        f"create c1; a holds; +1.899; it is pending; +0.001; it is {LATE}", {"a": HOLD}
    ),
    "a plugin that may fail lets the event go and its chain on": case(
        f"create c1; a holds; late; it is ok; logs {BEHIND}; let a; idle; ran a create c1; counts runs=1 late=1",
        {"a": HOLD},
        ALL_MAY_FAIL,
    ),
    "a plugin that fails behind the answer is logged and counted": case(
        f"create c1; a holds; late; it is ok; logs {BEHIND}; let a; idle; ran a create c1, b create c1;"
        "logs create of container c1: plugin: a: no result (no output), exit code 3 (tolerated);"
        "counts runs=2 failures=1 late=1",
        {"a": "hold; exit 3", "b": ANSWER},
        ALL_MAY_FAIL,
    ),
    "half a result is none": case(
        f"create c1; a holds; late; it is {LATE}", {"a": """printf '{"plugin"'; hold; printf ':"a"}'"""}
    ),
    "the event is answered as soon as the chain ends": case(
        "create c1; a holds; +1.5; let a; it gets ok; +100; counts runs=2", {"a": HOLD, "b": ANSWER}
    ),
    "the others run behind the answer in order": case(
        "create c1; b holds; late; it is ok; settle; ran a create c1, b create c1; let b; idle;"
        "ran c create c1, d create c1; chain of d: a b c",
        {"a": ANSWER, "b": HOLD, "c": ANSWER, "d": ANSWER},
        ALL_MAY_FAIL,
    ),
    "an event fails for a plugin that has not run and must not fail, and nothing of the chain runs later": case(
        "create c1; a holds; late; it is plugin: c: not run: a: no result within 1.9 s; idle; let a;"
        "stop c1 -> ok; ran a create c1, a delete c1",
        {"a": AT_CREATE, "b": ANSWER, "c": ANSWER},
        {"plugins": {"a": IGNORED, "b": IGNORED}},
    ),
    "an event fails for the plugin that runs and must not fail": case(
        f"create c1; a holds; late; it is {LATE}", {"a": HOLD, "b": ANSWER}, {"plugins": {"b": IGNORED}}
    ),
    "plugins that are done do not fail an event that is late": case(
        "create c1; b holds; late; it is ok; let b; idle; ran a create c1, b create c1, c create c1",
        {"a": ANSWER, "b": HOLD, "c": ANSWER},
        {"plugins": {"b": IGNORED, "c": IGNORED}},
    ),
    "the delete of a failed create comes though its plugin still runs": case(
        f"create c1; a holds; late; it is {LATE}; stop c1 -> ok; ran a create c1, a delete c1", {"a": AT_CREATE}
    ),
    "the answer waits for the plugin's end, as the original did": case(
        "create c1; a holds; +1; it is pending; let a; it gets ok", {"a": "answer; hold"}
    ),
    "behind a plugin that works on the rest runs after the answer": case(
        "create c1; a holds; late; it is ok; idle; ran a create c1, b create c1; chain of b: a;"
        "logs create of container c1: a took 1.9 s (legacy.plugins.a.timeout), it goes on behind the answer",
        {"a": "answer; hold", "b": ANSWER},
        ALL_MAY_FAIL,
    ),
    "behind a plugin that works on one that must not fail fails": case(
        "create c1; a holds; late; it is plugin: b: not run: a took 1.9 s (legacy.plugins.a.timeout); idle;"
        "ran a create c1",
        {"a": "answer; hold", "b": ANSWER},
    ),
    "a failure that was printed counts though the plugin works on": case(
        "create c1; a holds; late; it is plugin: a: broken; ran a create c1", {"a": f"{FAIL}; hold", "b": ANSWER}
    ),
    "one that works on is not waited for by the next event either": case(
        "create c1; a holds; late; it is ok; stop c1 -> ok; ran a create c1, a delete c1",
        {"a": 'answer; [ "$state" = delete ] || hold'},
    ),
    "a call with little time keeps half of it as its margin": case(
        "create c1 within 0.2; a holds; +0.099; it is pending; +0.002; it is plugin: a: no result within...;"
        "create c2 within 0.1; a holds; +0.0495; it is pending; +0.001; it is plugin: a: no result within...;"
        "create c3 within 0.02; a holds; +0.0099; it is pending; +0.0002; it is plugin: a: no result within...",
        {"a": HOLD},
    ),
    "a call whose time is over is answered at once": case(
        "create c1 within 0; settle; it is plugin: a: no result within 0.0 s...;"
        "create c2 within -1; settle; it is plugin: a: no result within 0.0 s...",
        {"a": HOLD},
    ),
    "a delete whose time is over runs all the same": case(
        "create c1 -> ok; stop c1 within -1 -> ok; idle; ran a create c1, a delete c1", {"a": ANSWER}
    ),
}
LATE_DELETE = "create c1 -> ok; ran a create c1, b create c1; stop c1; a holds; late; it is ok; ran a delete c1; "
ONE_ANOTHER = {
    "a late delete is answered and goes on": case(
        LATE_DELETE + "let a; idle; ran b delete c1; chain of b: a", {"a": AT_DELETE, "b": ANSWER}
    ),
    "a late delete is answered and goes on though deletes must not fail": case(
        LATE_DELETE + "let a; idle; ran b delete c1; chain of b: a",
        {"a": AT_DELETE, "b": ANSWER},
        {"fail_delete": True},
    ),
    "a late delete that fails is not answered again": case(
        "create c1 -> ok; stop c1; a holds; late; it is ok; settle;"
        "logs delete of container c1: plugin: a: no result within 1.9 s, it goes on behind the answer; let a; idle;"
        "it is ok; ran a create c1, b create c1, a delete c1, b delete c1;"
        "logs delete of container c1: plugin: a: broken",
        {"a": f'[ "$state" = create ] && answer || {{ hold; {FAIL}; }}', "b": ANSWER},
        {"fail_delete": True},
    ),
    "a delete goes on without a plugin that hangs longer than the limit": case(
        LATE_DELETE + "+30; idle; ran b delete c1", {"a": AT_DELETE, "b": ANSWER}
    ),
    "the next event of the same id waits": case(
        "create c1; a holds; late; stop c1; settle; ran a create c1; it is pending; let a; it gets ok;"
        "ran b create c1, a delete c1, b delete c1",
        {"a": AT_CREATE, "b": ANSWER},
        ALL_MAY_FAIL,
    ),
    "a delete that waits is answered in time and comes later": case(
        f"create c1; a holds; late; logs {BEHIND}; stop c1; +1.899; it is pending; +0.002; it is ok;"
        "logs delete of container c1: waited for create of container c1, it goes on behind the answer;"
        "stop c1 -> -; let a; idle; ran a create c1, a delete c1",
        {"a": AT_CREATE},
        ALL_MAY_FAIL,
    ),
    "a delete waits for a create that is not even late": case(
        "create c1; a holds; stop c1; let a; create c1 gets ok; stop c1 gets ok; ran a create c1, a delete c1",
        {"a": AT_CREATE},
    ),
    "a delete of a create that has started nobody runs nobody": case(
        "create pod within 60; a holds; create c1 within 1; stop c1 within 2; +1; create c1 is plugin: a: not run...;"
        "let a; create pod gets ok; stop c1 gets ok; ran a create pod",
        {"a": '[ "$id" = pod ] && hold; answer'},
    ),
    "others do not wait": case(
        "create c1 in pod0; a holds; create pod1; a holds; create c2 in pod0 -> ok; create pod2 -> ok;"
        "create c3 in pod2 -> ok; stop c2 in pod0 -> ok; stop c3 in pod2 -> ok; stop pod2 -> ok;"
        "create c1 is pending; create pod1 is pending; let a; let a; idle",
        {"a": 'case $id in c1|pod1) [ "$state" = delete ] || hold;; esac; answer'},
        ALL_MAY_FAIL,
    ),
    "a container waits for its pod's create": case(
        "create pod; a holds; late; it is ok; create c1; settle; ran a create pod; let a; it gets ok;"
        "ran b create pod, a create c1, b create c1",
        {"a": IN_POD, "b": ANSWER},
        ALL_MAY_FAIL,
    ),
    "a create that waits too long fails if a plugin must not, like one that conf.json has got meanwhile": case(
        "create pod; a holds; late; it is ok; plugin b; plugin c; conf c b a; create c1; +1.899; it is pending;"
        "+0.002; it is plugin: b: not run: waited for create of sandbox pod; let a; idle; ran a create pod;"
        "stop c1 -> -",
        {"a": '[ "$id" = pod ] && hold; answer'},
        {"plugins": {"a": IGNORED, "c": IGNORED}},
    ),
    "a create that waits too long is answered and runs later if all may fail": case(
        "create pod; a holds; late; create c1; late; it is ok; ran a create pod; let a; idle;"
        "ran b create pod, a create c1, b create c1",
        {"a": '[ "$id" = pod ] && hold; answer', "b": ANSWER},
        ALL_MAY_FAIL,
    ),
    "a pod's stop waits for its containers' chains": case(
        "create pod -> ok; create c1 -> ok; create c2 -> ok; stop c1; a holds; late; stop pod; stop c2 -> ok;"
        "ran a create pod, b create pod, a create c1, b create c1, a create c2, b create c2, a delete c1, a delete c2,"
        "b delete c2; settle; stop pod is pending; ran; let a; stop pod gets ok;"
        "ran b delete c1, a delete pod, b delete pod",
        {"a": IN_DELETE, "b": ANSWER},
    ),
    "a pod's stop waits for a late create of its container": case(
        "create pod -> ok; create c1; a holds; late; stop c1; stop pod; late; stop c1 is ok; stop pod is ok;"
        "ran a create pod, a create c1; let a; idle; ran a delete c1, a delete pod",
        {"a": IN_CREATE},
        ALL_MAY_FAIL,
    ),
    "a pod's stop does not wait for containers of another": case(
        "create pod2 -> ok; create c1 -> ok; stop c1; a holds; stop pod2 -> ok; stop c1 is pending", {"a": IN_DELETE}
    ),
    "a container that stops after its pod, as containerd's may, does not wait for the pod's delete": case(
        "create pod -> ok; create c1 -> ok; stop pod; a holds; stop c1 -> ok; stop pod is pending",
        {"a": '[ "$state$id" = deletepod ] && hold; answer'},
    ),
    "each event has its own deadline while it waits": case(
        "create pod within 4; a holds; create c1 within 3; create c2 within 1; create c3; +0.89; create c2 is pending;"
        "+0.02; create c2 is ok; create c3 is pending; +1; create c3 is ok; create c1 is pending; +1; create c1 is ok;"
        "create pod is pending; +1; create pod is ok; let a; idle",
        {"a": IN_POD},
        ALL_MAY_FAIL,
    ),
}
HALF_A_SECOND: dict[str, Any] = {"timeout": 0.5}
LIMITED: dict[str, Any] = {"fail_create": False, "late_limit": 30}
KILLED = "create c1; a holds; late; it is {}; idle; counts runs={} failures=1 late=1 killed=1"
LIMITS = {
    "a plugin's timeout comes before the call's": case(
        "create c1; a holds; +0.499; it is pending; ran a create c1; +0.001; it gets ok; ran b create c1; chain of b: ;"
        "counts runs=2 late=1 failures=1",
        {"a": HOLD, "b": ANSWER},
        {"plugins": {"a": {"timeout": 0.5, "fail_create": False}}},
    ),
    "a plugin's timeout fails an event that needs it": case(
        "create c1; b holds; +0.5; it is plugin: b: no result within 0.5 s; ran a create c1, b create c1",
        {"a": ANSWER, "b": HOLD, "c": ANSWER},
        HALF_A_SECOND,
    ),
    "a timeout runs for each plugin anew": case(
        "create c1; a holds; +0.4; let a; b holds; +0.4; let b; c holds; +0.4; let c; it gets ok",
        {"a": HOLD, "b": HOLD, "c": HOLD},
        HALF_A_SECOND,
    ),
    "at its timeout a plugin that has printed its result has succeeded": case(
        "create c1; a holds; +0.5; it gets ok; chain of b: a; counts runs=2",
        {"a": "answer; hold", "b": ANSWER},
        HALF_A_SECOND,
    ),
    "a timeout longer than the call is the call's": case(
        f"create c1; a holds; late; it is {LATE}", {"a": HOLD}, {"timeout": 50}
    ),
    "a general timeout can be lifted for a plugin": case(
        "create c1; a holds; +1; it is pending; let a; it gets ok",
        {"a": HOLD},
        HALF_A_SECOND | {"plugins": {"a": {"timeout": 0}}},
    ),
    "a plugin is killed at its own timeout": case(
        "create c1; a holds; +0.5; it gets ok; ran a create c1, b create c1; counts runs=2 late=1 failures=1 killed=1",
        {"a": HOLD, "b": ANSWER},
        {"fail_create": False, "timeout": 0.5, "kill_on_timeout": True},
    ),
    "a killed plugin lets the chain behind the answer go on": case(
        KILLED.format("ok", 2) + "; ran a create c1, b create c1",
        {"a": HOLD, "b": ANSWER},
        {"fail_create": False, "kill_on_timeout": True},
    ),
    "the chain goes on without a plugin that hangs longer than the limit": case(
        f"create c1; a holds; late; logs {BEHIND}; +28.099; ran a create c1; +0.002; idle; ran b create c1;"
        "chain of b: ; logs create of container c1: plugin: a: no result within 30.0 s (tolerated) |"
        "a: pid N has no result in time: left to finish",
        {"a": HOLD, "b": ANSWER},
        LIMITED,
    ),
    "what a plugin answers after the limit is too late": case(
        "create c1; a holds; late; +30; b starts; let a; settle; let b; idle; ran a create c1, b create c1;chain of b:",
        {"a": HOLD, "b": HOLD},
        LIMITED,
    ),
    "a plugin that was started behind the answer has the limit too": case(
        "create c1; a holds; late; let a; b starts; +29.9; ran a create c1, b create c1; +0.2; idle; ran c create c1",
        {"a": HOLD, "b": HOLD, "c": ANSWER},
        LIMITED,
    ),
    "behind the answer the shorter of timeout and limit counts": case(
        "create c1; a holds; late; let a; b starts; +5; idle; ran a create c1, b create c1, c create c1",
        {"a": HOLD, "b": HOLD, "c": ANSWER},
        LIMITED | {"plugins": {"b": {"timeout": 5}}},
    ),
    "behind the answer a short timeout runs for each plugin anew": case(
        "create c1; a holds; late; +3.1; b starts; +4.9; let b; idle; chain of c: b",
        {"a": HOLD, "b": HOLD, "c": ANSWER},
        LIMITED | {"timeout": 5},
    ),
    "behind the answer the limit runs for each plugin anew": case(
        "create c1; a holds; late; +28.1; b starts; +15; let b; idle; chain of c: b",
        {"a": HOLD, "b": HOLD, "c": ANSWER},
        LIMITED | {"timeout": 40},
    ),
    "before the answer there is no limit": case(
        "create c1 within 60; a holds; +50; it is pending; let a; it gets ok; counts runs=1",
        {"a": HOLD},
        {"fail_create": False, "late_limit": 1},
    ),
    "a plugin with a result that works on is left at the limit": case(
        "create c1; a holds; late; let a; b starts; +30; idle; chain of c: a b; counts runs=3 late=1",
        {"a": HOLD, "b": "answer; hold", "c": ANSWER},
        LIMITED,
    ),
}


@pytest.mark.parametrize("name", [*ALONE, *ONE_ANOTHER, *LIMITS])
def test_scenario(name: str, player: Player) -> None:
    player.play((ALONE | ONE_ANOTHER | LIMITS)[name])


def test_a_plugin_that_must_not_fail_fails_its_create_and_is_left_to_finish(
    node: Node, player: Player, caplog: pytest.LogCaptureFixture
) -> None:
    player.play(case(f"create c1; a holds; late; it is {LATE}; counts runs=1 late=1 failures=1", {"a": HOLD}))
    [pid] = pids(caplog)
    assert is_running(pid), "it is not killed"
    assert not node.busy, "the chain has ended"
    left = "a: pid N has no result in time: left to finish"
    player.play(case(f"logs create of container c1: {LATE} | {left}; let a"))
    node.loop.until(lambda: pid not in children())
    assert node.runs == ["a create c1"]
    assert "has ended: exit code 0" in caplog.records[-1].getMessage()


@pytest.mark.parametrize("fail", [True, False])
def test_a_plugin_that_has_printed_its_result_has_succeeded_and_works_on_and_is_not_killed(
    node: Node, player: Player, fail: bool
) -> None:
    """It is neither late nor a failure."""
    script = 'answer; [ "$state" = delete ] || hold; say ends'
    steps = "create c1; a holds; late; it is ok; counts runs=1; logs; let a"
    player.play(case(steps, {"a": script}, {"fail_create": fail, "kill_on_timeout": fail}))
    assert not node.busy
    node.hear("a create c1 ends")
    player.play(case("stop c1 -> ok"))


@pytest.mark.parametrize("general", [True, False])
def test_where_it_is_configured_a_plugin_without_a_result_is_killed_with_its_event(
    node: Node, player: Player, general: bool, caplog: pytest.LogCaptureFixture
) -> None:
    kill = {"kill_on_timeout": True}
    player.play(case(KILLED.format(LATE, 1), {"a": HOLD}, kill if general else {"plugins": {"a": kill}}))
    [pid] = pids(caplog)
    node.loop.until(lambda: pid not in children())
    assert "has ended: killed by signal 9" in caplog.records[-1].getMessage()


def test_a_whole_pod_that_waits_comes_in_order(node: Node, player: Player) -> None:
    """All of it happens while one plugin hangs in the pod's create."""
    events = ["create pod", "create c1", "create c2", "stop c1", "stop pod", "stop c2"]
    answered = "; ".join(f"{event} is ok" for event in events)
    player.play(
        case(f"create pod; a holds; {';'.join(events[1:])}; late; {answered}; let a; idle", {"a": IN_POD}, ALL_MAY_FAIL)
    )
    runs = node.runs
    assert (runs[0], len(runs)) == ("a create pod", 6)
    for earlier, later in (("create c1", "delete c1"), ("create c2", "delete c2"), ("delete c1", "delete pod")):
        assert runs.index(f"a {earlier}") < runs.index(f"a {later}")


def test_it_is_idle_when_the_last_late_chain_has_ended(node: Node, player: Player) -> None:
    player.play(
        case("create c1; a holds; create c2; a holds; late; create c1 is ok; it is ok", {"a": HOLD}, ALL_MAY_FAIL)
    )
    told: list[str] = []
    node.bridge.when_idle(lambda: told.append("idle"))
    node.release("a")
    node.loop.until(lambda: len(node.bridge.ledger) == 2)
    assert told == []
    node.release("a")
    node.loop.until(lambda: bool(told), "it is never idle")


# The time of each run, by its outcome: counted once, when the run is no longer waited for

DONE, FAILED, LATE_RUN = Outcome.DONE, Outcome.FAILED, Outcome.LATE
TIMES: dict[str, tuple[Case, dict[str, Any]]] = {
    "a result and a failure are told apart": (
        case(
            "create c1; a holds; +0.25; let a; b holds; +0.25; let b; it gets plugin: b: no result...",
            {"a": HOLD, "b": "hold; echo nonsense"},
        ),
        {"a": {DONE: (1, 0.25)}, "b": {FAILED: (1, 0.25)}},
    ),
    "a plugin that is left at its timeout is late": (
        case("create c1; a holds; +0.5; it gets ok; let a", {"a": HOLD}, {"plugins": {"a": HALF_A_SECOND | IGNORED}}),
        {"a": {LATE_RUN: (1, 0.5)}},
    ),
    "a run that goes on behind the answer is not counted yet": (
        case("create c1; a holds; late; it is ok", {"a": HOLD}, ALL_MAY_FAIL),
        {"a": {}},
    ),
    "a result behind the answer is a result": (
        case("create c1; a holds; late; it is ok; +1.1; let a; idle", {"a": HOLD}, ALL_MAY_FAIL),
        {"a": {DONE: (1, 3.0)}},
    ),
    "a plugin that works on after its result has succeeded": (
        case("create c1; a holds; late; it is ok", {"a": "answer; hold"}),
        {"a": {DONE: (1, LIMIT)}},
    ),
    "a plugin that cannot be started has taken no time": (
        case("conf missing; create c1 -> plugin: missing: not found...; counts failures=1"),
        {"missing": {}},
    ),
}


@pytest.mark.parametrize("name", TIMES)
def test_times(name: str, node: Node, player: Player) -> None:
    played, expected = TIMES[name]
    player.play(played)
    if "left at its timeout" in name:  # what it prints behind the timeout counts no more
        node.loop.until(lambda: not children(), "the plugin does not end")
    accounts = node.bridge.runner.accounts
    assert expected == {
        plugin: {of: (sum(one.counts), round(one.seconds, 6)) for of, one in accounts[plugin].times.items()}
        for plugin in expected
    }
