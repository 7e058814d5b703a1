"""The command `uninstall`."""

from __future__ import annotations

from argparse import Namespace

from v010_adapter.cli.arguments import FINE, PROGRAM, Parser
from v010_adapter.cli.install import forms, switch_nri
from v010_adapter.cli.install.things import changes
from v010_adapter.monitoring.sanitize import show


def parser() -> Parser:
    warning = "a runtime starts without a plugin whose program is gone, with one warning in its log"
    text = f"Removes what `install` has made. Run it before you delete the program: {warning}."
    return forms.parser("uninstall", text)


def main(options: Namespace) -> int:
    node = forms.node(options.root)
    launched, external = [*forms.launched(node), *forms.superseded(node)], forms.external(node)
    of_runtime = [*launched, *switch_nri.present(node.root)]
    removed = []
    for action in changes([], [*of_runtime, *external, forms.configuration_file(node)], dry_run=options.dry_run):
        action.show(dry_run=options.dry_run)
        removed += [action.thing] if action.is_change else []
    end = "To end the running adapter:"
    if not removed:
        show("nothing to remove")
    elif any(thing in removed for thing in of_runtime):
        show("", end, f"    systemctl restart {forms.services(node.root)}")
    if any(thing in removed for thing in external):
        show("", end, f"    systemctl stop {PROGRAM}", "    systemctl daemon-reload")
    return FINE
