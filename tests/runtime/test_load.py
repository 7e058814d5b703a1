"""A load of many pods: which events there are and in which order, the figures, and the command `simulate -pods`."""

from __future__ import annotations

import io
import os
import sys
from itertools import cycle
from pathlib import Path
from subprocess import PIPE
from types import SimpleNamespace
from typing import Any, cast

import pytest
from google.protobuf.message import Message

from nri import api
from nri.testing import FLAVOURS, Answer, Load, Outcome, Runtime, load, node, processes
from nri.testing.load import MAX_CONTAINERS, Figures, figures, percentile, play
from nri.testing.node import Node
from nri.testing.recorded import life
from tests.rig.clock import Clock
from tests.rig.command import Terminal
from v010_adapter.cli import terminal

from ..rig.embedded import Plugins, serves
from ..rig.processes import NO_PROCESS
from ..rig.simulation import Simulate
from ..rig.trunk import plugin
from ..rig.waiting import running

NAME = "10-a"
Event = tuple[str, str, str]
"""An event with the ids of its pod and of its container."""


class Scripted(Runtime):
    """A runtime with one plugin, which takes for each answer as long as the next number says."""

    def __init__(self, *seconds: float, failing: str = "", flavour: str = "containerd/2.4.2") -> None:
        super().__init__(FLAVOURS[flavour])
        self._seconds = cycle(seconds)
        self._failing = failing
        self.played: list[Event] = []
        self.requests: list[Any] = []
        self.idle: list[float] = []

    @property
    def plugins(self) -> list[Any]:
        return [SimpleNamespace(name=NAME, closed="", process=None)]

    def event(self, method: str, request: Message, timeout: float | None = None) -> Outcome:
        sent: Any = request
        self.played.append((method, sent.pod.id, getattr(sent, "container", api.Container()).id))
        self.requests.append(request)
        self.updates.append((NAME, []))
        fails = method == self._failing
        answer = Answer(NAME, error="refused" if fails else "", fails=fails, seconds=next(self._seconds))
        return Outcome(method, [answer], error=answer.error)

    def serve(self, done: object, timeout: float) -> bool:
        self.idle.append(timeout)
        return False


def played(**options: Any) -> list[Event]:
    runtime = Scripted(0.001, 0.003)
    play(runtime, **options)
    return runtime.played


def names(events: list[Event]) -> list[str]:
    return [event for event, _, _ in events]


# ---- the pods


def test_the_same_seed_makes_the_same_events_and_another_one_does_not() -> None:
    for options in ({"pods": 20}, {"pods": 20, "repeat": 2}, {"pods": 20, "rate": 50}):
        assert played(**options) == played(seed=0, **options)
        assert played(**options) != played(seed=1, **options)


def test_a_pods_events_come_in_the_order_of_runtimes() -> None:
    events = played(pods=200)
    counts, reordered = set(), False
    for pod in {pod for _, pod, _ in events}:
        own = [(event, container) for event, of, container in events if of == pod]
        assert [own[0][0], own[-1][0]] == ["RunPodSandbox", "RemovePodSandbox"]
        containers = {container for _, container in own} - {""}
        created, removed = ([of for event, of in own if event == one] for one in ("CreateContainer", "RemoveContainer"))
        is_whole = "RemoveContainer" not in [event for event, _ in own[: own.index(("StopPodSandbox", ""))]]
        reordered |= is_whole and created != removed
        counts.add(len({*containers}))
        for container in containers:
            line = [event for event, of in own if of == container]
            assert line in ([*load.START, *load.END], [*load.START, *load.UPDATE, *load.END])
    assert reordered
    assert {0, 1, MAX_CONTAINERS} <= counts
    assert max(counts) > MAX_CONTAINERS  # some are created anew


def test_only_events_that_the_runtime_and_the_recording_know_are_played() -> None:
    lacking = {event: request for event, request in life().items() if event not in load.UPDATE}
    assert not {*load.UPDATE} & {*names(played(pods=50, life=lacking))}
    assert {*load.UPDATE} <= {*names(played(pods=50))}


