"""`simulate -contract`: judges each plugin under each runtime, and prints the verdicts as text, JSON or JUnit XML."""

from __future__ import annotations

import signal
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import BinaryIO
from xml.etree import ElementTree

from nri.scripts import start_error
from nri.testing.contract import SITUATIONS, External, Launched, Report, Result, Source, judge
from nri.testing.contract.requests import Call
from nri.testing.flavour import FLAVOURS, Flavour
from nri.testing.launch import PluginFile, undisturbed
from nri.text import printable
from v010_adapter.cli import terminal
from v010_adapter.cli.arguments import FINDINGS, FINE, count
from v010_adapter.cli.simulate.play import STDERR
from v010_adapter.cli.simulate.trial import Scratch
from v010_adapter.cli.simulate.view import TextView
from v010_adapter.cli.terminal import BOLD, GREEN, RED, progress, show, show_json
from v010_adapter.errors import ConfigError, reason_of

ALL = "all"
"""The value of -runtime that plays each runtime."""
JUNIT = "junit"


def run(
    options: Namespace,
    plugins: Sequence[PluginFile],
    flavour: Flavour,
    life: Sequence[Call],
    messages: BinaryIO | None,
) -> int:
    """Judges the plugins; returns the exit code. `messages` is the file for what they print; None is stderr."""
    flavours = list(FLAVOURS.values()) if options.runtime == ALL else [flavour]
    output = STDERR if messages is None else messages.fileno()
    with Scratch("nri-") as state:
        reports = _reports(plugins, flavours, life, options, state, output)
        return FINDINGS if _print(reports, options, messages) else FINE


def _reports(
    plugins: Iterable[PluginFile],
    flavours: Sequence[Flavour],
    life: Sequence[Call],
    options: Namespace,
    state: str,
    output: int,
) -> Iterator[Report]:
    socket: Path | None = options.socket
    for plugin in plugins:
        if sys.stderr.isatty():
            text = "is started about twenty times for each runtime: what it does besides NRI, it does on this machine"
            show(*terminal.fitted([f"{plugin.name} {text}"], sys.stderr), out=sys.stderr)
        source: Source = Launched(plugin, output, state)
        if socket is not None:
            source = External(socket, partial(_started, plugin, output))
        for flavour in flavours:
            with progress(f"{plugin.name} under {flavour.name} {flavour.version}") as shown:
                try:
                    report = judge(source, flavour, life, timer=options.timer, progress=partial(_show, shown))
                except OSError as error:
                    place = socket if socket is not None and not error.filename else plugin.path
                    raise ConfigError(str(place), reason_of(error)) from None
            yield replace(report, plugin=plugin.name)


def _show(shown: Callable[..., None], number: int, rule: str) -> None:
    shown(number, SITUATIONS, rule)


def _started(plugin: PluginFile, output: int) -> subprocess.Popen[bytes]:
    """Starts a plugin that connects by itself. Raises OSError, which names the program: that of a socket names none."""
    path, process = str(plugin.path), None
    unblock = partial(signal.pthread_sigmask, signal.SIG_SETMASK, [])
    try:
        with undisturbed():
            process = subprocess.Popen(  # noqa: S603
                [path],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=unblock,  # noqa: PLW1509
            )
    except (KeyboardInterrupt, SystemExit):  # it came meanwhile
        if process is not None:
            process.kill()
        raise
    except OSError as error:
        raise OSError(error.errno, reason_of(start_error(path, error)), path) from None
    return process


