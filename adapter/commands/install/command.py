"""The command `install`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Collection, Iterator, Sequence

from adapter.commands import PROGRAM, arguments
from adapter.commands.check import nri, runtimes
from adapter.commands.install import forms, migration
from adapter.commands.install.forms import SERVICES, Node
from adapter.commands.install.things import State, Thing
from adapter.sanitize import show

TOLD = {State.MISSING: "made", State.OLD: "replaced", State.CURRENT: "is there", State.FOREIGN: "kept"}
PLANNED = {**TOLD, State.MISSING: "would make", State.OLD: "would replace"}


def parser() -> ArgumentParser:
    """Returns the parser of the command's arguments."""
    text = (
        "Makes the runtime, or systemd, start the adapter, and tells what is left to do. Running it again does no harm."
    )
    made = forms.parser("install", text)
    text = "as a service of systemd, beside the runtime; without it the runtime launches the adapter"
    made.add_argument("-external", "--external", action="store_true", help=text)
    return made


def main(words: Sequence[str]) -> int:
    """Runs the command; returns 0, or 1 if something is in the way. Raises OSError, ConfigError."""
    options = parser().parse_args(words)
    node = forms.node(options.root)
    wanted, others = forms.launched(node), forms.external(node)
    if options.external:
        wanted, others = others, wanted
    obstacles = list(forms.obstacles(node, wanted, others))
    for text in obstacles or (f"warning: {text}" for text in forms.warnings(node)):
        show(f"{PROGRAM}: {text}", out=sys.stderr)
    if obstacles:
        return arguments.FINDINGS
    for thing in [forms.configuration_file(node), *wanted]:
        _install(thing, dry_run=options.dry_run)
    _tell(node, is_external=options.external)
    return arguments.FINE


def _install(thing: Thing, *, dry_run: bool) -> None:
    state = thing.state()
    is_wanted = state in (State.MISSING, State.OLD)
    if is_wanted and not dry_run:
        thing.make()
    show(f"{(PLANNED if dry_run else TOLD)[state]:14}{thing.path}")
    if is_wanted and dry_run:
        show(*(f"    {line}".rstrip() for line in thing.content.splitlines()))


def _tell(node: Node, *, is_external: bool) -> None:
    """Prints whether NRI is on, and the commands that come next."""
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
        text = (
            f"containerd 2 runs the plugins of {migration.SHARED} for pods itself. To leave all of them to the adapter:"
        )
        show("", text, *(f"    {line}" for line in commands))


def _start(names: Collection[str], *, is_external: bool) -> Iterator[str]:
    if is_external:
        yield from ("systemctl daemon-reload", f"systemctl restart {PROGRAM}")
    else:
        yield f"systemctl restart {forms.services(names)}"
    yield from (f"{PROGRAM} check", f"{PROGRAM} status")
