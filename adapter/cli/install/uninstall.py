"""The command `uninstall`."""

from __future__ import annotations

from argparse import Namespace

from adapter.base.sanitize import show
from adapter.cli.arguments import FINE, PROGRAM, Parser
from adapter.cli.check import nri
from adapter.cli.install import forms
from adapter.cli.install.things import changes


def parser() -> Parser:
    text = "Removes what `install` has made. Run it before you delete the program: otherwise the runtime may not start."
    return forms.parser("uninstall", text)


def main(options: Namespace) -> int:
    node = forms.node(options.root)
    launched, external = [*forms.launched(node), *forms.superseded(node)], forms.external(node)
    removed = []
    for action in changes([], [*launched, *external, forms.configuration_file(node)], dry_run=options.dry_run):
        action.show(dry_run=options.dry_run)
        removed += [action.thing] if action.is_change else []
    end = "To end the running adapter:"
    if not removed:
        show("nothing to remove")
    elif any(thing in removed for thing in launched):
        show("", end, f"    systemctl restart {forms.services(nri.present(node.root))}")
    elif any(thing in removed for thing in external):
        show("", end, f"    systemctl stop {PROGRAM}", "    systemctl daemon-reload")
    return FINE
