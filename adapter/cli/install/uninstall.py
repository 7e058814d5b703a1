"""The command `uninstall`."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence

from adapter.base.sanitize import show
from adapter.cli import arguments
from adapter.cli.check import runtimes
from adapter.cli.commands import PROGRAM
from adapter.cli.install import forms
from adapter.cli.install.things import State, Thing


def parser() -> ArgumentParser:
    """Returns the parser of the command's arguments."""
    text = "Undoes `install`. Run it before you delete the program: else the runtime may not start."
    return forms.parser("uninstall", text)


def main(words: Sequence[str]) -> int:
    """Runs the command; returns 0. Raises OSError, ConfigError."""
    options = parser().parse_args(words)
    node = forms.node(options.root)
    launched, external = [*forms.launched(node), *forms.superseded(node)], forms.external(node)
    removed = _remove([*launched, *external, forms.configuration_file(node)], dry_run=options.dry_run)
    ends: Sequence[str] = ()
    if any(thing in removed for thing in launched):
        ends = [f"systemctl restart {forms.services(runtimes.present(node.root))}"]
    elif any(thing in removed for thing in external):
        ends = [f"systemctl stop {PROGRAM}", "systemctl daemon-reload"]
    if ends:
        show("", "To end the adapter that runs:", *(f"    {line}" for line in ends))
    return arguments.FINE


def _remove(things: Sequence[Thing], *, dry_run: bool) -> list[Thing]:
    """Removes what an installation has made, and tells it; returns what is removed. Raises OSError."""
    removed = []
    for thing in things:
        state = thing.state()
        if state is State.FOREIGN:
            show(f"{'kept':14}{thing.path}: not as `install` has made it")
        elif state is not State.MISSING:
            removed.append(thing)
            if not dry_run:
                thing.remove()
            show(f"{'would remove' if dry_run else 'removed':14}{thing.path}")
    if not removed:
        show("nothing to remove")
    return removed
