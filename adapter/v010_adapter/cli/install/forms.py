"""The two forms of an installation: a link from which the runtime launches the adapter, and a service of systemd."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from v010_adapter import settings
from v010_adapter.cli import systems
from v010_adapter.cli.arguments import PROGRAM, Parser
from v010_adapter.cli.check import configuration
from v010_adapter.cli.check.report import PROBLEM
from v010_adapter.cli.install import example
from v010_adapter.cli.install.things import File, Link, State, Thing
from v010_adapter.errors import ConfigError
from v010_adapter.host import paths
from v010_adapter.host.paths import in_root
from v010_adapter.host.trust import interpreters, judge

INDEX = "00"
UNIT = configuration.UNIT
WANTED = f"/etc/systemd/system/multi-user.target.wants/{PROGRAM}.service"
"""The link by which systemd starts the service at boot, as `systemctl enable` makes it."""
VOLATILE = "/tmp/", "/var/tmp/", "/run/", "/dev/"  # noqa: S108 - files there do not last


class Node(NamedTuple):
    """A node to install on: its root directory, the path of the command on it, and the adapter's index."""

    root: str
    program: str
    idx: str = INDEX


def parser(command: str, description: str, examples: str) -> Parser:
    made = Parser(command, description, examples=examples)
    made.flag("dry-run", "only print what would be done")
    made.flag("root", "the root directory of the node's files (/)", metavar="DIR", default="/", type=os.path.abspath)
    return made


def node(root: str, idx: str | None = None) -> Node:
    """Returns the node. Without `idx`, an installed adapter keeps its index. Raises ConfigError, OSError."""
    path = os.path.realpath(shutil.which(sys.argv[0]) or sys.argv[0])
    if os.path.basename(path) != PROGRAM:
        raise ConfigError(sys.argv[0], f"run the installed command, by its path: .../bin/{PROGRAM}")
    inside = os.path.realpath(root).rstrip("/") + "/"
    inner = path.replace(inside, "/", 1) if path.startswith(inside) else path
    return Node(root, inner, idx or next(_indexes(root), INDEX))


def _indexes(root: str) -> Iterator[str]:
    yield from (os.path.basename(link)[:2] for link in _links(root))
    with suppress(FileNotFoundError, ValueError):
        text = paths.read(in_root(root, UNIT), paths.MAX_INPUT)[0].decode("utf-8", "replace")
        yield from re.findall(r"^ExecStart=.* -idx ([0-9]{2}) ", text, re.MULTILINE)


def _links(root: str) -> list[str]:
    names = configuration.plugin_names(root)
    links = [f"{configuration.PLUGINS}/{name}" for name in names if re.fullmatch(rf"[0-9]{{2}}-{PROGRAM}", name)]
    return [link for link in links if Link(root, link, PROGRAM).state() is State.OLD]


def services(root: str) -> str:
    """Returns the units of the runtimes on this node, for a command that people copy."""
    units = dict.fromkeys(systems.unit(system, root) for system in systems.present(root))
    return "    # or ".join(filter(None, units)) or "containerd    # or the unit that starts your runtime"


def configuration_files(node: Node) -> list[Thing]:
    """Returns the list of legacy plugins, where it is the adapter's own, and the configuration file. Raises OSError.

    It is its own where nobody has written a configuration or a list: elsewhere, pods that run would miss their deletes.
    """
    file = File(node.root, settings.DEFAULT_PATH, example.text(), example.is_ours)
    if (state := file.state()) is State.MISSING:
        others = in_root(node.root, settings.DEFAULT_CONF_JSON, follow=False), configuration.drop_in(node.root)
        is_own = not any(map(os.path.lexists, others))
    else:
        is_own = state is State.OLD and example.names_own_list(paths.read_text(in_root(node.root, file.path)) or "")
    return [own_list(node), replace(file, content=example.text(own_list=True))] if is_own else [file]


def own_list(node: Node) -> Thing:
    """Returns the list of legacy plugins. One with plugins is the administrator's."""
    return File(node.root, example.LIST, example.EMPTY_LIST, lambda _: False)


def launched(node: Node) -> list[Thing]:
    return [Link(node.root, _link(node), node.program)]


def superseded(node: Node) -> list[Thing]:
    """Returns the adapter's links with other indexes, with which runtimes would launch it twice. Raises OSError."""
    return [Link(node.root, link, node.program) for link in _links(node.root) if link != _link(node)]


def _link(node: Node) -> str:
    return f"{configuration.PLUGINS}/{node.idx}-{PROGRAM}"


def external(node: Node) -> list[Thing]:
    template = Path(__file__).with_name(f"{PROGRAM}.service").read_text()
    header = template.split("\n")[0]
    quoted = f'"{node.program.replace("%", "%%")}"'
    text = template.replace("{program}", quoted).replace("{idx}", node.idx)
    unit = File(node.root, UNIT, text, lambda text: text.startswith(header))
    return [unit, Link(node.root, WANTED, UNIT)]


def obstacles(node: Node, wanted: Sequence[Thing], others: Sequence[Thing]) -> Iterator[str]:
    """Yields why the wanted form cannot be installed. Raises OSError."""
    path = in_root(node.root, node.program)
    fault = paths.start_fault(path) if node.root == "/" else "" if os.path.exists(path) else "does not exist"
    if fault:
        yield f"{path} {fault}" + ("" if node.root == "/" else f": install the command below {node.root} first")
    for thing in wanted:
        if thing.state() is State.FOREIGN:
            yield f"{thing.path} exists, and is not from an installation of the adapter"
    for thing in others:
        if thing.state() in (State.CURRENT, State.OLD):
            yield f"{thing.path} exists: the adapter would run twice; run `{PROGRAM} uninstall` first"


def warnings(node: Node) -> Iterator[str]:
    """Yields what would stop runtimes or the adapter, make users root, or run plugins twice."""
    if node.program.startswith(VOLATILE):
        yield f"{node.program} may be gone after a reboot: the runtime then starts without it"
    beside = f"{os.path.dirname(node.program)}/python3"  # the command starts it: see deploy/v010-adapter
    started = [beside] if os.path.exists(in_root(node.root, beside)) else []
    verdicts = [
        judge(path, node.root) for path in (node.program, *interpreters(node.program, os.defpath, node.root), *started)
    ]
    for reason in dict.fromkeys(reason for error, told in verdicts for reason in (error, *told) if reason):
        yield f"{reason}: whoever can write it becomes root"
    ours = [_link(node), *_links(node.root)]
    for entry in configuration.launch(node.root, will_run=True):
        if entry.status == PROBLEM and not entry.file.endswith(tuple(ours)):
            yield str(entry)
