"""The command `install`."""

from __future__ import annotations

import os
import re
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterator, Sequence

from v010_adapter import settings
from v010_adapter.cli import systems, terminal
from v010_adapter.cli.arguments import FINDINGS, FINE, PROGRAM, Parser
from v010_adapter.cli.check import nri
from v010_adapter.cli.check.report import Item
from v010_adapter.cli.install import example, forms, switch_nri
from v010_adapter.cli.install.forms import Node
from v010_adapter.cli.install.things import File, Thing, changes
from v010_adapter.cli.terminal import show, show_json
from v010_adapter.host import paths
from v010_adapter.host.paths import in_root

SHARED, LIST = settings.DEFAULT_CONF_JSON, example.LIST
"""The list of legacy plugins that containerd 2 reads, too, and that of the adapter's own."""
RUNS = f"containerd 2.0 to 2.4 run the plugins of {SHARED} for pods themselves"


def parser() -> Parser:
    text = "Makes the runtime, or systemd, start the adapter, and prints what is left to do. You may run it again."
    examples = "v010-adapter install -dry-run    # what it would do\nv010-adapter install -external"
    made = forms.parser("install", text, examples)
    text = "start the adapter as a service of systemd, beside the runtime; without it, the runtime launches the adapter"
    made.flag("external", text)
    text = f"the adapter's place among the node's NRI plugins, two digits (as installed; {forms.INDEX} at first)"
    made.flag("idx", text, metavar="NN", type=_index, default=None)
    return made.shared("o output")


def _index(text: str) -> str:
    if not re.fullmatch("[0-9]{2}", text, re.ASCII):
        raise ArgumentTypeError(f"{text!r} is not two digits")
    return text


def main(options: Namespace) -> int:
    node = forms.node(options.root, options.idx)
    links, service, superseded = forms.launched(node), forms.external(node), forms.superseded(node)
    wanted, others = (service, [*links, *superseded]) if options.external else (links, service)
    obstacles = list(forms.obstacles(node, wanted, others))
    warnings = [] if obstacles else list(forms.warnings(node))
    for text in obstacles or (f"warning: {text}" for text in warnings):
        show(f"{PROGRAM}: {text}", out=sys.stderr)
    drop_ins = list(switch_nri.wanted(node.root))
    made, removed = ([], []) if obstacles else ([*forms.configuration_files(node), *wanted, *drop_ins], superseded)
    actions = list(changes(made, removed, dry_run=options.dry_run))
    found = systems.present(node.root)
    nri_items = [item for system in found for item in nri.check(system, node.root)]
    restarts = any(one.is_change for one in actions if one.thing in drop_ins)
    planned = drop_ins if options.dry_run else []
    is_off = any(switch_nri.off(node.root, planned))
    start = list(_start(node.root, planned, restarts=restarts, is_external=options.external))
    if options.output == "json":
        things = [one.described for one in actions]
        told = {
            "problems": obstacles,
            "warnings": warnings,
            "changed": any(one.is_change for one in actions),
            "things": things,
            "nri": [{"status": item.status, "text": str(item)} for item in nri_items],
            "next": start,
        }
        show_json(told)
    elif not obstacles:
        for action in actions:
            action.show(dry_run=options.dry_run)
        _tell(node, made, nri_items, start, is_external=options.external)
    return FINDINGS if obstacles or is_off else FINE


def _tell(
    node: Node, made: Sequence[Thing], nri_items: Sequence[Item], start: Sequence[str], *, is_external: bool
) -> None:
    show(*(f"{item.status:14}{item}" for item in nri_items))
    show("", "To start it:", *(f"    {line}" for line in start))
    warning = "a runtime starts without a plugin whose program is gone, with one warning in its log"
    _say(f"Before you delete the program, run `{PROGRAM} uninstall`: {warning}.")
    own = [system for system in systems.present(node.root) if system.runtime == systems.CONTAINERD]
    services = [*(systems.unit(system, node.root) for system in own), *([PROGRAM] if is_external else [])]
    text = paths.read_text(in_root(node.root, settings.DEFAULT_PATH), settings.MAX_SIZE) or ""
    configured = settings.parse(text, settings.DEFAULT_PATH)[0].legacy.config
    if LIST in (configured, *(thing.path for thing in made)):
        _say(f"The list of legacy plugins is {LIST}: {RUNS}.")
    elif own and configured == SHARED and os.path.exists(in_root(node.root, SHARED)):
        kept = f"{SHARED} stays the list: otherwise, pods that run would miss their deletes"
        _say(f"{kept}. {RUNS}. To have the adapter run them instead:")
        show(*(f"    {line}" for line in _move_the_list(node.root, text, services)))


def _say(text: str) -> None:
    show("", *terminal.fitted([text], sys.stdout))


def _start(root: str, drop_ins: Sequence[File], *, restarts: bool, is_external: bool) -> Iterator[str]:
    """Yields what starts the adapter. `restarts`: whether the runtime must restart in any case."""
    for system in switch_nri.off(root, drop_ins):
        how = nri.obstacle(system, root) or nri.hint(system, root)
        yield f"# switch NRI on in {system.name}: {how}; then restart it"
    if restarts or not is_external:
        yield f"systemctl restart {forms.services(root)}"
    if is_external:
        yield from ("systemctl daemon-reload", f"systemctl restart {PROGRAM}")
    yield from (f"{PROGRAM} check", f"{PROGRAM} status")


def _move_the_list(root: str, text: str, services: Sequence[str]) -> Iterator[str]:
    """Yields the commands that move the list of legacy plugins. `text` is the configuration.

    They stop `services` meanwhile, so that no pod starts between the old list and the new one.
    """
    file = settings.DEFAULT_PATH
    yield "# First end the pods (kubectl drain): nobody would run their deletes"
    yield f"systemctl stop {' '.join(services)}"
    if os.path.lexists(in_root(root, LIST)):
        yield f"# put the plugins of {SHARED} into {LIST}, which exists; then: rm {SHARED}"
    else:
        yield f"mv {SHARED} {LIST}"
    if re.search(r"^legacy\s*:", text, re.MULTILINE):
        yield f"# in {file}, in the section `legacy`: write `config: {LIST}`"
    else:
        yield f"echo 'legacy: {{config: {LIST}}}' >>{file}"
    yield f"systemctl start {' '.join(services)}"
