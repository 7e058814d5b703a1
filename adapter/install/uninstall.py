"""The command `uninstall`."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence

from adapter.check import runtimes
from adapter.errors import AdapterError
from adapter.install import forms
from adapter.install.forms import COMMAND, SERVICES
from adapter.install.things import State

DONE = 0


def parser() -> ArgumentParser:
    """Returns the parser of the command's arguments."""
    text = "Undoes `install`. Run it before you delete the program: else the runtime may not start."
    return forms.parser("uninstall", text)


def main(words: Sequence[str]) -> int:
    """Runs the command; returns 0. Raises AdapterError."""
    options = parser().parse_args(words)
    node = forms.node(options.root)
    launched, external = forms.launched(node), forms.external(node)
    removed = []
    try:
        for thing in [*launched, *external, forms.configuration_file(node)]:
            state = thing.state()
            if state is State.FOREIGN:
                print(f"{'kept':14}{thing.path}: not as `install` has made it")
            elif state is not State.MISSING:
                removed.append(thing)
                if not options.dry_run:
                    thing.remove()
                print(f"{'would remove' if options.dry_run else 'removed':14}{thing.path}")
    except OSError as error:
        if error.filename is None:  # stdout's
            raise
        raise AdapterError(f"{error.filename}: {error.strerror}") from None
    if not removed:
        print("nothing to remove")
    if any(thing in removed for thing in launched):
        services = "    # or ".join(SERVICES[name] for name in runtimes.present(node.root))
        print("\nTo end the adapter that runs:", f"systemctl restart {services}", sep="\n    ")
    elif any(thing in removed for thing in external):
        print("\nTo end the adapter that runs:", f"systemctl stop {COMMAND}", "systemctl daemon-reload", sep="\n    ")
    return DONE