def _print(reports: Iterable[Report], options: Namespace, messages: BinaryIO | None) -> int:
    """Prints the reports, each as soon as it is there, JUnit at the end; returns the number of failures.

    Before the report of a failure, prints what the plugin has printed to the file of its messages.
    """
    done: list[Report] = []
    view = TextView(sys.stdout, color=options.color)
    for report in reports:
        done.append(report)
        if messages is not None:
            if report.failures:
                view.messages(messages)
                view.line("")
            messages.seek(0)
            messages.truncate()
        if options.output == "json":
            for line in _objects(report):
                show_json(line, indent=None)
        elif options.output != JUNIT:
            _print_text(report, view)
    if options.output == JUNIT:
        show(*ElementTree.tostring(junit(done)).decode().splitlines())  # ASCII, whatever the encoding of stdout is
    return sum(len(report.failures) for report in done)


def _title(report: Report) -> str:
    return f"{report.flavour.name} {report.flavour.version}, NRI {report.flavour.nri}"


def _print_text(report: Report, view: TextView) -> None:
    view.line(f"{report.plugin} under {_title(report)}", BOLD)
    for verdict in report.verdicts:
        name, result = verdict.rule.name, verdict.result
        if result is Result.FAILS:
            view.line(f"{name:24}FAILS", RED)
            for line in verdict.lines():
                view.line(f"    {line}")
        elif result is Result.HOLDS:
            view.line(f"{name:24}holds", GREEN)
    for why, names in _not_applied(report).items():
        view.line(f"does not apply, because {why}: {', '.join(names)}")
    for note in report.notes:
        view.line(f"note: {note.subject}: {note.text}")
    totals = f"{count(len(report.verdicts), 'rule')}, {count(len(report.failures), 'failure')}"
    view.line("")
    view.line(f"{totals}; {report.seconds:.1f} s")
    view.line("")


def _not_applied(report: Report) -> dict[str, list[str]]:
    """Returns the names of the rules that do not apply, by the reason."""
    found: dict[str, list[str]] = {}
    for verdict in report.verdicts:
        if verdict.result is Result.DOES_NOT_APPLY:
            found.setdefault(verdict.came, []).append(verdict.rule.name)
    return found


def _objects(report: Report) -> Iterator[dict[str, str]]:
    """Yields a JSON object for each verdict and each note."""
    about = {
        "plugin": report.plugin,
        "runtime": f"{report.flavour.name} {report.flavour.version}",
        "nri": report.flavour.nri,
    }
    for verdict in report.verdicts:
        rule, fails = verdict.rule, verdict.result is Result.FAILS
        said = {"sent": verdict.sent, "came": verdict.came} if fails else {"why": verdict.came} if verdict.came else {}
        of_rule = {"holds": rule.holds, "situation": rule.situation, "then": rule.otherwise, "source": rule.source}
        yield about | {"rule": rule.name, "result": str(verdict.result)} | said | of_rule
    for note in report.notes:
        yield about | {"note": note.subject, "text": note.text}


def junit(reports: Iterable[Report]) -> ElementTree.Element:
    """Returns JUnit XML: a suite for each plugin and runtime, a case for each rule, notes as the suite's output."""
    root = ElementTree.Element("testsuites")
    for report in reports:
        skipped = sum(verdict.result is Result.DOES_NOT_APPLY for verdict in report.verdicts)
        totals = {"tests": len(report.verdicts), "failures": len(report.failures), "errors": 0, "skipped": skipped}
        name = f"{report.plugin} under {_title(report)}"
        suite = ElementTree.SubElement(root, "testsuite", {"name": name} | {key: str(n) for key, n in totals.items()})
        for verdict in report.verdicts:
            case = ElementTree.SubElement(suite, "testcase", classname=name, name=verdict.rule.name)
            if verdict.result is Result.FAILS:
                failure = ElementTree.SubElement(case, "failure", message=printable(verdict.came))
                failure.text = "\n".join(map(printable, verdict.lines()))
            elif verdict.result is Result.DOES_NOT_APPLY:
                ElementTree.SubElement(case, "skipped", message=printable(verdict.came))
        out = ElementTree.SubElement(suite, "system-out")
        out.text = "\n".join(printable(f"{note.subject}: {note.text}") for note in report.notes)
    return root
