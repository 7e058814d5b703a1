"""`v010-adapter hooks match`: shows which hooks a container gets, and why not the others."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from nri.proto import nri_pb2 as api
from v010_adapter import container_files
from v010_adapter.cli import arguments, terminal
from v010_adapter.cli.hooks import crictl, keys
from v010_adapter.cli.hooks.explain import Decision, explain
from v010_adapter.cli.terminal import announce_if_slow, show, show_json
from v010_adapter.container_files import Described
from v010_adapter.hooks.directory import Directories
from v010_adapter.hooks.facts import Facts, facts
from v010_adapter.hooks.keys import CONTAINERD
from v010_adapter.hooks.match import (
    BIND_MOUNTS,
    Commands,
    Condition,
    Matcher,
    NamedHook,
    adjustment,
    counts,
    places,
)
from v010_adapter.hooks.model import PRECREATE, RUNTIME_STAGES
from v010_adapter.settings import Settings

UNDECIDED = 3
"""The exit code if it is unknown whether the container gets a hook."""
UNSEEN = (
    "containerd does not tell the hook the pod's annotation {}: list it in containerd's pod_annotations, "
    "or set hooks.podAnnotations"
)
VERDICTS = {True: "yes", False: "no", None: "unknown"}


class Injected(NamedTuple):
    """A hook at a stage of a container, with the number in the OCI runtime's errors; None: the container lacks it."""

    stage: str
    number: int | None
    file: str
    hook: api.Hook


class MatchResult(NamedTuple):
    """The decisions on a container, the hook files that cannot be used, and what is injected."""

    described: Described
    decisions: list[Decision]
    problems: dict[str, str]
    adjustment: api.ContainerAdjustment
    injected: list[Injected]
    matcher: Matcher


def described(options: Namespace) -> Described | None:
    """Returns the container that the arguments name; None, after a message, if crictl is needed and missing."""
    if not options.id:
        return container_files.read(options.container, options.pod, options.name, options.command)
    if crictl.is_there():
        return crictl.inspect(options.id)
    show(f"{crictl.CRICTL} is not in PATH. Where it is, these commands show the container and its pod:", out=sys.stderr)
    show(*(f"  {line}" for line in crictl.commands(options.id)), out=sys.stderr)
    return None


def show_match(config: Settings, directories: Directories, described: Described, options: Namespace) -> int:
    """Prints which hooks the container gets; returns the exit code."""
    result = _match(config, directories, described)
    if options.output == "json":
        show_json(_as_json(result))
    else:
        show(*terminal.fitted(_as_text(result), sys.stdout), paint=arguments.paint(options))
    if result.problems:
        return arguments.FINDINGS
    return UNDECIDED if any(one.matched is None for one in result.decisions) else arguments.FINE


def _match(config: Settings, directories: Directories, described: Described) -> MatchResult:
    known = facts(described.pod, described.container)
    with announce_if_slow("reading the hook files"):
        matcher = directories.current()
        decisions = [_without_namespace(one, known) for one in explain(matcher, known, partial(_unknown, described))]
    matching = [decision.named for decision in decisions if decision.matched]
    adjusted = adjustment(matching, directories.journal) or api.ContainerAdjustment()
    injected = _injected(matching, adjusted, described)
    if config.hooks.pod_annotations:
        deciding = matcher.deciding(matching, known.annotations)
        adjusted.annotations.update({key: deciding[key] for key in deciding.keys() - described.container.annotations})
    return MatchResult(described, decisions, directories.problems, adjusted, injected, matcher)


def _without_namespace(decision: Decision, known: Facts) -> Decision:
    """Returns the decision on a hook for a container whose pod's namespace may be unknown."""
    if not decision.matched or not decision.named.not_in or known.namespace:
        return decision
    return decision._replace(matched=None, reason="the pod's namespace is not known (-pod FILE has it)")


def _injected(matching: Sequence[NamedHook], adjusted: api.ContainerAdjustment, described: Described) -> list[Injected]:
    """Returns the hooks that are injected. If the container has some of them already, their numbers are those there."""
    own = described.container.hooks
    messages = [message for field in RUNTIME_STAGES for message in getattr(adjusted.hooks, field)]
    there = list(_numbers_in(own, adjusted.hooks)) if described.spec is not None else []
    has_some = any(number is not None for number in there)
    return [
        Injected(place.stage, there[index] if has_some else place.number, place.file, message)
        for index, (place, message) in enumerate(zip(places(matching, counts(own)), messages, strict=True))
    ]


def _lacks_all(result: MatchResult) -> bool:
    """Whether the container exists, and has none of the hooks."""
    described = result.described
    exists = bool(described.container.id) and described.spec is not None
    return exists and all(one is None for one in _numbers_in(described.container.hooks, result.adjustment.hooks))


def _numbers_in(own: api.Hooks, injected: api.Hooks) -> Iterator[int | None]:
    """Yields the number of each injected hook among a container's own hooks, None if it is not among them."""
    for field in RUNTIME_STAGES:
        listed, start = list(getattr(own, field)), 0
        for message in getattr(injected, field):
            number = next((number for number in range(start, len(listed)) if listed[number] == message), None)
            start = start if number is None else number + 1
            yield number


