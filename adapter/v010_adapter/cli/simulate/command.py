"""The command `simulate`: its arguments and its exit code."""

from __future__ import annotations

import os
import re
import signal
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import BinaryIO

from nri.testing.flavour import FLAVOURS, Flavour
from nri.testing.launch import PluginFile
from v010_adapter import container_files
from v010_adapter.cli.arguments import FINDINGS, FINE, PROGRAM, Parser
from v010_adapter.cli.simulate import contract, load, script, trial
from v010_adapter.cli.simulate.drop_ins import drop_in, drop_ins
from v010_adapter.cli.simulate.play import STDERR, Play
from v010_adapter.cli.simulate.trial import Scratch
from v010_adapter.cli.simulate.view import TextView, as_json
from v010_adapter.cli.systems import DROP_INS
from v010_adapter.cli.terminal import BOLD, show, show_json
from v010_adapter.errors import ConfigError

EXAMPLES = """\
v010-adapter simulate ./my-plugin                  # the life of a pod
v010-adapter simulate ./my-plugin -container pod.yaml -runtime cri-o/1.36.3
v010-adapter simulate ./my-plugin -contract        # what runtimes rely on
v010-adapter simulate ./my-plugin -pods 500        # a load
v010-adapter simulate -legacy ./one-shot -event CreateContainer"""
EMPTY_CONFIG = "legacy: {config: /proc/no-conf.json}\nhooks: {enabled: false}\n"
"""A configuration of the adapter that runs nothing. Without one it would run the plugins and hooks of this node."""


def main(options: Namespace) -> int:
    options.plugin = [*options.plugin, *options.programs]
    if contradiction := _contradiction(options):
        parser().error(contradiction)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:  # otherwise the caller wants something else
        signal.signal(signal.SIGTERM, _end)
    events = _script(options)
    for unknown in events.unknown:
        show(f"not known: {unknown}", out=sys.stderr)
    flavour = FLAVOURS.get(options.runtime) or events.flavour or Flavour()
    with Scratch("v010-adapter-simulate-") as directory:
        plugins = _plugins(options.plugin, options.config)
        known = dict.fromkeys(call.event for call in events.events)
        for event in options.event:
            if event not in known:
                raise ConfigError(f"-event {event}", f"not played; there are: {', '.join(known)}")
        if options.legacy or options.hooks or options.conf:
            at = options.event or ["CreateContainer"]
            plugins.append(trial.plugin(Path(directory), options.legacy, at, options.hooks, options.conf))
        with (Path(directory) / "messages").open("w+b") as messages:
            # In the same file, such as a terminal, plugins would print between the lines.
            is_apart = options.output != "text" or not os.path.sameopenfile(1, 2)
            if options.contract:
                life = events.events if options.container or options.events else ()
                return contract.run(options, plugins, flavour, life, None if is_apart else messages)
            play = Play(events, flavour, plugins, options.socket, STDERR if is_apart else messages.fileno())
            return (load.main if options.pods else _play)(play, flavour, options, messages)


