"""Situations that are events of pods and containers: as usual, with unusual content, and in unusual order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from typing import Any

from google.protobuf.message import Message

from nri import api
from nri.errors import CallError
from nri.events import Call as Method
from nri.testing.contract import requests
from nri.testing.contract.adjusting import judged
from nri.testing.contract.requests import HIGHEST, Call, named, of_container
from nri.testing.contract.rules import Finding, does_not_apply, fails, holds
from nri.testing.contract.starts import Bench
from nri.testing.contract.watched import Watched, shown
from nri.testing.plugin import Lost
from nri.wire import Code

FUTURE = Method("FutureEvent", "", 0, api.Empty, api.Empty)
"""A call that no version of NRI has."""


def usual(bench: Bench) -> Iterator[Finding]:
    """The life of a pod with one container."""
    with bench.joined() as plugin:
        changes: list[Finding] = []
        has_sent, created = False, api.CreateContainerResponse()
        for method, request in bench.of_plugin(_with_time(bench, plugin)):
            is_validation = isinstance(request, api.ValidateContainerAdjustmentRequest)
            sent = _of_answer(request, created) if is_validation else request
            came, has_sent = plugin.ask(method, sent), True
            if wrong := _wrong(method, came):
                yield fails("answers-events", f"{method} {shown(sent)}", wrong)
                return
            if isinstance(came, CallError):
                bench.refused_usually.add(method)
            if isinstance(came, Message):
                changes += judged(plugin, bench.flavour, method, sent, came)
            if isinstance(came, api.CreateContainerResponse):
                created = came
        yield held("answers-events", has_sent=has_sent)
        yield from changes
    bench.is_sound = True


def _with_time(bench: Bench, plugin: Watched) -> Iterator[Call]:
    """Yields the life of a pod. While its container runs, a timer of the plugin gets time for an update."""
    for method, request in bench.life:
        if method == "StopContainer":
            plugin.wait_for_update(bench.timer)
        yield method, request


def _wrong(method: str, came: Message | CallError | Lost) -> str:
    """Returns what is wrong with the outcome of an event, empty for a reply and for a refusal."""
    undecodable = f"undecodable {method}Response", "undecodable Empty"  # the reply to StateChange is an Empty
    is_undecodable = isinstance(came, CallError) and came.message.startswith(undecodable)
    is_unimplemented = isinstance(came, CallError) and came.code == Code.UNIMPLEMENTED
    return shown(came) if is_undecodable or is_unimplemented or isinstance(came, Lost) else ""


def _of_answer(validation: Message, created: api.CreateContainerResponse) -> api.ValidateContainerAdjustmentRequest:
    """Returns the validation of the plugin's own answer to CreateContainer."""
    made = api.ValidateContainerAdjustmentRequest.FromString(validation.SerializeToString())
    made.adjust.CopyFrom(created.adjust)
    made.update.extend(created.update)
    return made


def unknown_call(bench: Bench) -> Iterator[Finding]:
    """A runtime that is newer than the plugin makes a call."""
    with bench.joined() as plugin:
        came = plugin.call(FUTURE, api.Empty())
    if isinstance(came, CallError) and came.code == Code.UNIMPLEMENTED:
        yield holds("unknown-call")
    else:
        yield fails("unknown-call", "FutureEvent {}", shown(came))


def unknown_fields(bench: Bench) -> Iterator[Finding]:
    """A runtime that is newer than the plugin sends more fields."""
    with bench.joined() as plugin:
        yield from _survives(bench, plugin, "unknown-fields", requests.newer(bench.life), takes_refusals=False)


def _survives(
    bench: Bench, plugin: Watched, rule: str, calls: Iterable[Call], *, takes_refusals: bool = True
) -> Iterator[Finding]:
    """Relays events. The rule fails with the connection, and with a new refusal unless that is taken."""
    has_sent = False
    for method, request in bench.of_plugin(calls):
        came, has_sent = plugin.ask(method, request), True
        is_refusal = isinstance(came, CallError) and method not in bench.refused_usually
        if isinstance(came, Lost) or (is_refusal and not takes_refusals):
            yield fails(rule, f"{method} {shown(request)}", shown(came))
            return
    yield held(rule, has_sent=has_sent)