@pytest.mark.parametrize(
    ("failing", "after"),
    [
        ("RunPodSandbox", {"StopPodSandbox", "RemovePodSandbox"}),
        ("CreateContainer", {"StopContainer", "RemoveContainer"}),
        ("StartContainer", {"PostCreateContainer", "CreateContainer", "StopContainer", "RemoveContainer"}),
    ],
)
def test_after_a_failure_only_those_events_come_that_runtimes_send_then(failing: str, after: set[str]) -> None:
    runtime = Scripted(0.001, failing=failing)
    result = play(runtime, pods=30)
    assert (result.conflicts, [one.event for one in result.figures if one.errors]) == ([], [failing])
    of_pods = {"RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"}
    assert {*names(runtime.played)} == of_pods | after | {failing}


def test_cri_o_starts_a_container_in_spite_of_an_error() -> None:
    runtime = Scripted(0.001, failing="StartContainer", flavour="cri-o/1.36.3")
    play(runtime, pods=5)
    assert runtime.played == played(pods=5)


def test_requests_have_the_ids_of_their_pod_and_container() -> None:
    runtime = Scripted(0.001)
    result = play(runtime, pods=10)
    assert result.events == len(runtime.requests)
    sent = [one for one in runtime.requests if isinstance(one, api.CreateContainerRequest)]
    assert len({one.container.id for one in sent}) == len(sent) == result.containers > 0
    assert all(one.container.linux.cgroups_path.endswith(one.container.id) for one in sent)
    assert all(one.container.pod_sandbox_id == one.pod.id for one in sent)
    assert len({one.pod.id for one in sent}) == len({one.pod.name for one in sent}) > 1


# ---- the lock


POD = ["RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"]


@pytest.fixture
def without_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "MAX_CONTAINERS", 0)


@pytest.mark.usefixtures("without_containers")
def test_whichever_pod_has_waited_longest_is_next() -> None:
    events = played(pods=3)
    assert names(events) == [event for event in POD for _ in range(3)]
    pods = [pod for _, pod, _ in events]
    assert pods[:3] == pods[3:6] == pods[6:]


@pytest.mark.usefixtures("without_containers")
def test_pods_that_come_later_stand_behind_those_that_wait() -> None:
    runtime = Scripted(0.25)  # with two pods a second: 0.0 0.25 0.5, then both at 0.75
    play(runtime, pods=2, rate=2)
    first, second = dict.fromkeys(pod for _, pod, _ in runtime.played)
    order = [(event[:3], pod) for event, pod, _ in runtime.played]
    assert order == [("Run", first), ("Sto", first), ("Run", second), ("Rem", first), ("Sto", second), ("Rem", second)]
    assert runtime.idle == []


@pytest.mark.usefixtures("without_containers")
def test_what_pods_wait_for_is_their_turn_and_the_answers() -> None:
    result = play(Scripted(0.5), pods=2)
    # Answers end at 0.5, 1.0 … 3.0. The first pod waits 0.5, then 1.0 for each; the second one 1.0 for each.
    assert (result.waited, result.answered) == (5.5, 3.0)


@pytest.mark.usefixtures("without_containers")
def test_before_the_next_pod_the_runtime_is_idle() -> None:
    runtime = Scripted(0.125)
    result = play(runtime, pods=3, rate=1)
    assert runtime.idle == [0.625, 0.625]
    assert result.waited == result.answered == 9 * 0.125


