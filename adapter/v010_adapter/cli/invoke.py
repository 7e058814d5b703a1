"""`v010-adapter invoke TYPE`: runs one legacy plugin by hand as the daemon would, and shows what its result changes.

The daemon's code serves the event, with a conf.json that names only this plugin. The output comes from its log.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from nri import Context, Deferred, api, runtimes
from nri.testing import Answer, Flavour, Outcome
from v010_adapter import settings
from v010_adapter.base.loop import Loop
from v010_adapter.cli import arguments
from v010_adapter.cli.arguments import Parser
from v010_adapter.cli.simulate import script
from v010_adapter.cli.simulate.play import Scene
from v010_adapter.cli.simulate.trial import Scratch
from v010_adapter.cli.simulate.view import TextView, as_json, milliseconds
from v010_adapter.cli.terminal import DIM, show, show_json
from v010_adapter.container_files.recording import Recorded
from v010_adapter.daemon.adapter import reserve
from v010_adapter.daemon.process_setup import become_daemon
from v010_adapter.errors import ConfigError
from v010_adapter.events.serving import Serving
from v010_adapter.events.turns import Turns
from v010_adapter.host.trust import off
from v010_adapter.legacy.config import ConfigFile, Entry, read
from v010_adapter.legacy.plan import DELETE, ORIGINAL, STATES, Plans
from v010_adapter.legacy.request import of_event
from v010_adapter.oci.spec import apply, spec_from
from v010_adapter.programs.process import STILL_RUNNING
from v010_adapter.settings import PluginSettings, Settings
from v010_adapter.state.runtime_directory import RuntimeDirectory


def parser() -> Parser:
    made = Parser(
        "invoke",
        "Runs one legacy plugin by hand as the daemon would. Shows its request, its result, the time, the exit code, "
        "and what the result would change.",
        "FILE has recorded events, one JSON object a line; the first event at which the plugin runs is used. Without a "
        "file, the event is that of a pod recorded on containerd, without its processes.",
        words="TYPE",
        examples="v010-adapter invoke konfine\nv010-adapter invoke ./konfine -event events.json",
    )
    made.add_argument("type", metavar="TYPE", help="the plugin: its type in conf.json, or the path of a program")
    made.flag("event", "recorded events; - is stdin", metavar="FILE")
    return made.shared("config", "o output", "color")


def main(options: Namespace) -> int:
    view = None if options.output == "json" else TextView(sys.stdout, full=True, color=options.color)
    collected = _LogCollector(lambda fields: _show_run(view, fields))
    logging.getLogger("v010_adapter").addHandler(collected)
    logging.getLogger("v010_adapter").setLevel(logging.DEBUG)
    own, errors = settings.read(options.config)
    if errors:
        raise errors[0]
    entry, is_configured = _entry(own, options.type)
    life = script.recorded(Path(options.event)) if options.event else script.pod_life()
    call = _call(own, entry, life.events)
    become_daemon()
    if view is not None and not is_configured:
        view.line(f"{entry.type} is not in {own.legacy.config}: the daemon does not run it", DIM)
    try:
        scene = _invoke(own, entry, call, life.flavour or Flavour(), collected)
    except KeyboardInterrupt:
        _kill_programs()
        raise
    if view is None:
        show_json({"type": entry.type, "configured": is_configured, **_as_json(scene, collected)})
    else:
        _show(view, scene, collected)
    return arguments.FINDINGS if scene.problems() else arguments.FINE


def _entry(own: Settings, type_: str) -> tuple[Entry, bool]:
    """Returns the plugin's entry of conf.json, else one without a configuration; and whether conf.json has it."""
    config, error, *_ = read(own.legacy.config, own.legacy.trust)
    if error is not None:
        raise error
    type_ = os.path.abspath(type_) if "/" in type_ else type_
    entry = next((entry for entry in config.entries if entry.type == type_), None)
    return entry or Entry(type_, 0, config.version, None), entry is not None


def _call(own: Settings, entry: Entry, calls: Sequence[Recorded]) -> Recorded:
    plans = Plans(own.legacy, reports_ends=True)
    found = [call for call in calls if plans.is_at(call.event, entry)]
    if not found:
        configured = own.legacy.plugins.get(entry.type, PluginSettings()).events
        runs_at = ", ".join(sorted(ORIGINAL if configured is None else configured)) or "no event"
        there = ", ".join(dict.fromkeys(call.event for call in calls))
        raise ConfigError(entry.type, f"runs at {runs_at}; the recorded events are {there}")
    return next((call for call in found if call.event.endswith("Container")), found[0])


def _invoke(own: Settings, entry: Entry, call: Recorded, flavour: Flavour, collected: _LogCollector) -> Scene:
    loop = Loop()
    with Scratch("v010-adapter-invoke-") as directory:
        legacy = own.legacy._replace(config=_conf_json(directory, entry), sandboxes="always")
        own = own._replace(legacy=legacy)
        turns = Turns(RuntimeDirectory(os.path.join(directory, "state"), "", off), loop.time)
        serving = Serving(loop, own, turns, _NoRuntime())
        runtime = runtimes.of(flavour.configure_request(""))
        serving.set_runtime(runtime)
        _owe_delete(serving, entry, call)
        size, spare = call.request.ByteSize(), reserve(own, runtime.nri)
        context = Context(call.event, flavour.request_timeout, loop.time, loop.time(), spare, size)
        scene = _play(loop, serving, call, context)
    reason = serving.runner.accounts[entry.type].last_error
    collected.log = [line for line in collected.log if not reason or reason not in line]  # it is shown anyway
    answer = Answer(entry.type, error=scene.outcome.error or reason, seconds=collected.fields.get("us", 0) / 1e6)
    scene.outcome.answers.append(answer)
    return scene


