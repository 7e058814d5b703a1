"""Checks the adapter's own configuration, and the directory from which runtimes launch it."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress

from v010_adapter import settings
from v010_adapter.cli import systems
from v010_adapter.cli.arguments import PROGRAM
from v010_adapter.cli.check.report import NOTE, OK, PROBLEM, Item, problem
from v010_adapter.errors import reason_of
from v010_adapter.host.paths import in_root, is_binary
from v010_adapter.settings import HooksSettings, Settings

PLUGINS, DROP_INS = systems.PLUGINS, systems.DROP_INS
UNIT = f"/etc/systemd/system/{PROGRAM}.service"
"""The unit of systemd that `install -external` makes."""
USUAL = {settings.DEFAULT_CONF_JSON, *HooksSettings().directories}
"""The default list of plugins and directories of hooks, which need not exist."""
OTHERS = re.compile(rf"[0-9]{{2}}-(?:{PROGRAM}|hook-injector)")
"""The names of upstream's plugins with the same purpose."""


def read(file: str, root: str = "/") -> tuple[Settings, list[Item]]:
    """Returns the settings in a file and the results for it. By default, this is the file that the adapter uses.

    `root` is the directory of the node's files. Raises ConfigError for a named file that cannot be read.
    """
    path = file or drop_in(root) or in_root(root, settings.DEFAULT_PATH)
    config, errors = settings.read(path if file or systems.may_exist(path) else "")
    if file and not config.file:
        raise errors[0]
    if errors:
        return config, list(map(problem, errors))
    return config, [Item(OK, "in order" if os.path.exists(path) else "does not exist: the defaults are used", path)]


def missing(path: str, host_root: str, key: str, result: str) -> Item:
    """Returns the result for a path that does not exist. It is a problem if somebody has configured the path."""
    if path.removeprefix(host_root.rstrip("/")) in USUAL:
        return Item(OK, f"does not exist: {result}", path)
    return Item(PROBLEM, f"does not exist: {result}, but {key} names it", path)


def launch(host_root: str, *, will_run: bool = False) -> list[Item]:
    """Returns the results for what starts the adapter: systemd, or a runtime, which a plugin with a bad name can stop.

    `will_run`: the adapter is about to be installed.
    """
    directory, links = in_root(host_root, PLUGINS), launched(host_root)
    if systems.may_exist(directory) and not os.access(directory, os.R_OK | os.X_OK, effective_ids=True):
        return [Item(PROBLEM, os.strerror(errno.EACCES), directory)]
    problems = [
        Item(PROBLEM, reason, f"{directory}/{name}")
        for name in plugin_names(host_root)
        if name not in links and (reason := _fault(host_root, f"{PLUGINS}/{name}"))
    ]
    problems += [item for name in plugin_names(host_root) for item in _drop_in_faults(host_root, name)]
    has_unit = os.path.exists(in_root(host_root, UNIT))
    status, end = (PROBLEM, ", so they run twice") if will_run or links or has_unit else (NOTE, "")
    problems += [
        Item(status, f"also runs legacy plugins or hooks{end}", f"{directory}/{name}")
        for name in plugin_names(host_root)
        if name not in links and OTHERS.fullmatch(name) and os.path.exists(in_root(host_root, f"{PLUGINS}/{name}"))
    ]
    if links:
        start = Item(OK, f"the adapter is launched as {', '.join(links)}", directory)
    elif has_unit:
        start = Item(OK, "systemd starts the adapter", UNIT)
    else:
        start = Item(NOTE, "the adapter is not in this directory: runtimes do not launch it", directory)
    return [*problems, start]


def names(host_root: str) -> set[str]:
    """Returns the adapter's names in runtimes, with and without an index."""
    links = launched(host_root) or [f"00-{PROGRAM}"]
    return {name for link in links for name in (link, link.partition("-")[2])}


def drop_in(root: str) -> str:
    """Returns the file whose text a runtime passes to the adapter when it launches it, empty if there is none."""
    names = [name for link in launched(root) for name in (link, link.partition("-")[2])]
    return next(filter(os.path.isfile, (in_root(root, f"{DROP_INS}/{name}.conf") for name in names)), "")


def launched(host_root: str) -> list[str]:
    files = [(name, os.path.realpath(in_root(host_root, f"{PLUGINS}/{name}"))) for name in plugin_names(host_root)]
    return [name for name, file in files if os.path.basename(file) == PROGRAM and _is_script(file)]


def _is_script(file: str) -> bool:
    """Whether a file may be the adapter: upstream's adapter is a binary of the same name."""
    return os.path.isfile(file) and not (os.access(file, os.R_OK, effective_ids=True) and is_binary(file))


def plugin_names(host_root: str) -> list[str]:
    """Returns the names in the directory from which runtimes launch plugins, none if it cannot be read."""
    with suppress(OSError):
        return sorted(os.listdir(in_root(host_root, PLUGINS)))
    return []


def _is_plugin(host_root: str, path: str) -> bool:
    """Whether runtimes take a file of their directory for a plugin; they do not follow links."""
    mode = os.lstat(in_root(host_root, path, follow=False)).st_mode
    return not stat.S_ISDIR(mode) and bool(mode & 0o111)


def _drop_in_faults(host_root: str, name: str) -> Iterator[Item]:
    """Yields the result for a plugin's drop-in over which no runtime starts; see plugin.go, getPluginConfig."""
    if not _is_plugin(host_root, f"{PLUGINS}/{name}"):
        return
    for file in (f"{DROP_INS}/{name}.conf", f"{DROP_INS}/{name.partition('-')[2]}.conf"):
        try:
            if not stat.S_ISDIR(os.stat(in_root(host_root, file)).st_mode):
                return  # the first one counts
            reason = os.strerror(errno.EISDIR)
        except (FileNotFoundError, PermissionError):  # runtimes are root
            continue
        except OSError as error:
            reason = reason_of(error)
        yield Item(PROBLEM, f"cannot be read ({reason}): no runtime starts", host_root.rstrip("/") + file)
        return


def _fault(host_root: str, path: str) -> str:
    """Returns why no runtime starts, or starts without a plugin; see adaptation.go, discoverPlugins."""
    if not _is_plugin(host_root, path):
        return ""
    if not re.fullmatch(r"[0-9]{2}-.+", os.path.basename(path)):
        return "an executable whose name is not NN-NAME: no runtime starts"
    exists = os.path.exists(in_root(host_root, path))
    return "" if exists else "a link that leads nowhere: runtimes start without this plugin"