@pytest.mark.usefixtures("without_containers")
def test_the_processes_are_looked_at_each_second(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime, looks = Scripted(0.001), []
    now = SimpleNamespace(monotonic=lambda: len(runtime.played) / 2)
    meter = SimpleNamespace(look=lambda: looks.append(now.monotonic()), usage={})
    monkeypatch.setattr(load, "time", now)
    monkeypatch.setattr(load, "Meter", lambda plugins: meter)
    play(runtime, pods=3)
    assert looks == [1.5, 3.0, 4.5]


# ---- the figures


def test_percentiles_are_values_that_were_measured() -> None:
    hundred = [float(number) for number in range(1, 101)]
    assert [percentile(hundred, part) for part in (50, 90, 99, 100)] == [50, 90, 99, 100]
    assert [percentile([7.0], part) for part in (1, 50, 99)] == [7, 7, 7]
    assert [percentile([1.0, 2.0, 3.0], part) for part in (50, 90, 99)] == [2, 3, 3]
    assert node.latency(hundred[::-1]) == (100, 50, 99)


def test_figures_are_those_of_the_answers() -> None:
    answers = [Answer(NAME, seconds=number / 100) for number in range(1, 101)]
    answers[0] = answers[0]._replace(fails=True, error="first")
    answers[1] = answers[1]._replace(fails=True, error="second")
    answers[2] = answers[2]._replace(late=True, error="late")
    found = figures(answers, "StartContainer", 2.0)
    assert found == Figures(NAME, "StartContainer", 100, 0.5, 0.9, 0.99, 1.0, 0.495, 1, 2, "first")


def test_the_events_are_in_the_order_of_a_pods_life() -> None:
    found = play(Scripted(0.001), pods=30).figures
    assert [one.event for one in found] == [*life()]


def test_problems_are_drops_errors_conflicts_and_what_is_too_slow() -> None:
    slow = Figures(NAME, "StartContainer", 9, 0.01, 0.02, 0.03, 0.04, 0.015, 0, 2, "no")
    result = Load(figures=[slow], dropped={NAME: "why"}, conflicts=["who", "else"])
    others = ["plugin 10-a was dropped: why", "10-a StartContainer: 2 of 9 answers are errors, first: no"]
    both = "2 events had conflicts, first: who"
    assert result.problems() == result.problems(0.03) == [*others, both]
    late = "10-a StartContainer: p99 is 30.0 ms, more than 29.9 ms"
    assert result.problems(0.0299) == [*others, late, both]


def test_two_plugins_that_want_the_same_are_a_conflict() -> None:
    def sets(*_: object) -> api.CreateContainerResponse:
        return api.CreateContainerResponse(adjust=api.ContainerAdjustment(env=[api.KeyValue(key="A", value="1")]))

    with Node() as node:
        node.add(plugin(create_container=sets), name="a")
        result = node.load(plugin(create_container=sets), pods=5)
    assert result.containers == len(result.conflicts) > 0
    assert result.problems()[0].startswith(f"{result.containers} events had conflicts, first: CreateContainer: ")


def test_the_processes_of_a_plugin_are_its_group_and_their_descendants() -> None:
    def stat(parent: int, group: int) -> list[int]:
        return [parent, group, *[0] * 12]

    stats = {1: stat(0, 1), 10: stat(1, 10), 11: stat(10, 10), 12: stat(11, 12), 13: stat(1, 10), 14: stat(1, 14)}
    assert processes.family(10, stats) == {10, 11, 12, 13}
    assert processes._memory(NO_PROCESS) == 0


def test_the_numbers_of_a_process_are_those_of_the_kernel() -> None:
    """Its parent, its group, the times of itself and of its children, and its memory."""
    work = "[0 for _ in range(3_000_000)]; kept = b'x' * (1 << 26)"
    code = f"import os, sys; os.setpgid(0, 0); {work}; print(*os.times()[:2]); sys.stdin.read()"
    with running([sys.executable, "-u", "-c", code], stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdout
        told = [float(seconds) for seconds in process.stdout.readline().split()]
        stat, memory = processes._stats()[process.pid], processes._memory(process.pid)
    assert (stat[processes.PARENT], stat[processes.GROUP]) == (os.getpid(), process.pid)
    found = [ticks * processes.TICK for ticks in stat[processes.TIMES]]
    assert sum(told) > 0
    assert found[0] >= told[0]
    assert found[1] >= told[1]
    assert found[2:] == [0, 0]
    assert 1 << 26 <= memory < 1 << 27


def meter(pid: int) -> processes.Meter:
    """Measures a plugin with this pid."""
    return processes.Meter([cast(Any, SimpleNamespace(name=NAME, process=SimpleNamespace(pid=pid)))])


def test_usage_is_the_largest_memory_and_the_processor_time_of_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks, memory = [100, 120, 150], [5, 7, 6]
    monkeypatch.setattr(processes, "_stats", lambda: {10: [1, 10, *[0] * 8, ticks.pop(0), 0, 0, 0]})
    monkeypatch.setattr(processes, "_memory", lambda pid: memory.pop(0))
    measured = meter(10)
    measured.look()
    assert measured.usage == {NAME: processes.Usage(1, 150 * processes.TICK - 100 * processes.TICK, 7)}


def test_a_plugin_that_has_ended_before_the_load_has_no_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pid may be another process's by then."""
    there = [{}, {10: [1, 10, *[0] * 12]}]
    monkeypatch.setattr(processes, "_stats", lambda: there.pop(0))
    assert meter(10).usage == {}


FORKS = """r, w = os.pipe(); globals()["kept"] = w; os.fork() or (os.close(w), os.read(r, 1), os._exit(0))"""
"""Starts a process that ends with the plugin."""


@pytest.mark.parametrize("event", ["Configure", "StopPodSandbox"])
def test_a_plugins_programs_count(plugins: Plugins, event: str) -> None:
    runtime, _ = plugins.launch(NAME, serves(FORKS, event))
    result = play(runtime, pods=1)
    assert (result.problems(), [*result.usage], result.usage[NAME].processes) == ([], [NAME], 2)


# ---- plugins that are late


HANGS = serves("return None", "CreateContainer").replace(
    'return b""', "return api.ConfigureResponse(events=events.mask(['CreateContainer'])).SerializeToString()"
    ' if request.method == "Configure" else b""',
)  # fmt: skip
"""A plugin that wants to know of new containers, and does not answer then."""
LATE = f"plugin {NAME} failed to handle CreateContainer request: no answer in 0.1 s"


def test_a_plugin_that_hangs_is_late_and_dropped(plugins: Plugins) -> None:
    with Node() as node:
        result = node.load(plugins.write(NAME, HANGS), pods=20, timeout=0.1)
    (found,) = result.figures
    assert (found.event, found.answers, found.lates, found.errors) == ("CreateContainer", 1, 1, 0)
    assert found.share >= 1
    assert result.dropped == {NAME: LATE}
    assert result.problems() == [f"plugin {NAME} was dropped: {LATE}"]
    assert result.pods <= 20
    assert result.containers == 1  # there is nobody left to play to


def test_a_node_plays_the_load_that_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, Any] = {}
    monkeypatch.setattr(node, "play", lambda runtime, **options: told.update(options) or Load())
    usual = {"pods": 100, "repeat": 1, "rate": 0, "seed": 0, "timeout": 2.0}
    for asked in ({}, {"pods": 4, "repeat": 3, "rate": 2.5, "seed": 7, "timeout": 0.5}):
        with Node() as runtime:
            runtime.load(**asked, pod={"name": "web"}, env=["A=1"])  # type: ignore[arg-type]
        created = told["life"]["CreateContainer"]
        assert (told, created.pod.name, created.container.env) == (told | usual | asked, "web", ["A=1"])


# ---- the command


def test_json_has_figures_drops_and_problems(simulate: Simulate) -> None:
    code, (result,) = simulate.json("-plugin", simulate.sets(NAME), "-pods", 5, "-repeat", 2, "-seed", 3)
    (figures_of,) = result["figures"]
    of_pods = {"runtime": "containerd/2.4.2", "seed": 3, "pods": 10, "dropped": {}, "conflicts": [], "problems": []}
    assert (code, result) == (0, result | of_pods)
    assert [*result] == [
        *("runtime", "seed", "pods", "containers", "events", "figures", "usage"),
        *("dropped", "conflicts", "waited", "answered", "problems"),
    ]
    assert [*figures_of] == [
        *("plugin", "event", "answers", "p50", "p90", "p99", "max", "share", "lates", "errors", "error")
    ]
    assert (figures_of["plugin"], figures_of["event"]) == (NAME, "CreateContainer")
    assert figures_of["answers"] == result["containers"] > 0
    assert {*result["usage"][NAME]} == {"processes", "cpu", "memory"}


def test_the_flags_decide_on_the_load(simulate: Simulate, monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, object] = {}
    monkeypatch.setattr(load, "play", lambda runtime, **options: told.update(options) or Load())
    words = ["-pods", 4, "-repeat", 3, "-rate", 2.5, "-seed", 7]
    code, _ = simulate.json("-plugin", simulate.sets(NAME), *words)
    assert (code, told) == (0, told | {"pods": 4, "repeat": 3, "rate": 2.5, "seed": 7})


FIGURES = [Figures(name, "StartContainer", 9, 0.01, 0.02, 0.03, 0.04, 0.015, 1, 2, "no") for name in (NAME, "20-b")]
USAGE = {NAME: processes.Usage(2, 1.5, 3_000_000), "30-c": processes.Usage(1, 0, 0)}
LOAD = Load(1, 2, 9, FIGURES, USAGE, waited=5.0, answered=3.0)
TABLE = """\
  event           answers  p50 ms  p90 ms  p99 ms  max ms  p99 of 2 s  late  errors
  StartContainer        9   10.00   20.00   30.00   40.00        1.5%     1       2
"""
PRINTED = f"""\
containerd v2.4.2, NRI v0.12.3
1 pod, 2 containers, 9 events

10-a: 1.50 s of processor time, 3.0 MB of memory, processes: 2
{TABLE}
20-b
{TABLE}
30-c: 0.00 s of processor time, 0.0 MB of memory, processes: 1

the pods waited 5.0 s in all, 5.0 s each: 2.0 s for their turn, 3.0 s for answers
PROBLEM: 10-a StartContainer: 2 of 9 answers are errors, first: no
PROBLEM: 20-b StartContainer: 2 of 9 answers are errors, first: no
"""


def test_each_plugin_has_a_table_with_a_line_for_each_event(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "play", lambda *_, **__: LOAD)
    assert simulate.text("-plugin", simulate.sets(NAME), "-pods", 2) == (1, PRINTED)


def test_a_threshold_is_one(simulate: Simulate) -> None:
    plugin = simulate.sets(NAME)
    for threshold, exceeded in (("60s", False), ("0.01us", True)):
        code, out = simulate.text("-plugin", plugin, "-pods", 3, "-max-p99", threshold)
        assert (code, f"PROBLEM: {NAME} CreateContainer: p99 is " in out) == (exceeded, exceeded)


def test_a_plugin_that_does_not_start_is_a_problem(simulate: Simulate) -> None:
    plugin = simulate.answers(NAME, configure='raise NRIError("not today")')
    code, out = simulate.text("-plugin", plugin, "-pods", 2)
    assert (code, "0 pods, 0 containers, 0 events" in out) == (1, True)
    assert out.splitlines()[-1] == f"PROBLEM: {NAME}: plugin {NAME} failed to configure: not today"


def test_the_container_is_that_of_the_file(simulate: Simulate, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"ociVersion": "1.0", "process": {"args": ["/bin/mine"]}}')
    plugin = simulate.says(NAME, "create_container", "list(request.container.args)")
    code, (result,) = simulate.json("-plugin", plugin, "-pods", 5, "-container", tmp_path / "config.json")
    (found,) = result["figures"]
    assert (code, found["error"], found["errors"]) == (1, "['/bin/mine']", found["answers"])


def test_updates_during_a_load_are_not_kept() -> None:
    """A plugin that asks for one at each event would take much memory. Those before the load stay."""
    runtime, before = Scripted(0.001), (NAME, [api.ContainerUpdate(container_id="before")])
    runtime.updates.append(before)
    play(runtime, pods=2)
    assert runtime.updates == [before]


# ---- the line that shows how far it is


def test_a_terminal_sees_how_far_a_load_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "time", SimpleNamespace(monotonic=(clock := Clock())))
    lines = ("\r\033[K", "events: 0 of 7\r\033[K", "events: 2 of 7\r\033[K", "events: 3 of 7: the last\r\033[K")
    for stream, shown in ((Terminal(), "".join(lines)), (io.StringIO(), "")):
        monkeypatch.setattr(sys, "stderr", stream)
        with terminal.progress("events") as progress:
            for done, what in enumerate(("", "", "", "the last")):
                progress(done, 7, what)
                clock.now += 0.15
        assert stream.getvalue() == shown


def test_progress_counts_the_pods_of_all_rounds() -> None:
    told: list[tuple[int, int]] = []
    runtime = Scripted(0.001)
    play(runtime, pods=3, repeat=2, progress=lambda done, total: told.append((done, total)))
    assert len(told) == len(runtime.played)
    assert [*dict.fromkeys(told)] == [(number, 6) for number in range(7)]
