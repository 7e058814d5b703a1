"""The command `status`: shows the state of running adapters."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import time
from argparse import ArgumentParser, Namespace
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NoReturn

from adapter import settings
from adapter.base.sanitize import show, show_json
from adapter.base.times import BOUNDS
from adapter.cli import arguments
from adapter.cli.arguments import count
from adapter.cli.progress import announce_if_slow
from adapter.errors import ConfigError, reason_of
from adapter.host.trust import Trust
from adapter.monitoring import status

INTERVAL = 2.0
"""Seconds between two requests with `-watch`."""
PAUSE = 0.5
"""Seconds between two requests with `-wait`."""
OTHER_SCREEN, OWN_SCREEN, CLEAR = "\033[?1049h", "\033[?1049l", "\033[H\033[J"
"""Switch a terminal to another screen, switch it back, and clear the screen."""
HEALTHY, FAULTS, NOBODY = 0, 1, 3


def parser() -> ArgumentParser:
    """Returns the parser of the command's arguments."""
    text = (
        "Exit codes: 0 all is well; 1 there are faults, or no adapter has joined in time; 2 unusable arguments or "
        "configuration; 3 no adapter runs."
    )
    parser = arguments.parser("status", "Shows the state of running adapters.", text)
    option = parser.add_argument
    option("-name", "--name", default="v010-adapter", help="the name with which the adapter registers (v010-adapter)")
    option("-directory", "--directory", metavar="DIR", default="", help="the state directory (/run/nri-NAME)")
    how_often = parser.add_mutually_exclusive_group().add_argument
    how_often("-watch", "--watch", action="store_true", help=f"look again every {INTERVAL:g} s, until Ctrl-C")
    wait = "first wait until an adapter has joined a runtime, for at most this time"
    how_often("-wait", "--wait", metavar="SECONDS", type=arguments.seconds, default=0, help=wait)
    arguments.add_config(parser)
    arguments.add_output(parser)
    arguments.add_color(parser)
    return parser


def main(words: Sequence[str]) -> int:
    """Runs the command; returns 0 if all is well, 1 if there are faults, 3 if no adapter runs. Raises ConfigError."""
    options = parser().parse_args(words)
    configured, errors = settings.read(options.config)
    if errors and options.config:
        raise errors[0]
    directory = options.directory or settings.state_directory(configured, options.name)
    ask = partial(_ask, directory, configured.legacy.trust)
    if options.watch:
        _watch(
            lambda height: _show(directory, ask(), options, height),
            on_screen=options.output == "text" and sys.stdout.isatty(),
        )
    adapters, is_in_time = _wait_until_joined(ask, options.wait)
    code = _show(directory, adapters, options)
    return code if is_in_time else code or FAULTS


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


def _wait_until_joined(ask: Callable[[], list[dict[str, Any]]], seconds: float) -> tuple[list[dict[str, Any]], bool]:
    """Returns the adapters' states, and whether one has joined within `seconds`. With 0, it does not wait.

    Raises ConfigError.
    """
    end = time.monotonic() + seconds
    with announce_if_slow("waiting for an adapter that has joined a runtime"):
        while True:
            adapters = ask()
            if not seconds or any(adapter.get("state") == "joined" for adapter in adapters):
                return adapters, True
            rest = end - time.monotonic()
            if rest <= 0:
                break
            time.sleep(min(PAUSE, rest))
    show(f"no adapter has joined a runtime within {seconds:g} s", out=sys.stderr)
    return adapters, False


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
        lines = [line for adapter in adapters for line in ("", *_text(adapter))][1:]
        if options.watch:
            lines = [f"{_shown(time.time())}, every {INTERVAL:g} s", "", *lines]
        if height is not None and len(lines) > height:
            lines[height - 1 :] = [f"... {len(lines) - height + 1} more lines"]
        show(*lines, paint=arguments.paint(options))
    if not adapters:
        _say_where_to_look(directory)
        return NOBODY
    return FAULTS if any(adapter.get("faults") for adapter in adapters) else HEALTHY


def _say_where_to_look(directory: str) -> None:
    show(
        f"no adapter runs with the state directory {directory}. Where to look:",
        "  the link in /opt/nri/plugins, or the service that starts the adapter",
        "  the adapter's log, in syslog or the journal:  journalctl -t v010-adapter",
        "  the runtime's log: does it list the plugin?",
        "  v010-adapter check",
        out=sys.stderr,
    )


