"""The work of one turn of the loop on a large container: each field of a pod's author, with everything that reads it.

Steps of Python's interpreter are counted. What C code does in one step is bounded elsewhere: RE2 by `Matcher.work`.
"""

from __future__ import annotations

import functools
import json
import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

import pytest

from nri import Context, api
from nri.events import subject_of
from nri.plugin import RESERVE
from nri.runtimes import Runtime
from v010_adapter.base.loop import Loop
from v010_adapter.errors import NotAdjustable, Oversized
from v010_adapter.events.work import PluginWork, WorkTools
from v010_adapter.hooks.facts import facts
from v010_adapter.hooks.match import Matcher, NamedHook
from v010_adapter.hooks.model import Hook, When
from v010_adapter.legacy import request, result
from v010_adapter.legacy.config import Entry
from v010_adapter.legacy.create_answer import CreateAnswerBuilder
from v010_adapter.legacy.pending_updates import PendingUpdates
from v010_adapter.legacy.plugins import LegacyPlugins
from v010_adapter.legacy.request import MOST_KEPT
from v010_adapter.monitoring.logs import LineFormatter
from v010_adapter.oci import sizes
from v010_adapter.oci.spec import adjustment, apply, spec_from
from v010_adapter.programs.process import Runner
from v010_adapter.settings import LegacySettings
from v010_adapter.state.ledger import SLICE, Ledger

from .rig.brief import CI, few
from .rig.large import FIELDS, creation
from .rig.loop import SteppedLoop
from .rig.serving import Alone, Nowhere, PluginServing
from .rig.steps import steps

PATCH = {
    "annotations": {"z": "1"},
    "process": {"env": ["FIRST=1", "PATH=/x"], "rlimits": [{"type": "RLIMIT_X", "soft": 1, "hard": 2}]},
    "mounts": [{"destination": "/new", "type": "tmpfs", "source": "t"}],
    "linux": {"devices": [{"path": "/dev/n", "type": "c", "major": 1, "minor": 3}]},
}
RUNTIME = Runtime("containerd", "2.4.2", (0, 12, 3))
SIZES = (4 << 10, 8 << 10, 16 << 10)
Make: TypeAlias = Callable[[api.CreateContainerRequest], Callable[[], object]]
"""Prepares the reading of a container."""
CONDITIONS = When(annotations=((".*", "x$"),), commands=("sh$",), has_bind_mounts=True, any_of=True)


def plugin(creation: api.CreateContainerRequest) -> CreateAnswerBuilder:
    target = request.of_container(creation.container, creation.pod)
    return CreateAnswerBuilder("CreateContainer", creation, target, PendingUpdates(Loop()), RUNTIME, "")


def at_start(creation: api.CreateContainerRequest) -> Callable[[], object]:
    entry = Entry("a", 0, "0.1", None)
    return lambda: request.encode(request.of_container(creation.container, creation.pod), "create", entry, [])


def at_result(creation: api.CreateContainerRequest) -> Callable[[], object]:
    builder, answer = plugin(creation), result.parse(json.dumps({"spec": PATCH}).encode())
    builder.extension()
    return lambda: builder.accept("a", answer)


def at_edit(creation: api.CreateContainerRequest) -> Callable[[], object]:
    """The edit of a precreate hook that writes everything anew, with mounts in another order."""
    before = spec_from(creation.container)
    after = json.loads(json.dumps(before))
    after["mounts"] = after["mounts"][::-1]
    after["process"]["env"].insert(0, "NEW=1")
    return lambda: adjustment(before, after)


def matching(creation: api.CreateContainerRequest) -> Callable[[], object]:
    matcher = Matcher([NamedHook("a", "a", Hook("/bin/true", (), (), None, CONDITIONS, ("poststop",)))])
    return lambda: matcher.match(facts(creation.pod, creation.container))


def log_line(creation: api.CreateContainerRequest) -> Callable[[], object]:
    record = logging.makeLogRecord({"msg": "hooks for %s", "args": (subject_of(creation),)})
    return lambda: LineFormatter(8192).format(record)


READERS: dict[str, tuple[Make, int]] = {
    "sizes": (lambda one: lambda: sizes.refuse_oversized(one.pod, one.container), 7),
    "facts and match": (matching, 15),
    "request of StartContainer": (at_start, 15),
    "request of CreateContainer": (lambda one: lambda: plugin(one).extension(), 30),
    "result of CreateContainer": (at_result, 40),
    "input of a precreate hook": (lambda one: lambda: apply(spec_from(one.container), api.ContainerAdjustment()), 20),
    "edit of a precreate hook": (at_edit, 30),
    "log": (log_line, 1),
}
"""What reads a container, and the maximum steps for each of its bytes."""


