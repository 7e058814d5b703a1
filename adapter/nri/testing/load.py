"""Plays many pods to plugins, as a busy node does: NRI serves one event at a time, and the other pods wait.

Source of the rules: containerd/nri pkg/adaptation/adaptation.go: each event holds the lock of the Adaptation until all
plugins have answered. Pods are played in one thread, and a queue stands for the lock.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any, NamedTuple, cast

from google.protobuf.message import Message

from nri import events
from nri.testing.plugin import Answer
from nri.testing.processes import Meter, Usage
from nri.testing.recorded import life as recorded_life
from nri.testing.runtime import Outcome, Runtime

MAX_CONTAINERS = 10
UPDATED, RESTARTED = 0.2, 0.1
"""The parts of the containers that are updated, and that end and are created anew, while their pod runs."""
START = ("CreateContainer", "PostCreateContainer", "StartContainer", "PostStartContainer")
UPDATE = ("UpdateContainer", "PostUpdateContainer")
END = ("StopContainer", "RemoveContainer")
LOOK = 1.0
"""Seconds between two looks at the processes of the plugins."""


class Step(NamedTuple):
    """One event of a pod. `container` is the id of its container, empty for events of the pod itself."""

    event: str
    container: str = ""
    name: str = ""
    """The container's name. A container that is created anew has the same name."""


@dataclass(frozen=True)
class Figures:
    """The answers of a plugin `NN-NAME` to one event. Times are in seconds; a percentile is one of the times."""

    plugin: str
    event: str
    answers: int
    p50: float
    p90: float
    p99: float
    max: float
    share: float
    """The part of the time to answer that p99 takes: 1.0 is all of it."""
    lates: int
    """The answers that did not come in time. The first one drops the plugin."""
    errors: int
    """The answers that were errors, which fail the event."""
    error: str
    """The first error, empty if there is none."""


@dataclass
class Load:
    """What a load came to."""

    pods: int = 0
    """The number of pods that were played. It is smaller than what was asked for if no plugin has stayed in service."""
    containers: int = 0
    """The number of containers that were created."""
    events: int = 0
    figures: Sequence[Figures] = ()
    """The answers of each plugin to each event that it is subscribed to."""
    usage: Mapping[str, Usage] = field(default_factory=dict)
    """What the processes of each launched plugin have taken, by `NN-NAME`. The start of the plugin does not count."""
    dropped: Mapping[str, str] = field(default_factory=dict)
    """Why the runtime has closed the connection of plugins, by `NN-NAME`."""
    conflicts: list[str] = field(default_factory=list)
    """The errors of events for which no single plugin is at fault: two have changed the same thing."""
    waited: float = 0
    """The seconds that all pods together have waited for NRI: for their turn and for the answers."""
    answered: float = 0
    """The seconds of these that all answers together have taken."""

    def problems(self, max_p99: float = math.inf) -> list[str]:
        """Returns what is wrong: drops, errors, conflicts, and each event whose p99 is above `max_p99` seconds."""
        found = [f"plugin {name} was dropped: {reason}" for name, reason in self.dropped.items()]
        for one in self.figures:
            if one.errors:
                found.append(
                    f"{one.plugin} {one.event}: {one.errors} of {one.answers} answers are errors, first: {one.error}"
                )
            if one.p99 > max_p99:
                limit = f"{max_p99 * 1000:g} ms"
                found.append(f"{one.plugin} {one.event}: p99 is {one.p99 * 1000:.1f} ms, more than {limit}")
        if self.conflicts:
            found.append(f"{len(self.conflicts)} events had conflicts, first: {self.conflicts[0]}")
        return found