def _unknown(described: Described, condition: Condition) -> str:
    """Returns why it is unknown whether a condition holds, empty if it is known."""
    if isinstance(condition, Commands):
        return "" if described.command_is_known else "the image decides on the command (-command sets it)"
    if condition == BIND_MOUNTS and container_files.ADDED_VOLUME in described.unknown:
        return "Kubernetes may add the volume of the service account's token"
    if isinstance(condition, tuple) and container_files.PODS_ANNOTATIONS in described.unknown:
        return "the pod's annotations are not known (-pod FILE has them)"
    if isinstance(condition, tuple) and container_files.ADDED_ANNOTATIONS in described.unknown:
        return "the kubelet or the runtime may add such an annotation" if keys.may_be_added(condition[0]) else ""
    return ""


def _hint(result: MatchResult, decision: Decision) -> str:
    """Returns a hint if a hook's condition has another runtime's annotation, or one that the hook does not see."""
    container, hook = result.described.container, decision.named.hook
    runtimes = keys.runtimes_of(container.annotations)
    if not decision.matched:
        hints = (keys.foreign(pattern, runtimes) for pattern, _ in hook.when.annotations)
        return next(filter(None, hints), "")
    seen = {*container.annotations, *result.adjustment.annotations}
    deciding = result.matcher.deciding([decision.named], facts(result.described.pod, container).annotations)
    unseen = [key for key in deciding if key not in seen]
    return UNSEEN.format(min(unseen)) if unseen and CONTAINERD in runtimes else ""


def _as_json(result: MatchResult) -> dict[str, Any]:
    hooks = [
        {
            "file": decision.named.path,
            "name": decision.named.file,
            "matched": decision.matched,
            "reason": decision.reason,
            "stages": list(decision.named.hook.stages),
            "places": [{"stage": one.stage, "number": one.number} for one in result.injected if one.file == name],
            **({"hint": hint} if (hint := _hint(result, decision)) else {}),
        }
        for decision in result.decisions
        for name in [decision.named.file]
    ]
    errors = [{"file": path, "error": reason} for path, reason in result.problems.items()]
    injected = {field.name: list(map(_hook, hooks)) for field, hooks in result.adjustment.hooks.ListFields()}
    added = {"annotations": texts} if (texts := dict(result.adjustment.annotations)) else {}
    unknown = list(result.described.unknown)
    return {"hooks": hooks, "errors": errors, "unknown": unknown, "adjustment": {"hooks": injected, **added}}


def _hook(hook: api.Hook) -> dict[str, Any]:
    """Returns a hook in a form that both Go's encoding/json and protojson can read: numbers are numbers."""
    lists = {"args": list(hook.args), "env": list(hook.env)}
    timeout = {"timeout": {"value": hook.timeout.value}} if hook.HasField("timeout") else {}
    return {"path": hook.path, **{name: texts for name, texts in lists.items() if texts}, **timeout}


def _as_text(result: MatchResult) -> Iterator[str]:
    described, decisions, problems, adjustment, injected, _ = result
    known = facts(described.pod, described.container)
    yield f"container    {described.name or 'without a name'}, from {described.kind}"
    yield f"command      {known.command or ('none' if described.command_is_known else 'unknown: the image decides')}"
    yield f"annotations  {len(known.annotations)}"
    yield f"bind mounts  {'yes' if known.has_bind_mounts else 'none but those of the runtime'}"
    yield from (f"not known    {unknown}" for unknown in described.unknown)
    yield ""
    verdicts = list[tuple[str, str, str]]()
    for decision in decisions:
        named, matched, reason = decision
        stages = f"{', '.join(named.hook.stages) or 'no stage'}: " if matched else ""
        verdicts.append((VERDICTS[matched], named.file, f"{stages}{reason}"))
        if hint := _hint(result, decision):
            verdicts.append(("", "", hint))
    yield from _table(verdicts)
    yield from (f"BAD  {path}: {reason}" for path, reason in problems.items())
    if not decisions and not problems:
        yield "there are no hooks"
    yield ""
    run = [one.named for one in decisions if one.matched and PRECREATE in one.named.hook.stages]
    if not injected and not run:
        yield "nothing is injected"
    if injected and _lacks_all(result):
        yield "the container lacks these hooks: it is older than they are, or was created without the adapter"
    rows = [(_label(one), one.file, [one.hook.path, *one.hook.args[1:]]) for one in injected]
    yield from _rows("injected, in this order:", rows)
    rows = [(PRECREATE, named.file, [named.hook.path, *named.hook.args[1:]]) for named in run]
    yield from _rows("run before the creation, in this order:", rows)
    yield from (f"annotation  {key}: {text}" for key, text in adjustment.annotations.items())


def _label(one: Injected) -> str:
    return f"{one.stage} (not in the container)" if one.number is None else f"{one.stage} #{one.number}"


def _rows(title: str, rows: Sequence[tuple[str, str, list[str]]]) -> Iterator[str]:
    yield from [title] if rows else ()
    yield from _table([(label, file, " ".join(line)) for label, file, line in rows])


def _table(rows: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    for lines in terminal.table(rows, terminal.width(sys.stdout), names=2, text=True, has_head=False):
        yield from lines
