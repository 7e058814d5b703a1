"""The command `uninstall`."""

from __future__ import annotations

from argparse import Namespace

from v010_adapter.cli.arguments import FINE, PROGRAM, Parser
from v010_adapter.cli.install import forms, switch_nri
from v010_adapter.cli.install.things import changes
from v010_adapter.cli.terminal import show, show_json


def parser() -> Parser:
    warning = "a runtime starts without a plugin whose program is gone, with one warning in its log"
    text = f"Removes what `install` has made. Run it before you delete the program: {warning}."
    examples = "v010-adapter uninstall -dry-run    # what it would remove\nv010-adapter uninstall"
    return forms.parser("uninstall", text, examples).shared("o output")


def main(options: Namespace) -> int:
    node = forms.node(options.root)
    launched, external = [*forms.launched(node), *forms.superseded(node)], forms.external(node)
    of_runtime = [*launched, *switch_nri.present(node.root)]
    unwanted = [*of_runtime, *external, *forms.configuration_files(node)[-1:], forms.own_list(node)]
    actions = list(changes([], unwanted, dry_run=options.dry_run))
    removed = [action.thing for action in actions if action.is_change]
    ends = [f"systemctl restart {forms.services(node.root)}"] if any(thing in removed for thing in of_runtime) else []
    if any(thing in removed for thing in external):
        ends += [f"systemctl stop {PROGRAM}", "systemctl daemon-reload"]
    if options.output == "json":
        things = [one.described for one in actions]
        show_json({"changed": bool(removed), "things": things, "next": ends})
        return FINE
    for action in actions:
        action.show(dry_run=options.dry_run)
    if not removed:
        show("nothing to remove")
    elif ends:
        show("", "To end the running adapter:", *(f"    {line}" for line in ends))
    return FINE
