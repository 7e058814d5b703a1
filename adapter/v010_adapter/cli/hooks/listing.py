"""`v010-adapter hooks list`: shows the hooks in force, and how many containers got them."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from v010_adapter import settings
from v010_adapter.cli import arguments, terminal
from v010_adapter.cli.arguments import PROGRAM
from v010_adapter.cli.hooks.explain import awaited
from v010_adapter.cli.terminal import announce_if_slow, show, show_json
from v010_adapter.errors import ConfigError
from v010_adapter.hooks.directory import Directories
from v010_adapter.hooks.match import Rule
from v010_adapter.monitoring import status
from v010_adapter.settings import Settings

HEAD = ("FILE", "CONTAINERS", "LIMIT", "STAGES", "WAITS FOR")


def show_hooks(config: Settings, directories: Directories, options: Namespace) -> int:
    """Prints the hooks; returns the exit code."""
    with announce_if_slow("reading the hook files"):
        rules = directories.current().rules
    injected, reason = _injected(config)
    if options.output == "json":
        show_json(_as_json(rules, directories.problems, injected))
    else:
        lines = list(_as_text(config, rules, directories.problems, injected))
        if reason:
            lines += ["", f"the number of containers is not known: {reason}"]
        show(*terminal.fitted(lines, sys.stdout), paint=arguments.paint(options))
    return arguments.FINDINGS if directories.problems else arguments.FINE


def _injected(config: Settings) -> tuple[Counter[str] | None, str]:
    """Returns the number of containers by the hook's file since the adapters' start; or None, and why."""
    directory = settings.state_directory(config, PROGRAM)
    try:
        adapters = list(status.ask(directory, config.hooks.trust))
    except (OSError, ConfigError) as error:
        return None, str(error)
    if not adapters:
        return None, f"no adapter runs with the state directory {directory}"
    found = Counter[str]()
    for adapter in adapters:
        found.update(adapter.get("hooks", {}))
    return found, ""


def _as_json(rules: Sequence[Rule], problems: dict[str, str], injected: Counter[str] | None) -> dict[str, Any]:
    listed = [
        {
            "file": named.path,
            "name": named.file,
            "containers": injected.get(named.path) if injected is not None else None,
            "timeout": named.timeout,
            "stages": list(named.hook.stages),
            "path": named.hook.path,
            "waitsFor": awaited(rule),
            "notIn": sorted(named.not_in),
        }
        for rule in rules
        for named in [rule.named]
    ]
    return {"hooks": listed, "errors": [{"file": path, "error": reason} for path, reason in problems.items()]}


def _as_text(
    config: Settings, rules: Sequence[Rule], problems: dict[str, str], injected: Counter[str] | None
) -> Iterator[str]:
    if config.hooks.enabled is False:
        yield "hooks are switched off (hooks.enabled)"
    rows = [_row(rule, injected) for rule in rules]
    table = terminal.table([HEAD, *rows], terminal.width(sys.stdout), names=len(HEAD), text=True) if rows else ()
    yield from (line for lines in table for line in lines)
    yield from (f"BAD  {path}: {reason}" for path, reason in problems.items())
    if not rules and not problems:
        yield "there are no hooks"


def _row(rule: Rule, injected: Counter[str] | None) -> tuple[str, ...]:
    named = rule.named
    number = injected.get(named.path) if injected is not None else None
    limit = f"{named.timeout} s" if named.timeout else "none"
    vetoed = f"; not in {', '.join(sorted(named.not_in))}" if named.not_in else ""
    containers = "-" if number is None else str(number)
    return named.file, containers, limit, ", ".join(named.hook.stages) or "no stage", awaited(rule) + vetoed
