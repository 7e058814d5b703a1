"""The command: what it is given, and what exit code that ends with."""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from adapter.errors import ConfigError
from adapter.runtime.flavour import FLAVOURS, Flavour
from adapter.runtime.launch import PluginFile, drop_in
from adapter.runtime.simulate import script
from adapter.runtime.simulate.play import Play
from adapter.runtime.simulate.view import JsonView, TextView, View

FINE, FINDINGS = 0, 1


def main(words: Sequence[str]) -> int:
    """Runs `simulate` with these arguments; returns the exit code. Raises ConfigError."""
    options = _options(words)
    logging.getLogger("adapter.runtime").addHandler(logging.NullHandler())  # what it would log is shown
    played = _script(options)
    flavour = _flavour(options.runtime) or played.flavour or Flavour()
    plugins = _plugins(options.plugin, options.config)
    play = Play(played, flavour, plugins, Path(options.socket) if options.socket else None)
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    view: View = JsonView(sys.stdout) if options.output == "json" else TextView(sys.stdout, colour=colour)
    try:
        return _perform(play, view, f"{flavour.name} {flavour.version}, NRI {flavour.nri}")
    except KeyboardInterrupt:
        return FINDINGS


def _perform(play: Play, view: View, title: str) -> int:
    view.open(title)
    scenes = []
    for scene in play.scenes():
        view.show(scene)
        scenes.append(scene)
    problems = [f"{scene.event}: {problem}" for scene in scenes for problem in scene.problems()]
    named = {told.name for scene in scenes for told in scene.plugins if told.error}
    problems += [f"plugin {name} is gone: {why}" for name, why in play.dropped() if name not in named]
    view.close(len(scenes), problems)
    return FINDINGS if problems else FINE


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="v010-adapter simulate",
        description="Plays events to NRI plugins, as a container runtime does but without one: launches the plugins, "
        "merges what they answer, and shows what becomes of the container.",
        epilog="FILE of -container and -pod is JSON or YAML: NRI's messages, an OCI config.json, a Kubernetes Pod. "
        "Without -events and -container, it is the life of a pod that was recorded on containerd.",
        allow_abbrev=False,
    )
    option = parser.add_argument
    option(
        *("-plugin", "--plugin"),
        metavar="[NN-NAME=]PATH",
        action="append",
        default=[],
        help="a plugin to launch; several are asked in the order of NN",
    )
    option(
        *("-config", "--config"),
        metavar="DIR",
        default="",
        help="directory of the plugins' configurations: NN-NAME.conf, else NAME.conf",
    )
    option("-socket", "--socket", metavar="PATH", default="", help="wait for a plugin that connects to this socket")
    option("-events", "--events", metavar="FILE", default="", help="recorded events, one JSON object a line")
    option("-container", "--container", metavar="FILE", default="", help="a container to play the life of")
    option("-pod", "--pod", metavar="FILE", default="", help="its pod, if the container's file has none")
    option("-name", "--name", default="", help="which container, if the file has several")
    option(
        *("-runtime", "--runtime"),
        metavar="NAME/VERSION",
        default="",
        help=f"the runtime to play: {', '.join(map(_as_option, FLAVOURS.values()))}",
    )
    option("-o", dest="output", choices=("text", "json"), default="text", help="how to show it (text)")
    options = parser.parse_args(words)
    _check(parser, options)
    return options


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Ends the command over arguments that make no sense together."""
    if not options.plugin and not options.socket:
        parser.error("nobody to play to: give -plugin or -socket")
    if options.events and options.container:
        parser.error("-events and -container exclude each other")
    if (options.pod or options.name) and not options.container:
        parser.error("-pod and -name belong to -container")


def _script(options: argparse.Namespace) -> script.Script:
    if options.events:
        return script.recorded(Path(options.events))
    if options.container:
        return script.made_up(options.container, options.pod, options.name)
    return script.pod_life()


def _as_option(flavour: Flavour) -> str:
    return f"{flavour.name}/{flavour.version.removeprefix('v')}"


def _flavour(option: str) -> Flavour | None:
    if not option:
        return None
    known = {_as_option(flavour): flavour for flavour in FLAVOURS.values()}
    name, _, version = option.partition("/")
    try:
        return known[f"{name}/{version.removeprefix('v')}"]
    except KeyError:
        raise ConfigError("-runtime", f"{option!r} is none of {', '.join(known)}") from None


def _plugins(options: Sequence[str], config: str) -> list[PluginFile]:
    """Returns what to launch, with what is in the directory of configurations for it. Raises ConfigError."""
    if config and not os.path.isdir(config):
        raise ConfigError(f"-config {config}", "no such directory")
    found = [_plugin(option, place) for place, option in enumerate(options, 1)]
    if config:
        found = [file._replace(config=drop_in(Path(config), file.idx, file.base)) for file in found]
    names = [(file.idx, file.base) for file in found]
    for option, name in zip(options, names, strict=True):
        if names.count(name) > 1:
            raise ConfigError(f"-plugin {option}", f"another plugin is called {'-'.join(name)}, too")
    return found


def _plugin(option: str, place: int) -> PluginFile:
    """Returns a plugin; one whose file is not called NN-NAME gets an index after its place on the command line."""
    name, equals, path = option.partition("=")
    if not equals or "/" in name:  # a path may have a `=` in it
        name, path = os.path.basename(option), option
        if not re.match(r"[0-9]{2}-.", name):
            name = f"{min(place * 10, 99)}-{name}"
    match = re.fullmatch(r"([0-9]{2})-(.+)", name)
    if match is None:
        raise ConfigError(f"-plugin {option}", f"{name!r} is not NN-NAME")
    if not os.access(path, os.X_OK) or os.path.isdir(path):
        raise ConfigError(f"-plugin {option}", "no such program" if not os.path.exists(path) else "not executable")
    return PluginFile(Path(path).absolute(), match[1], match[2], config="")
