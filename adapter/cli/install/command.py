"""The command `install`."""

from __future__ import annotations

import os
import re
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from adapter import settings
from adapter.base.sanitize import show, show_json
from adapter.cli import arguments
from adapter.cli.check import nri, runtimes
from adapter.cli.check.report import Item
from adapter.cli.commands import PROGRAM
from adapter.cli.install import forms
from adapter.cli.install.forms import SERVICES, Node
from adapter.cli.install.things import State, Thing
from adapter.host import paths
from adapter.host.paths import in_root

TOLD = {State.MISSING: "made", State.OLD: "replaced", State.CURRENT: "is there", State.FOREIGN: "kept"}
PLANNED = {"made": "would make", "replaced": "would replace", "removed": "would remove"}
"""The words of a dry run for each change."""
SHARED = settings.DEFAULT_CONF_JSON
"""The list of legacy plugins that containerd 2 reads, too."""
LIST = "/etc/nri/v010-adapter.json"


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
    names = runtimes.present(node.root)
    nri_items = [item for name in names for item in nri.check(name, node.root)]
    if options.output == "json":
        things = [{"path": one.thing.path, "result": one.result, "changed": one.is_change} for one in actions]
        told = {
            "problems": obstacles,
            "warnings": warnings,
            "changed": any(thing["changed"] for thing in things),
            "things": things,
            "nri": [{"status": item.status, "text": str(item)} for item in nri_items],
            "next": list(_start(names, is_external=options.external)),
        }
        show_json(told)
    elif not obstacles:
        for action in actions:
            _show(action, dry_run=options.dry_run)
        _tell(node, names, nri_items, is_external=options.external)
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


def _tell(node: Node, names: Collection[str], nri_items: Sequence[Item], *, is_external: bool) -> None:
    """Prints whether NRI is on, and the next commands."""
    show(*(f"{item.status:14}{item}" for item in nri_items))
    show("", "To start it:", *(f"    {line}" for line in _start(names, is_external=is_external)))
    warning = "a runtime does not start if a link in its plugin directory leads nowhere"
    show("", f"Before you delete the program, run `{PROGRAM} uninstall`: {warning}.")
    services = [SERVICES["containerd"], *([PROGRAM] if is_external else [])]
    commands = list(_move_the_list(node.root, services)) if "containerd" in names else []
    if commands:
        runs = f"containerd 2.0 to 2.4 run the plugins of {SHARED} for pods themselves"
        text = f"{runs}. To have the adapter run them instead:"
        show("", text, *(f"    {line}" for line in commands))


def _start(names: Collection[str], *, is_external: bool) -> Iterator[str]:
    if is_external:
        yield from ("systemctl daemon-reload", f"systemctl restart {PROGRAM}")
    else:
        yield f"systemctl restart {forms.services(names)}"
    yield from (f"{PROGRAM} check", f"{PROGRAM} status")


def _move_the_list(root: str, services: Sequence[str]) -> Iterator[str]:
    """Yields the commands that move the list of legacy plugins, none if containerd does not read the adapter's list.

    They stop `services` meanwhile, so that no pod starts between the old list and the new one.
    """
    file = settings.DEFAULT_PATH
    text = paths.read_text(in_root(root, file)) or ""
    own, _ = settings.parse(text, file)
    if own.legacy.config != SHARED or not os.path.exists(in_root(root, SHARED)):
        return
    yield f"systemctl stop {' '.join(services)}"
    yield f"mv {SHARED} {LIST}"
    if re.search(r"^legacy\s*:", text, re.MULTILINE):
        yield f"# in {file}, in the section `legacy`: write `config: {LIST}`"
    else:
        yield f"echo 'legacy: {{config: {LIST}}}' >>{file}"
    yield f"systemctl start {' '.join(services)}"
