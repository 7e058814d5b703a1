"""`v010-adapter hooks match`: shows which hooks a container gets, and why not the others."""

from __future__ import annotations

import logging
import os
from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from adapter import container_files, settings
from adapter.base.sanitize import show, show_json
from adapter.cli import arguments
from adapter.cli.arguments import Parser
from adapter.cli.terminal import announce_if_slow
from adapter.container_files import Described
from adapter.errors import ConfigError
from adapter.hooks import keys
from adapter.hooks.directory import Directories
from adapter.hooks.facts import facts
from adapter.hooks.match import Commands, Condition, Decision, adjustment
from adapter.proto import nri_pb2 as api

UNDECIDED = 3
"""The exit code if it is unknown whether the container gets a hook."""
VERDICTS = {True: "yes", False: "no", None: "unknown"}


class MatchResult(NamedTuple):
    """The decisions on a container, the hook files that cannot be used, and the adjustment."""

    described: Described
    decisions: list[Decision]
    problems: dict[str, str]
    adjustment: api.ContainerAdjustment


def main(options: Namespace) -> int:
    logging.getLogger("adapter").addHandler(logging.NullHandler())  # problems are in the output
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
        decisions = directories.current().explain(known, partial(_unknown, described))
    injected = adjustment(decision.named for decision in decisions if decision.matched)
    return MatchResult(described, decisions, directories.problems, injected or api.ContainerAdjustment())


def _unknown(described: Described, condition: Condition) -> str:
    """Returns why it is unknown whether a condition holds, empty if it is known."""
    if isinstance(condition, Commands):
        return "" if described.command_is_known else "the image decides on the command (-command sets it)"
    if isinstance(condition, tuple) and container_files.PODS_ANNOTATIONS in described.unknown:
        return "the pod's annotations are not known (-pod FILE has them)"
    if isinstance(condition, tuple) and container_files.ADDED_ANNOTATIONS in described.unknown:
        return "the kubelet or the runtime may add such an annotation" if keys.may_be_added(condition[0]) else ""
    return ""


def _hint(described: Described, decision: Decision) -> str:
    """Returns a hint if a hook's condition has an annotation of another runtime, else an empty text."""
    runtimes = keys.runtimes_of(described.container.annotations)
    patterns = () if decision.matched else (key for key, _ in decision.named.hook.when.annotations)
    return next((hint for pattern in patterns if (hint := keys.foreign(pattern, runtimes))), "")


def _as_json(result: MatchResult) -> dict[str, Any]:
    hooks = [
        {
            "file": decision.named.path,
            "name": decision.named.file,
            "matched": decision.matched,
            "reason": decision.reason,
            "stages": list(decision.named.hook.stages),
            **({"hint": hint} if (hint := _hint(result.described, decision)) else {}),
        }
        for decision in result.decisions
    ]
    errors = [{"file": path, "error": reason} for path, reason in result.problems.items()]
    injected = {field.name: list(map(_hook, hooks)) for field, hooks in result.adjustment.hooks.ListFields()}
    unknown = list(result.described.unknown)
    return {"hooks": hooks, "errors": errors, "unknown": unknown, "adjustment": {"hooks": injected}}


def _hook(hook: api.Hook) -> dict[str, Any]:
    """Returns a hook in a form that both Go's encoding/json and protojson can read: numbers are numbers."""
    lists = {"args": list(hook.args), "env": list(hook.env)}
    timeout = {"timeout": {"value": hook.timeout.value}} if hook.HasField("timeout") else {}
    return {"path": hook.path, **{name: texts for name, texts in lists.items() if texts}, **timeout}


def _as_text(result: MatchResult) -> Iterator[str]:
    described, decisions, problems, adjustment = result
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
        if hint := _hint(described, decision):
            yield f"{'':{verdicts}}  {'':{width}}  {hint}"
    yield from (f"{'BAD':{verdicts}}  {path}: {reason}" for path, reason in problems.items())
    if not decisions and not problems:
        yield "there are no hooks"
    yield ""
    injected = adjustment.hooks.ListFields()
    yield "injected, in this order:" if injected else "nothing is injected"
    for field, hooks in injected:
        yield from (f"{field.json_name:15}  {' '.join([hook.path, *hook.args[1:]])}" for hook in hooks)
