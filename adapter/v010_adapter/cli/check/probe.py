"""Tests whether a legacy plugin may stand by: starts it with an open stdin, and then with an empty stdin."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from nri.text import printable
from v010_adapter.base.loop import Loop
from v010_adapter.cli.check.report import OK, PROBLEM, Item
from v010_adapter.daemon.process_setup import become_daemon
from v010_adapter.errors import ConfigError, PluginError
from v010_adapter.legacy import result
from v010_adapter.legacy.find import Programs
from v010_adapter.programs.process import Process, Program
from v010_adapter.settings import LegacySettings

WAIT = 1.0
"""Seconds that the plugin must wait for its request."""
END = 10.0
"""Seconds in which the plugin must end if there is no request."""
WRITES = "it writes before its request"


def confirm(type_: str) -> None:
    """Asks the user at the terminal for permission. Raises ConfigError if the answer is not yes."""
    if not sys.stdin.isatty():
        raise ConfigError("-probe", f"it runs {type_} twice, without a request: confirm that with -yes")
    question = printable(f"This runs {type_} twice, without a request. Continue? [y/N] ")
    print(question, end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ConfigError("-probe", "not confirmed; nothing was run")


def check(settings: LegacySettings, type_: str) -> Iterator[Item]:
    """Yields why the plugin must not stand by, or one result that it may."""
    become_daemon()
    try:
        program = Programs(settings.path, settings.environment, settings.trust).program(type_)
        faults = [fault for fault in (with_open_stdin(program), with_empty_stdin(program)) if fault]
    except PluginError as error:
        faults = [error.reason]
    except OSError as error:
        faults = [f"{program.path}: {error.strerror}"]
    yield from (Item(PROBLEM, f"{type_}: {fault}: it must not stand by") for fault in faults)
    if not faults:
        yield Item(OK, f"{type_}: may stand by: it waits for its request, and fails without one")


def with_open_stdin(program: Program) -> str:
    """Returns what the program does before its request, empty if it waits."""
    loop, found = Loop(), list[str]()

    def report(reason: str) -> None:
        found.append(reason)
        loop.stop()

    def on_exit(ended: Process) -> None:
        report(WRITES if ended.stdout else f"it ends before its request ({ended.ending})")

    process = Process(loop, program, on_exit, lambda _: None)
    process.wait(lambda _: report(WRITES))
    _run(loop, process, WAIT)
    return next(iter(found), "")


def with_empty_stdin(program: Program) -> str:
    """Returns what the program does without a request, empty if it only fails."""
    loop = Loop()
    process = Process(loop, program, lambda _: loop.stop(), lambda _: None)
    process.feed(b"")
    if not _run(loop, process, END):
        return f"it does not end when its stdin is empty, within {END:g} s"
    try:
        is_error = bool(result.parse(process.stdout).error)
    except result.ResultError:
        is_error = process.status != 0
    return "" if is_error else f"it takes an empty stdin for a request: {process.ending}, no error in its result"


def _run(loop: Loop, process: Process, seconds: float) -> bool:
    """Runs a program for `seconds` at most, then kills it, also at SIGINT; returns whether it has ended by itself."""
    loop.call_at(loop.time() + seconds, loop.stop)
    try:
        loop.run()
    finally:
        has_ended = process.status is not None
        process.discard(lambda _: loop.stop())
    if not has_ended:
        loop.run()
    loop.close()
    return has_ended
