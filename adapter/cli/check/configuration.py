"""Checks the adapter's own configuration, and the directory from which runtimes launch it."""

from __future__ import annotations

import os
import re
import stat

from adapter import settings
from adapter.cli.arguments import PROGRAM
from adapter.cli.check.report import NOTE, OK, PROBLEM, Item
from adapter.errors import ConfigError
from adapter.host.paths import in_root
from adapter.settings import Settings

PLUGINS = "/opt/nri/plugins"
DROP_INS = "/etc/nri/conf.d"
UNIT = f"/etc/systemd/system/{PROGRAM}.service"
"""The unit of systemd that `install -external` makes."""


def read(file: str) -> tuple[Settings, list[Item]]:
    """Returns the settings in a file and the results for it. By default, this is the file that the adapter uses.

    Raises ConfigError for a named file that cannot be read.
    """
    path = file or _drop_in() or settings.DEFAULT_PATH
    config, errors = settings.read(path if file or os.path.lexists(path) else "")
    if file and not config.file:
        raise errors[0]
    if errors:
        return config, list(map(_problem, errors))
    return config, [Item(OK, "in order" if os.path.exists(path) else "does not exist: the defaults are used", path)]


def launch(host_root: str) -> list[Item]:
    """Returns the results for what starts the adapter: systemd, or runtimes, which a bad name of any plugin affects."""
    directory = in_root(host_root, PLUGINS)
    problems = [
        Item(PROBLEM, reason, f"{directory}/{name}")
        for name in plugin_names(host_root)
        if (reason := _fault(host_root, f"{PLUGINS}/{name}"))
    ]
    if links := _links(host_root):
        start = Item(OK, f"the adapter is launched as {', '.join(links)}", directory)
    elif os.path.exists(in_root(host_root, UNIT)):
        start = Item(OK, "systemd starts the adapter", UNIT)
    else:
        start = Item(NOTE, "the adapter is not in this directory: runtimes do not launch it", directory)
    return [*problems, start]


def names(host_root: str) -> set[str]:
    """Returns the adapter's names in runtimes, with and without an index."""
    links = _links(host_root) or [f"00-{PROGRAM}"]
    return {name for link in links for name in (link, link.partition("-")[2])}


def _problem(error: ConfigError) -> Item:
    file, _, line = error.place.rpartition(":")
    place = (file, int(line)) if file and line.isdigit() else (error.place, 0)
    return Item(PROBLEM, error.reason, *place)


def _drop_in() -> str:
    """Returns the file whose text a runtime passes to the adapter when it launches it, empty if there is none."""
    candidates = [f"{DROP_INS}/{name}.conf" for link in _links("/") for name in (link, link.partition("-")[2])]
    return next(filter(os.path.isfile, candidates), "")


def _links(host_root: str) -> list[str]:
    """Returns the adapter's names in the directory of plugins."""
    files = [(name, os.path.realpath(in_root(host_root, f"{PLUGINS}/{name}"))) for name in plugin_names(host_root)]
    return [name for name, file in files if os.path.exists(file) and os.path.basename(file) == PROGRAM]


def plugin_names(host_root: str) -> list[str]:
    """Returns the names in the directory from which runtimes launch plugins."""
    directory = in_root(host_root, PLUGINS)
    return sorted(os.listdir(directory)) if os.path.isdir(directory) else []


def _fault(host_root: str, path: str) -> str:
    """Returns why runtimes would refuse to start, empty if they would not; see adaptation.go, discoverPlugins."""
    mode = os.lstat(in_root(host_root, path, follow=False)).st_mode
    if stat.S_ISDIR(mode) or not mode & 0o111:
        return ""
    if not re.fullmatch(r"[0-9]{2}-.+", os.path.basename(path)):
        return "an executable whose name is not NN-NAME: no runtime starts"
    return "" if os.path.exists(in_root(host_root, path)) else "a link that leads nowhere: no runtime starts"
