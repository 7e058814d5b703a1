"""`v010-adapter hooks match`: which hooks of hooks.d a container gets, and why not the others."""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TextIO

from adapter import describe, settings
from adapter.describe import Described
from adapter.errors import ConfigError
from adapter.hooks import inject, match
from adapter.hooks.directory import Directories, Problem
from adapter.hooks.file import printable
from adapter.hooks.match import Decision
from adapter.proto import nri_pb2 as api

FINE, FINDINGS, USAGE = 0, 1, 2
GAP = "  "
WIDTH, NARROW = 100, 30
"""Columns of the output, and those that its last column has in any case."""


class Outcome(NamedTuple):
    """What would happen to the container."""

    described: Described
    decisions: list[Decision]
    problems: list[Problem]
    adjustment: api.ContainerAdjustment | None

    @property
    def exit_code(self) -> int:
        """Hook files that cannot be used are findings."""
        return FINDINGS if self.problems else FINE


def main(words: Sequence[str]) -> int:
    """Runs `hooks` with these arguments; returns the exit code."""
    options = _options(words)
    logging.getLogger("adapter").addHandler(logging.NullHandler())  # what is found is shown, not logged
    try:
        outcome = _match(options)
    except ConfigError as error:
        print(f"v010-adapter: {error}", file=sys.stderr)
        return USAGE
    if options.output == "json":
        print(json.dumps(_as_json(outcome), indent=2))
    else:
        show(outcome, sys.stdout)
    return outcome.exit_code


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="v010-adapter hooks", description="OCI hooks of hooks.d directories.", allow_abbrev=False
    )
    commands = parser.add_subparsers(metavar="match", required=True)
    text = "Shows which hooks a container gets, and why not the others."
    matching = commands.add_parser(
        "match",
        help=text,
        description=text,
        epilog="FILE is JSON or YAML: a container of NRI's, a recorded event, an OCI config.json, a Kubernetes Pod.",
        allow_abbrev=False,
    )
    option = matching.add_argument
    option("-container", "--container", metavar="FILE", required=True, help="the container")
    option("-pod", "--pod", metavar="FILE", default="", help="its pod, if the container's file has none")
    option("-name", "--name", default="", help="which container, if the file has several")
    option(
        *("-directory", "--directory"),
        metavar="DIR",
        action="append",
        default=[],
        help="directory of hook files; several in order of increasing preference (those of the configuration)",
    )
    option("-config", "--config", metavar="FILE", default="", help=f"configuration ({settings.DEFAULT_PATH})")
    option("-o", dest="output", choices=("text", "json"), default="text", help="how to show it (text)")
    return parser.parse_args(words)


def _match(options: argparse.Namespace) -> Outcome:
    own, errors = settings.read(options.config)
    if errors:
        raise errors[0]
    described = describe.read(options.container, options.pod, options.name)
    for directory in options.directory:
        try:
            os.listdir(directory)
        except OSError as error:
            raise ConfigError(directory, error.strerror or str(error)) from None
    stages = own.hooks.extension_stages
    directories = Directories(
        options.directory or own.hooks.directories, own.host_root, watch=False, extension_stages=stages
    )
    matcher = directories.current()
    decisions = matcher.explain(match.facts(described.pod, described.container))
    injected = [decision.named for decision in decisions if decision.matched]
    return Outcome(described, decisions, list(directories.problems), inject.adjustment(injected))


def _as_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "hooks": [
            {
                "file": decision.named.path,
                "name": decision.named.file,
                "matched": decision.matched,
                "reason": decision.reason,
                "stages": list(decision.named.hook.stages),
            }
            for decision in outcome.decisions
        ],
        "errors": [{"file": problem.path, "error": problem.reason} for problem in outcome.problems],
        "adjustment": {"hooks": {stage: list(map(_hook, hooks)) for stage, hooks in _stages(outcome) if hooks}},
    }


def _stages(outcome: Outcome) -> list[tuple[str, Sequence[api.Hook]]]:
    """Returns what is injected, by NRI's name of the stage, in the order of a container's life."""
    hooks = (outcome.adjustment or api.ContainerAdjustment()).hooks
    return [(field.name, getattr(hooks, field.name)) for field in hooks.DESCRIPTOR.fields]


def _hook(hook: api.Hook) -> dict[str, Any]:
    """Returns a hook as Go's encoding/json and protojson both read it: numbers are numbers."""
    lists = {"args": list(hook.args), "env": list(hook.env)}
    timeout = {"timeout": {"value": hook.timeout.value}} if hook.HasField("timeout") else {}
    return {"path": hook.path, **{name: texts for name, texts in lists.items() if texts}, **timeout}


def show(outcome: Outcome, out: TextIO) -> None:
    """Writes it for people."""
    _table(_container(outcome.described), out)
    print(file=out)
    hooks = [(decision.named.file, *_verdict(decision)) for decision in outcome.decisions]
    _table([*hooks, *_bad(outcome)] or [("no hooks are there",)], out)
    print(file=out)
    injected = [
        ("" if number else _camel_case(stage), " ".join([hook.path, *hook.args[1:]]))
        for stage, hooks in _stages(outcome)
        for number, hook in enumerate(hooks)
    ]
    print("injected, in this order:" if injected else "nothing is injected", file=out)
    _table(injected, out)


def _container(described: Described) -> list[tuple[str, ...]]:
    facts = match.facts(described.pod, described.container)
    names = filter(None, (described.pod.namespace, described.pod.name, described.container.name))
    return [
        ("container", f"{'/'.join(names) or 'without a name'}, from {described.kind}"),
        ("command", facts.command or "none"),
        ("annotations", str(len(facts.annotations))),
        ("bind mounts", "yes" if facts.has_bind_mounts else "none but the runtime's"),
        *(("not known", text) for text in described.unknown),
    ]


def _verdict(decision: Decision) -> tuple[str, str]:
    stages = ", ".join(decision.named.hook.stages) or "no stage"
    return ("yes", f"{stages}: {decision.reason}") if decision.matched else ("no", decision.reason)


def _bad(outcome: Outcome) -> Iterator[tuple[str, ...]]:
    """Yields what cannot be used, with its directory where there are several."""
    paths = [decision.named.path for decision in outcome.decisions] + [problem.path for problem in outcome.problems]
    several = len(set(map(os.path.dirname, paths))) > 1
    for path, reason in outcome.problems:
        directory, name = os.path.split(path)
        yield name, "BAD", f"{reason} (in {directory})" if several else reason


def _camel_case(stage: str) -> str:
    """Returns a stage's name as hook files have it."""
    first, *others = stage.split("_")
    return first + "".join(map(str.capitalize, others))


def _table(rows: Sequence[tuple[str, ...]], out: TextIO) -> None:
    """Writes columns, of which the last takes several lines where it must."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    margin = sum(widths[:-1]) + len(GAP) * len(widths[:-1])
    for *cells, last in rows:
        head = "".join(f"{text:{width}}{GAP}" for text, width in zip(cells, widths, strict=False))
        for line in textwrap.wrap(last, max(WIDTH - margin, NARROW), break_on_hyphens=False) or [""]:
            print(printable(head + line).rstrip(), file=out)
            head = " " * margin
