"""`v010-adapter hooks match`: shows which hooks a container gets, and why not the others."""

from __future__ import annotations

import logging
import os
from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from nri.proto import nri_pb2 as api
from v010_adapter import container_files, settings
from v010_adapter.cli import arguments
from v010_adapter.cli.arguments import Parser
from v010_adapter.cli.terminal import announce_if_slow
from v010_adapter.container_files import Described
from v010_adapter.errors import ConfigError
from v010_adapter.hooks import keys
from v010_adapter.hooks.directory import Directories
from v010_adapter.hooks.facts import facts
from v010_adapter.hooks.match import BIND_MOUNTS, Commands, Condition, Decision, Matcher, adjustment
from v010_adapter.hooks.model import PRECREATE
from v010_adapter.monitoring.sanitize import show, show_json

UNDECIDED = 3
"""The exit code if it is unknown whether the container gets a hook."""
UNSEEN = (
    "containerd does not tell the hook the pod's annotation {}: list it in containerd's pod_annotations, "
    "or set hooks.podAnnotations"
)
VERDICTS = {True: "yes", False: "no", None: "unknown"}


class MatchResult(NamedTuple):
    """The decisions on a container, the hook files that cannot be used, and the adjustment."""

    described: Described
    decisions: list[Decision]
    problems: dict[str, str]
    adjustment: api.ContainerAdjustment
    matcher: Matcher


def main(options: Namespace) -> int:
    logging.getLogger("v010_adapter").addHandler(logging.NullHandler())  # problems are in the output
    result = _match(options)
    if options.output == "json":
        show_json(_as_json(result))
    else:
        show(*_as_text(result), paint=arguments.paint(options))
    if result.problems:
        return arguments.FINDINGS
    return UNDECIDED if any(one.matched is None for one in result.decisions) else arguments.FINE


def parser() -> Parser:
    made = Parser(
        "hooks",
        "Shows which hooks a container gets, and why not the others.",
        f"{container_files.FORMS} Exit codes: 0 every hook is decided, 1 a hook file cannot be used, 2 unusable "
        f"arguments, {UNDECIDED} a hook is undecided.",
    )
    made.usage = "v010-adapter hooks match [-h] -container FILE [OPTION ...]"
    made.add_argument("match", choices=["match"], metavar="match", help="the only subcommand")
    made.flag("container", "the file with the container", metavar="FILE", required=True)
    made.shared("pod", "name", "command")
    text = "a directory of hook files; may be repeated, later ones override (those of the configuration)"
    made.flag("directory", text, metavar="DIR", action="append", default=[])
    return made.shared("config", "o output", "color")


def _match(options: Namespace) -> MatchResult:
    config, errors = settings.read(options.config)
    if errors:
        raise errors[0]
    described = container_files.read(options.container, options.pod, options.name, options.command)
    for directory in options.directory:
        try:
            os.listdir(directory)
        except OSError as error:
            raise ConfigError(directory, error.strerror or str(error)) from None
    places = tuple(options.directory) or config.hooks.directories
    directories = Directories(config.hooks._replace(directories=places, watch=False), config.host_root)
    known = facts(described.pod, described.container)
    with announce_if_slow("reading the hook files"):
        matcher = directories.current()
        decisions = matcher.explain(known, partial(_unknown, described))
    matching = [decision.named for decision in decisions if decision.matched]
    adjusted = adjustment(matching) or api.ContainerAdjustment()
    if config.hooks.pod_annotations:
        deciding = matcher.deciding(matching, known.annotations)
        adjusted.annotations.update({key: deciding[key] for key in deciding.keys() - described.container.annotations})
    return MatchResult(described, decisions, directories.problems, adjusted, matcher)


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
    return UNSEEN.format(min(unseen)) if unseen and keys.CONTAINERD in runtimes else ""


def _as_json(result: MatchResult) -> dict[str, Any]:
    hooks = [
        {
            "file": decision.named.path,
            "name": decision.named.file,
            "matched": decision.matched,
            "reason": decision.reason,
            "stages": list(decision.named.hook.stages),
            **({"hint": hint} if (hint := _hint(result, decision)) else {}),
        }
        for decision in result.decisions
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
    described, decisions, problems, adjustment, _ = result
    known = facts(described.pod, described.container)
    yield f"container    {described.name or 'without a name'}, from {described.kind}"
    yield f"command      {known.command or ('none' if described.command_is_known else 'unknown: the image decides')}"
    yield f"annotations  {len(known.annotations)}"
    yield f"bind mounts  {'yes' if known.has_bind_mounts else 'none but those of the runtime'}"
    yield from (f"not known    {unknown}" for unknown in described.unknown)
    yield ""
    width = max((len(one.named.file) for one in decisions), default=0)
    verdicts = max([3, *(len(VERDICTS[one.matched]) for one in decisions)])
    for decision in decisions:
        named, matched, reason = decision
        stages = f"{', '.join(named.hook.stages) or 'no stage'}: " if matched else ""
        yield f"{VERDICTS[matched]:{verdicts}}  {named.file:{width}}  {stages}{reason}"
        if hint := _hint(result, decision):
            yield f"{'':{verdicts}}  {'':{width}}  {hint}"
    yield from (f"{'BAD':{verdicts}}  {path}: {reason}" for path, reason in problems.items())
    if not decisions and not problems:
        yield "there are no hooks"
    yield ""
    injected = [(field.json_name, hook) for field, hooks in adjustment.hooks.ListFields() for hook in hooks]
    run = [one.named.hook for one in decisions if one.matched and PRECREATE in one.named.hook.stages]
    if not injected and not run:
        yield "nothing is injected"
    for text, found in (("injected", injected), ("run before the creation", [(PRECREATE, hook) for hook in run])):
        if found:
            yield f"{text}, in this order:"
        yield from (f"{stage:15}  {' '.join([hook.path, *hook.args[1:]])}" for stage, hook in found)
    yield from (f"{'annotation':15}  {key}: {text}" for key, text in adjustment.annotations.items())
