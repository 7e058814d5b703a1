"""The command `install`."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from adapter.base.sanitize import show, show_json
from adapter.cli import arguments
from adapter.cli.check import nri, runtimes
from adapter.cli.commands import PROGRAM
from adapter.cli.install import forms, migration
from adapter.cli.install.forms import SERVICES, Node
from adapter.cli.install.things import State, Thing

TOLD = {State.MISSING: "made", State.OLD: "replaced", State.CURRENT: "is there", State.FOREIGN: "kept"}
PLANNED = {"made": "would make", "replaced": "would replace", "removed": "would remove"}
"""The words of a dry run for each change."""


class Action(NamedTuple):
    """A thing, and what was done with it, or would be done in a dry run."""

    thing: Thing
    result: str

    @property
    def is_change(self) -> bool:
        """Whether the thing changes."""
        return self.result in PLANNED


def parser() -> ArgumentParser:
    """Returns the parser of the command's arguments."""
    text = "Makes the runtime, or systemd, start the adapter, and prints what is left to do. You may run it again."
    made = forms.parser("install", text)
    text = "start the adapter as a service of systemd, beside the runtime; without it, the runtime launches the adapter"
    made.add_argument("-external", "--external", action="store_true", help=text)
    text = f"the adapter's place among the node's NRI plugins, two digits (as installed; {forms.INDEX} at first)"
    made.add_argument("-idx", "--idx", metavar="NN", type=_index, help=text)
    arguments.add_output(made)
    return made


def _index(text: str) -> str:
    if not re.fullmatch("[0-9]{2}", text, re.ASCII):
        raise ArgumentTypeError(f"{text!r} is not two digits")
    return text


def main(words: Sequence[str]) -> int:
    """Runs the command; returns 0, or 1 if it cannot install. Raises OSError, ConfigError."""
    options = parser().parse_args(words)
    node = forms.node(options.root, options.idx)
    links, service, superseded = forms.launched(node), forms.external(node), forms.superseded(node)
    wanted, others = (service, [*links, *superseded]) if options.external else (links, service)
    obstacles = list(forms.obstacles(node, wanted, others))
    warnings = [] if obstacles else list(forms.warnings(node))
    for text in obstacles or (f"warning: {text}" for text in warnings):
        show(f"{PROGRAM}: {text}", out=sys.stderr)
    actions = (
        iter(()) if obstacles else _actions([forms.configuration_file(node), *wanted], superseded, options.dry_run)
    )
    if options.output == "json":
        show_json({"problems": obstacles, "warnings": warnings, **_described(node, list(actions), options)})
    elif not obstacles:
        for action in actions:
            _show(action, dry_run=options.dry_run)
        _tell(node, is_external=options.external)
    return arguments.FINDINGS if obstacles else arguments.FINE


def _actions(wanted: Sequence[Thing], superseded: Sequence[Thing], dry_run: bool) -> Iterator[Action]:
    """Makes the wanted things, removes the superseded ones, and yields each action. Raises OSError."""
    for thing in wanted:
        action = Action(thing, TOLD[thing.state()])
        if action.is_change and not dry_run:
            thing.make()
        yield action
    for thing in superseded:
        if not dry_run:
            thing.remove()
        yield Action(thing, "removed")


def _show(action: Action, *, dry_run: bool) -> None:
    show(f"{PLANNED.get(action.result, action.result) if dry_run else action.result:14}{action.thing.path}")
    if dry_run and action.result in TOLD.values() and action.is_change:
        show(*(f"    {line}".rstrip() for line in action.thing.content.splitlines()))


def _described(node: Node, actions: Sequence[Action], options: Namespace) -> dict[str, Any]:
    """Returns what has changed, whether NRI is on, and the next commands, for JSON."""
    names = runtimes.present(node.root)
    return {
        "changed": any(action.is_change for action in actions),
        "things": [
            {"path": action.thing.path, "result": action.result, "changed": action.is_change} for action in actions
        ],
        "nri": [{"status": entry.status, "text": str(entry)} for name in names for entry in nri.check(name, node.root)],
        "next": list(_start(names, is_external=options.external)),
    }


def _tell(node: Node, *, is_external: bool) -> None:
    """Prints whether NRI is on, and the next commands."""
    names = runtimes.present(node.root)
    for name in names:
        for entry in nri.check(name, node.root):
            show(f"{entry.status:14}{entry}")
    show("", "To start it:", *(f"    {line}" for line in _start(names, is_external=is_external)))
    warning = "a runtime does not start if a link in its plugin directory leads nowhere"
    show("", f"Before you delete the program, run `{PROGRAM} uninstall`: {warning}.")
    services = [SERVICES["containerd"], *([PROGRAM] if is_external else [])]
    commands = list(migration.commands(node.root, services)) if "containerd" in names else []
    if commands:
        runs = f"containerd 2.0 to 2.4 run the plugins of {migration.SHARED} for pods themselves"
        text = f"{runs}. To have the adapter run them instead:"
        show("", text, *(f"    {line}" for line in commands))


def _start(names: Collection[str], *, is_external: bool) -> Iterator[str]:
    if is_external:
        yield from ("systemctl daemon-reload", f"systemctl restart {PROGRAM}")
    else:
        yield f"systemctl restart {forms.services(names)}"
    yield from (f"{PROGRAM} check", f"{PROGRAM} status")