@pytest.mark.parametrize("reader", few(list(READERS)))
def test_the_work_of_each_reader_grows_linearly_with_each_field(reader: str) -> None:
    make, most = READERS[reader]
    sizes = SIZES if CI or most < 20 else [size // 2 for size in SIZES]  # a person waits
    for field in FIELDS:
        measured(make, field, sizes[0])  # what is imported and compiled once
        size, count = zip(*(measured(make, field, each) for each in sizes), strict=True)
        growth, before = ((count[n] - count[n - 1]) / (size[n] - size[n - 1]) for n in (2, 1))
        assert growth <= most, f"{field}: {growth} steps for each byte"
        assert growth <= 1.2 * before + 0.1, f"{field}: {before} steps for each byte, then {growth}"


def measured(make: Make, field: str, size: int) -> tuple[int, int]:
    """The bytes of a container, and the steps that its reader takes."""
    one = creation(field, size)
    forget()
    work = make(one)

    def tolerant() -> None:
        with suppress(NotAdjustable, Oversized):
            work()

    return one.ByteSize(), steps(tolerant)


def forget() -> None:
    """Clears all that the adapter keeps of earlier containers: others may have the same parts."""
    for name, module in sys.modules.copy().items():
        if name.startswith("v010_adapter."):
            for kept in vars(module).values():
                if isinstance(kept, functools._lru_cache_wrapper):
                    kept.cache_clear()


def calls(work: Callable[[], object]) -> int:
    """Returns how many functions are called for some work, C functions included."""
    count = 0

    def profile(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize(("reader", "most"), [(at_result, 4), (at_edit, 3)])
def test_a_variable_that_does_not_change_costs_few_calls(reader: Make, most: int) -> None:
    """It is not written as JSON, nor compared one by one."""
    counts = []
    for number in (100, 1100):
        one = creation("", 0)
        one.container.env.extend(f"A{each}=x" for each in range(number))
        counts.append(calls(reader(one)))
    assert (counts[1] - counts[0]) // 1000 <= most, "beside a few calls of what the collector finds meanwhile"


def test_a_mount_costs_as_much_however_deep_it_is() -> None:
    counts = []
    for depth in (10, 1000):
        one = creation("", 0)
        one.container.mounts.add(destination="/a" * depth, source="/srv", type="bind")
        counts.append(steps(at_edit(one)))
    assert counts[1] - counts[0] < 2 * 1000, "a step or so for each part of the path, on some interpreters"


@pytest.mark.parametrize("event", ["CreateContainer", "UpdateContainer", "RemoveContainer"])
@pytest.mark.parametrize(("size", "earlier"), [(0, 0.0), (2_000_000, 0.4), (3_900_000, 0.78)])
def test_an_event_of_a_large_container_is_due_earlier(event: str, size: int, earlier: float) -> None:
    """A result that comes just before is still turned into an answer in time."""
    one = getattr(api, f"{event}Request")(container=creation("env: one" if size else "", size).container)
    context = Context(event, 2.0, lambda: 0.0, 0.0, size=one.ByteSize())
    PluginServing(Loop(), LegacySettings(), Alone(context._clock)).serve(one, context)
    assert context.due == pytest.approx(2 - RESERVE - earlier, abs=0.001)


EVENTS = ("CreateContainer", "PostCreateContainer", "PostStartContainer", "UpdateContainer", "RemoveContainer")


@pytest.mark.parametrize("event", EVENTS)
def test_what_cannot_run_is_refused_before_any_work_at_each_event_of_a_plugin(event: str) -> None:
    message = getattr(api, f"{event}Request")(container=api.Container(id="c", mounts=[api.Mount()] * 100_001))
    assert reason_of_refusal(event, message) == "mounts: 100001 elements, at most 100000"


def reason_of_refusal(event: str, message: Any) -> str:
    """Returns why a plugin with `events` does not run, after few steps; empty if it runs."""
    loop, errors = Loop(), list[str]()
    shared = WorkTools(Runner(loop), LegacyPlugins(LegacySettings()), PendingUpdates(loop), Ledger(loop, Nowhere()))

    def work() -> None:
        target = request.of_container(message.container, message.pod)
        builder = PluginWork(shared, event, target, [], message=message)._made_builder()
        try:
            builder.refuse_oversized(is_large=True)
        except Oversized as error:
            errors.append(str(error))

    assert steps(work) < 100_000  # the modules are loaded, too
    return "".join(errors)


def test_an_answer_is_due_earlier_by_half_of_the_time_at_most() -> None:
    context = Context("CreateContainer", 2.0, lambda: 0.0, 0.0)
    context.be_due_earlier(9)
    assert context.due == 1


# Synchronize


MANY_LABELS = 90_000 if CI else 10_000
"""Labels that are too long to be kept."""


class Joined:
    """An adapter with a plugin, and what a Synchronize of its runtime costs."""

    def __init__(self, loop: SteppedLoop, folder: Path, *, first: bool) -> None:
        (folder / "conf.json").write_text('{"version":"0.1","plugins":[{"type":"a"}]}')
        self._loop = loop
        self._serving = PluginServing(loop, LegacySettings(config=f"{folder}/conf.json"), Alone(loop.time))
        if not first:  # what runs then has started without the adapter
            self._serving.synchronize([], [])
        loop.settle()

    def turns(self, labels: Sequence[int], containers: int) -> list[int]:
        """Returns the steps of each turn, the first of which is the call; there are pods with so many labels each."""
        pods = [api.PodSandbox(id=f"p{pod}") for pod, _ in enumerate(labels)]
        for pod, number in zip(pods, labels, strict=True):
            pod.labels.update({f"label-{each}": "x" for each in range(number)})
        listed = [
            api.Container(id=f"{pod.id}-{each}", pod_sandbox_id=pod.id, state=api.CONTAINER_RUNNING)
            for pod in pods
            for each in range(containers)
        ]
        return [
            steps(lambda: self._serving.synchronize(pods, listed)),
            *(steps(lambda: self._loop.settle(1)) for _ in range(20)),
        ]


def turns(loop: SteppedLoop, folder: Path, labels: Sequence[int], containers: int, *, first: bool) -> list[int]:
    """Returns the steps of each turn of a Synchronize, counted a second time: Python 3.13 counts less at first."""
    _, counted = (Joined(loop, folder, first=first).turns(labels, containers) for _ in range(2))
    return counted


@pytest.mark.parametrize("first", few([True, False], 1))
@pytest.mark.parametrize("labels", few([1000, MANY_LABELS], 1))
def test_the_labels_of_a_pod_cost_a_synchronize_as_much_however_many_containers_it_has(
    tmp_path: Path, loop: SteppedLoop, first: bool, labels: int
) -> None:
    cost = {
        (number, containers): sum(turns(loop, tmp_path, [number], containers, first=first))
        for number in (0, labels)
        for containers in (10, 40)
    }
    growth = {number: cost[number, 40] - cost[number, 10] for number in (0, labels)}
    assert growth[labels] < growth[0] + 30 * 500, "not one step for each label of each container"


def test_labels_that_are_too_long_to_be_kept_are_not_made_at_a_synchronize(tmp_path: Path, loop: SteppedLoop) -> None:
    few, many = (sum(turns(loop, tmp_path, [number], 10, first=False)) for number in (10, MANY_LABELS))
    assert many < few + 1000


@pytest.mark.parametrize("first", few([True, False], 1))
def test_no_turn_of_a_synchronize_makes_more_than_a_slice(tmp_path: Path, loop: SteppedLoop, first: bool) -> None:
    most = MOST_KEPT // len('"label-1000":"x",')
    one, many = (max(turns(loop, tmp_path, [most] * pods, 1, first=first)) for pods in (1, 20))
    fits = SLICE // MOST_KEPT + 1
    assert many < (fits + 1) * one


@pytest.mark.parametrize("event", ["StopContainer", "StopPodSandbox"])
def test_a_stop_makes_no_json_before_its_child_process(event: str) -> None:
    """Only whether there are labels decides whether those of the create are taken."""
    counts = []
    for number in (10, 10, 10_000):  # some interpreters count the first time otherwise
        pod = api.PodSandbox(id="p", labels={f"l{each}": "x" for each in range(number)})
        message = getattr(api, f"{event}Request")(pod=pod)
        earlier = request.of_pod(api.PodSandbox(id="p", labels={"of": "the create"}))
        target = request.of_event(event, message)
        counts.append(steps(lambda: target.complete(earlier)))  # noqa: B023 - called at once
        assert len(json.loads(target.labels)) == number
    assert counts[1] == counts[2]
