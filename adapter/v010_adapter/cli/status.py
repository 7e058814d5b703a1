"""The command `status`: shows the state of running adapters."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NoReturn

from v010_adapter import settings
from v010_adapter.cli import arguments, systems, terminal
from v010_adapter.cli.arguments import PROGRAM, Parser, count
from v010_adapter.cli.terminal import show, show_json
from v010_adapter.errors import ConfigError, reason_of
from v010_adapter.host.trust import Trust
from v010_adapter.monitoring import status
from v010_adapter.monitoring.times import BOUNDS

INTERVAL = 2.0
"""Seconds between two requests with `-watch`."""
PAUSE = 0.5
"""Seconds between two requests with `-wait`."""
OTHER_SCREEN, OWN_SCREEN, CLEAR = "\033[?1049h", "\033[?1049l", "\033[H\033[J"
"""Switch a terminal to another screen, switch it back, and clear the screen."""
HEALTHY, FAULTS, NOBODY = 0, 1, 3


def parser() -> Parser:
    text = (
        "Exit codes: 0 all is well; 1 there are faults, or no adapter has joined in time; 2 unusable arguments or "
        "configuration; 3 no adapter runs."
    )
    examples = "v010-adapter status -watch\nv010-adapter status -wait 30 -o json"
    made = Parser("status", "Shows the state of running adapters.", text, examples=examples)
    text = f"the name with which the adapter registers ({PROGRAM})"
    made.flag("name", text, metavar="NAME", default=PROGRAM)
    made.flag("directory", "the state directory (/run/nri-NAME)", metavar="DIR")
    made.flag("watch", f"look again every {INTERVAL:g} s, until Ctrl-C")
    text = "first wait until an adapter has joined a runtime, for at most this time"
    made.flag("wait", text, metavar="SECONDS", type=arguments.seconds, default=0)
    return made.shared("config", "o output", "color")


def main(options: Namespace) -> int:
    if options.watch and options.wait:
        parser().error("-watch and -wait exclude each other")
    configured, errors = settings.read(options.config)
    if errors and options.config:
        raise errors[0]
    directory = options.directory or settings.state_directory(configured, options.name)
    ask = partial(_ask, directory, configured.legacy.trust)
    if options.watch:
        on_screen = options.output == "text" and sys.stdout.isatty()
        _watch(lambda height: _show(directory, ask(), options, height), on_screen=on_screen)
    end, adapters = time.monotonic() + options.wait, ask()
    with terminal.progress("waiting for an adapter that has joined a runtime, seconds") as shown:
        while not (has_joined := _has_joined(adapters)) and (rest := end - time.monotonic()) > 0:
            states = ", ".join(str(adapter.get("state", "no answer")) for adapter in adapters)
            shown(f"{options.wait - rest:.0f}", f"{options.wait:g}", states or "none runs")
            time.sleep(min(PAUSE, rest))
            adapters = ask()
    if options.wait and not has_joined:
        show(f"no adapter has joined a runtime within {options.wait:g} s", out=sys.stderr)
    code = _show(directory, adapters, options)
    return code or FAULTS if options.wait and not has_joined else code


def _has_joined(adapters: list[dict[str, Any]]) -> bool:
    return any(adapter.get("state") == "joined" for adapter in adapters)


def _watch(look: Callable[[int | None], int], *, on_screen: bool) -> NoReturn:
    """Calls `look` again and again until Ctrl-C. On a terminal, uses another screen, and then prints once more."""
    print(OTHER_SCREEN if on_screen else "", end="", flush=True)
    try:
        while True:
            print(CLEAR if on_screen else "", end="")
            look(shutil.get_terminal_size().lines - 1 if on_screen else None)
            time.sleep(INTERVAL)
    finally:
        print(OWN_SCREEN if on_screen else "", end="", flush=True)
        if on_screen:
            look(None)


def _ask(directory: str, trust: Trust) -> list[dict[str, Any]]:
    try:
        adapters = list(status.ask(directory, trust))
        if not adapters and os.path.isdir(directory) and not os.access(directory, os.W_OK):
            raise ConfigError(directory, os.strerror(errno.EROFS))
    except (OSError, ConfigError) as error:
        reason = f"{reason_of(error)}: no adapter can be asked here; the adapter's log shows its state"
        raise ConfigError(directory, reason) from None
    return adapters


def _show(directory: str, adapters: list[dict[str, Any]], options: Namespace, height: int | None = None) -> int:
    """Prints the adapters' states, as text in at most `height` lines; returns the exit code."""
    if options.output == "json":
        show_json({"directory": directory, "adapters": adapters})
    else:
        room = terminal.width(sys.stdout)
        lines = [line for adapter in adapters for line in ("", *_text(adapter, room))][1:]
        if options.watch:
            lines = [f"{_shown(time.time())}, every {INTERVAL:g} s", "", *lines]
        lines = terminal.fitted(lines, sys.stdout, terminal.LABEL)
        if height is not None and len(lines) > height:
            lines[height - 1 :] = [f"... {len(lines) - height + 1} more lines"]
        show(*lines, paint=arguments.paint(options))
    if not adapters:
        logs = ", ".join(system.log for system in systems.present("/"))
        lines = [
            f"no adapter runs with the state directory {directory}. Where to look:",
            f"  the link in {systems.PLUGINS}, or the service that starts the adapter",
            "  the adapter's log, in syslog or the journal:  journalctl -t v010-adapter",
            f"  the runtime's log: does it list the plugin?  {logs}".rstrip(),
            "  v010-adapter check",
        ]
        show(*terminal.fitted(lines, sys.stderr), out=sys.stderr)
        return NOBODY
    return FAULTS if any(adapter.get("faults") for adapter in adapters) else HEALTHY