def _text(adapter: dict[str, Any]) -> list[str]:
    """Returns the lines of one adapter, which may have another version than this command."""
    try:
        return list(_lines(adapter))
    except (ArithmeticError, AttributeError, KeyError, OSError, TypeError, ValueError):
        running = f"v010-adapter {adapter.get('version')}, pid {adapter.get('pid')}"
        return [f"{running}: not the version of this command; `-o json` shows its state"]


def _lines(adapter: dict[str, Any]) -> Iterator[str]:
    if "pid" in adapter:
        yield from _overview(adapter)
    yield from (f"  note     {note}" for note in adapter.get("notes", ()))
    yield from (f"  FAULT    {fault}" for fault in adapter["faults"])
    if "pid" in adapter:
        yield from _tables(adapter)


def _overview(adapter: dict[str, Any]) -> Iterator[str]:
    runtime, stalls = adapter["runtime"], adapter["stalls"]
    part = "serves the events" if adapter["owner"] else "waits: another adapter serves the events"
    if adapter["state"] != "joined":
        part = "serves no events"
    yield f"v010-adapter {adapter['version']}, pid {adapter['pid']}, since {_shown(adapter['started'])}: {part}"
    if runtime["name"]:
        yield f"  runtime  {runtime['name']} {runtime['version']} (NRI {runtime['nri']}), {adapter['state']}"
    if adapter["joins"]:
        yield f"  joined   {_shown(adapter['joined'])}, joins so far: {adapter['joins']}"
    yield f"  owed     {count(adapter['owed'], 'delete')}"
    yield f"  loop     {count(stalls['count'], 'stall')}, longest turn {stalls['longest'] * 1000:.0f} ms"


def _tables(adapter: dict[str, Any]) -> Iterator[str]:
    """Yields the rows of all tables, with a blank line before each. A table without rows is omitted."""
    tables = {
        ("EVENT", "ANSWERS", "", "LATE", "", "P50 ms", "P99 ms"): _events(adapter["events"]),
        ("PROGRAM", "RUNS", "FAILED", "LATE", "KILLED", "P50 ms", "P99 ms"): _programs(adapter["programs"]),
        ("STAND-BY", "WAITING"): _standby(adapter["standby"]),
        ("HOOK", "CONTAINERS"): [_row(file, f"{number:10}") for file, number in adapter["hooks"].items()],
    }
    for head, rows in tables.items():
        yield from ("", _row(*head), *rows) if (rows := list(rows)) else ()


def _events(events: dict[str, Any]) -> Iterator[str]:
    for name, event in events.items():
        yield _row(name, sum(event["times"]["counts"]), "", event["late"], "", *_quantiles(event))


def _programs(programs: dict[str, Any]) -> Iterator[str]:
    for name, account in programs.items():
        counts = (account[key] for key in ("runs", "failures", "late", "killed"))
        yield _row(name, *counts, *_quantiles(account))
        if account["last_error"]:
            yield f"    FAILED {_shown(account['failed_at'])}  {account['last_error']}"


def _standby(standby: dict[str, Any]) -> Iterator[str]:
    for name, crew in standby.items():
        yield _row(name, crew["waiting"]) + (f"  off: {crew['off']}" if crew["off"] else "")


def _row(name: str, *columns: object) -> str:
    return f"  {name:40}" + "".join(f" {column!s:>8}" for column in columns)


def _quantiles(times: dict[str, Any]) -> list[str]:
    """Returns p50 and p99 in milliseconds, each as the bound of its bucket."""
    return ["-" if times[key] is None else _bound(times[key]) for key in ("p50", "p99")]


def _bound(seconds: float) -> str:
    """Returns the bound of a duration's bucket, because an estimate from buckets is no more precise."""
    if seconds >= BOUNDS[-1]:
        return f">{BOUNDS[-1] * 1000:g}"
    return f"<{BOUNDS[bisect_left(BOUNDS, seconds)] * 1000:g}"


def _shown(moment: float) -> str:
    """Returns a time in seconds since the epoch in the format of RFC 3339."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))