def play(
    runtime: Runtime,
    *,
    pods: int,
    repeat: int = 1,
    rate: float = 0,
    seed: int = 0,
    life: Mapping[str, Message] | None = None,
    timeout: float | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Load:
    """Plays `repeat` rounds of `pods` pods to the plugins in service, until all are done or no plugin is left.

    A round begins with all pods at once, or with `rate` pods a second. Each pod has 0 to 10 containers. Its next event
    is queued when the one before is answered. The same seed makes the same pods; without a rate, all events come in the
    same order. `life` has the request of each event, by default those of a recorded pod: ids and names are replaced,
    and an event that it lacks is not played. Each plugin has `timeout` seconds to answer, by default those of the
    flavour. The answers of validators are not measured. `progress` is called before each event with the number of the
    pods that have begun, and of all pods.
    """
    life = recorded_life() if life is None else life
    known = {event for event in life if runtime.flavour.valid_events & events.mask([event])}
    random = Random(seed)  # noqa: S311 - the same pods again
    player = _Player(runtime, life, timeout, lambda done: progress(done, pods * repeat))
    for _ in range(repeat):  # the plan of a pod takes 5 KB
        player.round([planned(random, known) for _ in range(pods)], rate)
    return player.result()


@dataclass
class Pod:
    """A pod with the events that are to come."""

    id: str
    steps: deque[Step]

    def failed(self, step: Step, after: Collection[str]) -> None:
        """Leaves to the container of the failed event, or to the whole pod, only those events in `after`."""
        self.steps = deque(one for one in self.steps if one.event in after or step.container not in ("", one.container))


def planned(random: Random, known: set[str]) -> Pod:
    """Returns a pod with a random life of the known events."""
    return Pod(_id(random), deque(step for step in _steps(random) if step.event in known))


def _steps(random: Random) -> Iterator[Step]:
    yield Step("RunPodSandbox")
    running = []
    for number in range(random.randint(0, MAX_CONTAINERS)):
        name, id_ = f"c{number}", _id(random)
        yield from (Step(event, id_, name) for event in START)
        if random.random() < UPDATED:
            yield from (Step(event, id_, name) for event in UPDATE)
        if random.random() < RESTARTED:
            yield from (Step(event, id_, name) for event in END)
            id_ = _id(random)
            yield from (Step(event, id_, name) for event in START)
        running.append((id_, name))
    random.shuffle(running)
    yield from (Step("StopContainer", *one) for one in running)
    yield Step("StopPodSandbox")
    yield from (Step("RemoveContainer", *one) for one in running)
    yield Step("RemovePodSandbox")


def _id(random: Random) -> str:
    return f"{random.getrandbits(256):064x}"


class _Player:
    """Plays pods to the plugins that are in service at its creation, and notes what comes of it."""

    def __init__(
        self,
        runtime: Runtime,
        life: Mapping[str, Message],
        timeout: float | None,
        progress: Callable[[int], None],
    ) -> None:
        self._runtime = runtime
        self._life = life
        self._timeout = timeout or runtime.flavour.request_timeout
        self._progress = progress
        self._plugins = runtime.plugins
        self._updates = len(runtime.updates)
        self._meter, self._looked = Meter(self._plugins), time.monotonic()
        self._answers: dict[tuple[str, str], list[Answer]] = defaultdict(list)
        self._load = Load()

    def round(self, pods: Sequence[Pod], rate: float) -> None:
        """Plays the pods in the order in which their events get NRI's lock: whichever has waited longest is next."""
        order = count()
        queue = [(number / rate if rate else 0.0, next(order), pod) for number, pod in enumerate(pods)]
        free = 0.0  # when the lock is
        while queue and self._runtime.plugins:
            queued, _, pod = heappop(queue)
            if queued > free:
                self._runtime.serve(lambda: False, queued - free)
                free = queued
            step = pod.steps.popleft()
            outcome = self._event(pod, step)
            after = self._runtime.flavour.after_failure(step.event)
            if outcome.error and after is not None:
                pod.failed(step, after)
            answered = sum(answer.seconds for answer in outcome.answers)
            free += answered
            self._load.answered += answered
            self._load.waited += free - queued
            if pod.steps:
                heappush(queue, (free, next(order), pod))

    def result(self) -> Load:
        self._meter.look()
        self._load.usage = self._meter.usage
        self._load.dropped = {one.name: one.closed for one in self._plugins if one.closed}
        order = [*self._life]
        found = sorted(self._answers, key=lambda key: (key[0], order.index(key[1])))
        self._load.figures = [figures(self._answers[key], key[1], self._timeout) for key in found]
        return self._load

    def _event(self, pod: Pod, step: Step) -> Outcome:
        self._count(step)
        outcome = self._runtime.event(step.event, self._request(pod, step), self._timeout)
        del self._runtime.updates[self._updates :]  # all of them may take much memory
        for answer in outcome.answers:
            # A reply is not kept: all of them may take much memory.
            self._answers[answer.plugin, step.event].append(answer._replace(reply=None))
        if outcome.error and not any(answer.fails for answer in outcome.answers):
            self._load.conflicts.append(f"{step.event}: {outcome.error}")
        return outcome

    def _count(self, step: Step) -> None:
        self._progress(self._load.pods)
        self._load.events += 1
        self._load.pods += step.event == "RunPodSandbox"
        self._load.containers += step.event == "CreateContainer"
        if time.monotonic() - self._looked > LOOK:
            self._meter.look()
            self._looked = time.monotonic()

    def _request(self, pod: Pod, step: Step) -> Message:
        """Returns the request of the event, with the names and the ids of this pod and container."""
        request: Any = deepcopy(self._life[step.event])
        request.pod.id = request.pod.uid = pod.id
        request.pod.name += f"-{pod.id[:8]}"
        if step.container:
            container = request.container
            container.linux.cgroups_path = container.linux.cgroups_path.replace(container.id, step.container)
            container.id, container.pod_sandbox_id, container.name = step.container, pod.id, step.name
        return cast(Message, request)


def figures(answers: Sequence[Answer], event: str, timeout: float) -> Figures:
    """Returns the figures of a plugin's answers to an event, of which there is at least one."""
    ordered = sorted(answer.seconds for answer in answers)
    p50, p90, p99 = (percentile(ordered, part) for part in (50, 90, 99))
    errors = [answer.error for answer in answers if answer.fails]
    lates = sum(answer.late for answer in answers)
    share, first = p99 / timeout, errors[0] if errors else ""
    return Figures(answers[0].plugin, event, len(ordered), p50, p90, p99, ordered[-1], share, lates, len(errors), first)


def percentile(ordered: Sequence[float], part: int) -> float:
    """Returns the smallest of some ordered values that so many percent of them do not exceed."""
    return ordered[max(0, -(-part * len(ordered) // 100) - 1)]