def _end(number: int, _: object) -> None:
    """Ends the command as Ctrl-C does: CI ends what takes too long with SIGTERM. A second one changes nothing."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def _play(play: Play, flavour: Flavour, options: Namespace, messages: BinaryIO) -> int:
    """Plays the events. `messages` has what the plugins print, if that must not come between the lines of the table."""
    with closing(play.scenes()) as scenes:
        if options.output == "json":
            for scene in scenes:
                show_json(as_json(scene), indent=None)
        else:
            view = TextView(sys.stdout, full=options.verbose, color=options.color)
            view.line(f"{flavour.name} {flavour.version}, NRI {flavour.nri}", BOLD)
            try:
                for scene in scenes:
                    view.show(scene)
            finally:
                view.messages(messages)
            view.close(play.problems)
    return FINDINGS if play.problems else FINE


def parser() -> Parser:
    made = Parser(
        "simulate",
        "Plays events to NRI plugins as a container runtime does, but needs no runtime: launches the plugins, merges "
        "their answers, and shows how they change the container.",
        f"{container_files.FORMS} Without -events and -container, the events are those of a pod that was recorded on "
        "containerd.",
        words="[PLUGIN ...]",
        examples=EXAMPLES,
    )
    text = "a plugin to launch, as with -plugin"
    made.add_argument("programs", nargs="*", metavar="PLUGIN", help=text)
    text = "a plugin to launch; may be repeated; plugins are called in the order of NN"
    made.flag("plugin", text, metavar="[NN-NAME=]PATH", action="append", default=[])
    text = "a one-shot plugin to try without a configuration, as the adapter runs it; may be repeated"
    made.flag("legacy", text, metavar="PROGRAM", action="append", default=[])
    text = "an event at which -legacy runs; may be repeated (CreateContainer)"
    made.flag("event", text, metavar="EVENT", action="append", default=[])
    text = "a conf.json: its one-shot plugins run, each with its `conf`, as pods and containers start and stop"
    made.flag("conf", text, metavar="FILE")
    text = "a directory of OCI hooks to try, as the adapter injects them; may be repeated"
    made.flag("hooks", text, metavar="DIR", action="append", default=[])
    text = f"the directory of the plugins' configurations, on nodes {DROP_INS}: NN-NAME.conf, else NAME.conf"
    made.flag("config", text, metavar="DIR")
    text = "also wait for a plugin that connects to this socket"
    made.flag("socket", text, metavar="PATH", type=Path, default=None)
    made.flag("events", "recorded events, one JSON object per line", metavar="FILE")
    made.flag("container", "play the life of this container", metavar="FILE")
    made.shared("pod", "name", "command")
    text = f"the runtime to play: {', '.join(FLAVOURS)}; with -contract also {contract.ALL}"
    made.flag("runtime", text, metavar="NAME/VERSION", choices=[*FLAVOURS, contract.ALL])
    text = "check what runtimes rely on, in many situations, each with a new start of the plugin"
    made.flag("contract", text)
    text = "with -contract: wait so long for a plugin that updates containers by a timer, as 5s (0s)"
    made.flag("timer", text, metavar="TIME", type=load.duration, default=0.0)
    load.add_flags(made)
    text = "format of the output: text (the default) or json; with -contract also junit"
    made.flag("o output", text, metavar="FORMAT", choices=["text", "json", contract.JUNIT], default="text")
    return made.shared("color", "v verbose")


def _contradiction(options: Namespace) -> str:
    launched = options.plugin or options.legacy or options.conf or options.hooks
    of_container = options.pod or options.name or options.command
    contradictions = {
        "no plugin: name one, or use -plugin, -legacy, -conf, -hooks or -socket": not (launched or options.socket),
        "-legacy and -conf exclude each other": options.legacy and options.conf,
        "-event belongs to -legacy": options.event and not options.legacy,
        "-events and -container exclude each other": options.events and options.container,
        "-pod, -name and -command belong to -container": of_container and not options.container,
        "-runtime all and -o junit belong to -contract": not options.contract
        and (options.runtime == contract.ALL or options.output == contract.JUNIT),
        "-contract starts the plugin: use -plugin, -legacy, -conf or -hooks": options.contract and not launched,
        "-timer belongs to -contract": options.timer and not options.contract,
        "-pods excludes -events and -contract": options.pods and (options.events or options.contract),
        "-repeat, -rate, -seed and -max-p99 belong to -pods": load.given(options) and not options.pods,
    }
    return next((reason for reason, holds in contradictions.items() if holds), "")


def _script(options: Namespace) -> script.Script:
    if options.events:
        return script.recorded(Path(options.events))
    if options.container:
        described = container_files.read(options.container, options.pod, options.name, options.command)
        return script.made_up(described)
    return script.pod_life()


def _plugins(options: Sequence[str], config: str) -> list[PluginFile]:
    if config and not os.path.isdir(config):
        raise ConfigError(f"-config {config}", "no such directory")
    files = [_plugin(option, position) for position, option in enumerate(options, start=1)]
    names = [file.name for file in files]
    for option, name in zip(options, names, strict=True):
        if names.count(name) > 1:
            raise ConfigError(f"-plugin {option}", f"another plugin has the name {name}, too")
    _name_unused(config, files)
    return [_configured(file, config) for file in files]


def _name_unused(config: str, files: Sequence[PluginFile]) -> None:
    present = sorted(entry.name for entry in os.scandir(config) if entry.is_file()) if config else []
    wanted = [drop_ins(file.idx, file.base) for file in files]
    taken = {next((name for name in names if name in present), "") for names in wanted}
    for name in present:
        if name not in taken:
            known = "; ".join(map(", else ".join, wanted)) or "there is none"
            show(f"{config}/{name}: no plugin uses it ({known})", out=sys.stderr)


def _plugin(option: str, position: int) -> PluginFile:
    """Returns a plugin. A plugin without an index in its name gets one from its position on the command line."""
    name, equals, path = option.partition("=")
    if not equals or "/" in name:  # a path may contain `=`
        name, path = os.path.basename(option), option
        if not re.match(r"[0-9]{2}-.", name):
            name = f"{min(position * 10, 99)}-{name}"
    match = re.fullmatch(r"([0-9]{2})-(.+)", name)
    if match is None:
        raise ConfigError(f"-plugin {option}", f"{name!r} is not NN-NAME")
    if not os.access(path, os.X_OK) or os.path.isdir(path):
        raise ConfigError(f"-plugin {option}", "no such program" if not os.path.exists(path) else "not executable")
    return PluginFile(Path(path).absolute(), match[1], match[2])


def _configured(file: PluginFile, config: str) -> PluginFile:
    """Adds the configuration of a plugin. An adapter without one gets EMPTY_CONFIG, and a message says that."""
    text = drop_in(Path(config), file.idx, file.base) if config else ""
    if not text and PROGRAM in (file.base, os.path.basename(os.path.realpath(file.path))):
        what = "has no configuration (-config): it runs nothing, so that this node's plugins and hooks do not run"
        show(f"{file.name} {what}", out=sys.stderr)
        text = EMPTY_CONFIG
    return file._replace(config=text)