def held(rule: str, *, has_sent: bool) -> Finding:
    """Returns the verdict by a rule that nothing has broken."""
    return holds(rule) if has_sent else does_not_apply(rule, "the plugin is not subscribed to the events")


def _situation(
    rule: str, calls: Callable[[list[Call]], Iterable[Call]], *, runtime: str = ""
) -> Callable[[Bench], Iterator[Finding]]:
    """Returns a situation: the events that are made of the usual ones. It may be one of a certain runtime only."""

    def play(bench: Bench) -> Iterator[Finding]:
        if runtime not in ("", bench.flavour.name):
            yield does_not_apply(rule, f"{bench.flavour.name} does not do that")
            return
        with bench.joined() as plugin:
            yield from _survives(bench, plugin, rule, calls(bench.life))

    return play


def _picked(calls: list[Call], *methods: str) -> list[Call]:
    """Returns usual events in another order."""
    found = dict(calls)
    return [(method, found[method]) for method in methods if method in found]


def _extremes(calls: list[Call]) -> Iterator[Call]:
    for number, name in ((HIGHEST, "highest"), (0, "zero")):
        yield from named(requests.extreme(calls, number), name)


def _failed_create(calls: list[Call]) -> list[Call]:
    first = _picked(calls, "CreateContainer", "StopContainer", "RemoveContainer")
    return named(first, "failed") + named(of_container(calls), "again")


def _stop_after_pod(calls: list[Call]) -> Iterator[Call]:
    before = "RunPodSandbox", "CreateContainer", "PostCreateContainer", "StartContainer", "PostStartContainer"
    yield from _picked(calls, *before, "StopPodSandbox")
    for method, request in _picked(calls, "StopContainer"):
        stop: Any = deepcopy(request)
        stop.pod.CopyFrom(api.PodSandbox(id=stop.pod.id))
        stop.pod.linux.SetInParent()
        yield method, stop


def _interleaved(calls: list[Call]) -> Iterator[Call]:
    yield from _picked(calls, "RunPodSandbox")
    for first, second in zip(named(of_container(calls), "one"), named(of_container(calls), "two"), strict=True):
        yield from (first, second)
    yield from _picked(calls, "StopPodSandbox", "RemovePodSandbox")


def _repeated_stop(calls: list[Call]) -> list[Call]:
    return _picked(calls, "RunPodSandbox", "StopPodSandbox", "StopPodSandbox", "RemovePodSandbox")


_CALLS: dict[str, Callable[[list[Call]], Iterable[Call]]] = {
    "sparse-messages": requests.sparse,
    "extreme-values": _extremes,
    "large-message": lambda calls: named(requests.large(calls), "large"),
    "failed-create": _failed_create,
    "stop-after-pod": _stop_after_pod,
    "repeated-stop": _repeated_stop,
    "unknown-container": lambda calls: named(_picked(calls, "RemoveContainer"), "unknown"),
    "interleaved-containers": _interleaved,
}
_RUNTIMES = {"repeated-stop": "cri-o"}
UNUSUAL = {rule: _situation(rule, calls, runtime=_RUNTIMES.get(rule, "")) for rule, calls in _CALLS.items()}
"""Situations in which a plugin only has to stay connected, by their rules."""


def refused_updates(bench: Bench) -> Iterator[Finding]:
    """The runtime answers the plugin's own UpdateContainers with an error."""
    if not bench.has_updated:
        return
    with bench.joined() as plugin:
        plugin.refuses_updates = True
        yield from _survives(bench, plugin, "refused-updates", _with_time(bench, plugin))
        if isinstance(plugin.call(FUTURE, api.Empty()), Lost):
            yield fails(
                "refused-updates", "UpdateContainers: error 2: NRI update of some containers failed", plugin.closed
            )