def _text(adapter: dict[str, Any], room: int) -> list[str]:
    """Returns the lines of one adapter, which may have another version than this command."""
    try:
        notes = [f"  note     {note}" for note in adapter.get("notes", ())]
        notes += [f"  FAULT    {fault}" for fault in adapter["faults"]]
        return [*_overview(adapter), *notes, *_tables(adapter, room)] if "pid" in adapter else notes
    except (ArithmeticError, AttributeError, KeyError, OSError, TypeError, ValueError):
        running = f"v010-adapter {adapter.get('version')}, pid {adapter.get('pid')}"
        return [f"{running}: not the version of this command; `-o json` shows its state"]


def _overview(adapter: dict[str, Any]) -> Iterator[str]:
    runtime, stalls = adapter["runtime"], adapter["stalls"]
    part = "serves the events" if adapter["serves"] else "stands by: another adapter serves the events"
    if adapter["state"] != "joined":
        part = "serves no events"
    yield f"v010-adapter {adapter['version']}, pid {adapter['pid']}, since {_shown(adapter['started'])}: {part}"
    if runtime["name"]:
        yield f"  runtime  {runtime['name']} {runtime['version']} (NRI {runtime['nri']}), {adapter['state']}"
    if adapter["joins"]:
        yield f"  joined   {_shown(adapter['joined'])}, joins so far: {adapter['joins']}"
    yield f"  owed     {count(adapter['owed'], 'delete')}"
    for held in adapter["holds"]["held"]:
        yield f"  HELD     since {_shown(held['since'])}, for {held['plugin']}: {held['what']}"
    yield f"  loop     {count(stalls['count'], 'stall')}, longest turn {stalls['longest'] * 1000:.0f} ms"


def _tables(adapter: dict[str, Any], room: int) -> Iterator[str]:
    """Yields the rows of all tables, with a blank line before each. A table without rows is omitted."""
    events, programs, standby, hooks = (adapter[key] for key in ("events", "programs", "standby", "hooks"))
    yield from _table(
        ("EVENT", "ANSWERS", "LATE", "P50 ms", "P99 ms"),
        [(name, sum(one["times"]["counts"]), one["late"], *_quantiles(one)) for name, one in events.items()],
        room,
    )
    failed = {
        name: f"    FAILED {_shown(one['failed_at'])}  {one['last_error']}"
        for name, one in programs.items()
        if one["last_error"]
    }
    counts = ("runs", "failures", "late", "killed")
    yield from _table(
        ("PROGRAM", "RUNS", "FAILED", "LATE", "KILLED", "P50 ms", "P99 ms"),
        [(name, *(one[key] for key in counts), *_quantiles(one)) for name, one in programs.items()],
        room,
        failed,
    )
    off = {name: f"    off: {crew['off']}" for name, crew in standby.items() if crew["off"]}
    yield from _table(("STAND-BY", "WAITING"), [(name, crew["waiting"]) for name, crew in standby.items()], room, off)
    yield from _table(("HOOK", "CONTAINERS"), list(hooks.items()), room)


def _table(
    head: tuple[str, ...],
    rows: Sequence[tuple[object, ...]],
    room: int,
    below: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[str]:
    """Yields a table, none without rows. `below` has the line below a row, by the row's name."""
    if not rows:
        return
    yield ""
    margin = "  "
    for row, [line] in zip([head, *rows], terminal.table([head, *rows], room - len(margin)), strict=True):
        yield margin + line
        if (name := str(row[0])) in below:
            yield below[name]


def _quantiles(times: dict[str, Any]) -> Iterator[str]:
    for bound in (times["p50"], times["p99"]):
        yield "-" if bound is None else f"<{bound * 1000:g}" if bound <= BOUNDS[-1] else f">{BOUNDS[-1] * 1000:g}"


def _shown(moment: float) -> str:
    """Returns a time in seconds since the epoch in the format of RFC 3339."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))
