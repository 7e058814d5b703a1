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
    text = "Removes what `install` has made. Run it before you delete the program: otherwise the runtime may not start."
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
        show("", "To end the running adapter:", *(f"    {line}" for line in ends))
    return arguments.FINE


def _remove(things: Sequence[Thing], *, dry_run: bool) -> list[Thing]:
    """Removes things that an installation has made, and prints that; returns the removed things. Raises OSError."""
    removed = []
    for thing in things:
        state = thing.state()
        if state is State.FOREIGN:
            show(f"{'kept':14}{thing.path}: `install` has not made it, or it was changed")
        elif state is not State.MISSING:
            removed.append(thing)
            if not dry_run:
                thing.remove()
            show(f"{'would remove' if dry_run else 'removed':14}{thing.path}")
    if not removed:
        show("nothing to remove")
    return removed