def _conf_json(directory: str, entry: Entry) -> str:
    version, type_ = (json.dumps(text).encode() for text in (entry.version, entry.type))
    conf = b"" if entry.conf is None else b', "conf": ' + entry.conf
    path = Path(directory) / "conf.json"
    path.write_bytes(b'{"version": %b, "plugins": [{"type": %b%b}]}' % (version, type_, conf))
    return str(path)


def _owe_delete(serving: Serving, entry: Entry, call: Recorded) -> None:
    """Adds a create to the ledger, for a delete that would not run without one."""
    target, plans = of_event(call.event, call.request), serving.plugins.plans
    if STATES[call.event] == DELETE and plans.is_for_owed_only(call.event, [entry], is_sandbox=target.is_sandbox):
        serving.ledger.add(target, entry)


class _NoRuntime:
    """A `DaemonLink` to no runtime."""

    runtime_pid = 0

    def on_served(self, is_ours: bool) -> None:
        pass

    def on_joined(self) -> None:
        pass

    def on_bug(self, error: Exception) -> None:
        pass

    def send_updates(self, updates: list[api.ContainerUpdate], on_reply: Any) -> None:
        pass

    def keep_configuration(self, text: str, socket: str) -> None:
        pass


def _play(loop: Loop, serving: Serving, call: Recorded, context: Context) -> Scene:
    """Plays the event, and waits until all its programs have ended. Raises ConfigError."""
    message: Any = call.request
    told: list[tuple[float, Any, Exception | None]] = []
    started = loop.time()
    answer = serving.on_event(message, context)
    if not isinstance(answer, Deferred):  # the directory of temporary files is not trusted
        raise ConfigError(call.event, "; ".join(serving.describe()["faults"]))

    def on_reply(reply: Any, error: Exception | None) -> None:
        told.append((loop.time() - started, reply, error))
        serving.on_answered(context)

    answer.then(on_reply)
    loop.call_soon(lambda: serving.when_idle(loop.stop))
    loop.run()
    [(seconds, reply, error)] = told
    if isinstance(error, ConfigError):
        raise error
    updates = [*getattr(reply, "update", ()), *serving.updates.pop()]
    scene = Scene(Outcome(call.event, error=str(error or ""), update=updates), seconds)
    if call.event == "CreateContainer" and error is None:
        scene.outcome.adjusted = reply.adjust if reply is not None else api.ContainerAdjustment()
        scene.before = spec_from(message.container)
        scene.after = apply(scene.before, scene.outcome.adjusted, collected=True)
    return scene


class _LogCollector(logging.Handler):
    def __init__(self, on_run: Callable[[Mapping[str, Any]], None]) -> None:
        """`on_run` gets the fields of the record about the plugin's run: at its end, or when it is left to finish."""
        super().__init__()
        self._on_run = on_run
        self.fields: dict[str, Any] = {}
        self.stderr: list[str] = []
        self.log: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        fields = getattr(record, "fields", {})
        if "request" in fields:
            self.fields = fields
            self._on_run(fields)
        elif fields.get("stream") == "stderr":
            self.stderr.append(record.getMessage().partition(": stderr: ")[2])
        elif record.levelno > logging.INFO or record.name != ConfigFile.__module__:  # not the list of plugins
            self.log.append(f"{record.levelname.lower()}: {record.getMessage()}")


def _kill_programs() -> None:
    """Kills the programs that still run, and their children. They have their own process groups."""
    for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        with suppress(ProcessLookupError):
            os.killpg(os.getpgid(int(pid)), signal.SIGKILL)


def _as_json(scene: Scene, collected: _LogCollector) -> dict[str, Any]:
    fields = collected.fields
    return {
        "request": _decoded(fields.get("request", b"null")),
        "result": _decoded(fields.get("result", b"null")),
        "ending": fields.get("ending", "not started"),
        "stderr": collected.stderr,
        "log": collected.log,
        **as_json(scene),
    }


def _decoded(text: bytes) -> Any:
    """Returns the value of a JSON text. Returns another text as it is."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text.decode("utf-8", "backslashreplace")


def _show_run(view: TextView | None, fields: Mapping[str, Any]) -> None:
    is_left = fields["ending"] == STILL_RUNNING
    for name in ("request", "result"):
        lines = _shown(fields[name]) if view is not None and (fields[name] or not is_left) else ()
        for number, line in enumerate(lines):
            cast(TextView, view).line(f"{'' if number else name:9} {line}")
    if is_left:
        state = "it goes on after its result" if fields["result"] else f"no result within {fields['us'] / 1e6:.1f} s"
        show(f"{state}; waiting, Ctrl-C ends", out=sys.stderr)


def _show(view: TextView, scene: Scene, collected: _LogCollector) -> None:
    fields, [answer] = collected.fields, scene.outcome.answers
    for name, lines in (("stderr", collected.stderr), ("log", collected.log)):
        for line in lines:
            view.line(f"{name:9} {line}")
    view.line(f"{'ending':9} {fields.get('ending', 'not started')} after {milliseconds(answer.seconds)}")
    outcome = "the failure is tolerated, the event succeeds" if answer.error else "the event succeeds"
    view.line(f"{'outcome':9} {'the event fails' if scene.outcome.error else outcome}")
    view.show(scene)


def _shown(text: bytes) -> list[str]:
    """Returns the lines of a request or a result: one line, or indented JSON for a terminal."""
    lines = [text.decode("utf-8", "backslashreplace").rstrip()]
    if sys.stdout.isatty():
        with suppress(ValueError, RecursionError):
            lines = json.dumps(json.loads(text), indent=2, ensure_ascii=False).split("\n")
    return lines
