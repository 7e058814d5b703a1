"""The adapter's own configuration, and the directory from which runtimes launch it."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator

from adapter import settings
from adapter.check.program import under
from adapter.check.report import NOTE, OK, PROBLEM, Entry
from adapter.errors import ConfigError
from adapter.settings import Settings

PLUGINS = "/opt/nri/plugins"
DROP_INS = "/etc/nri/conf.d"
COMMAND = "v010-adapter"


def read(file: str) -> tuple[Settings, list[Entry]]:
    """Returns the settings in a file, by default in the one that is in force, and what there is to say about it.

    Raises ConfigError for a named file that cannot be read.
    """
    if file:
        _open(file)
    found = file or _drop_in() or settings.DEFAULT_PATH
    own, errors = settings.read(found if file or os.path.lexists(found) else "")
    if errors:
        return own, [_problem(error) for error in errors]
    return own, [Entry(OK, "in order" if os.path.exists(found) else "not there: the defaults hold", found)]


def launch(host_root: str) -> list[Entry]:
    """Returns what is wrong with the directory from which runtimes launch plugins; all of them stumble over it."""
    directory = under(host_root, PLUGINS)
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    entries = [Entry(PROBLEM, reason, f"{directory}/{name}") for name in names for reason in _stumbles(directory, name)]
    ours = [name for name in names if _is_us(f"{directory}/{name}")]
    if ours:
        return [*entries, Entry(OK, f"the adapter is launched as {', '.join(ours)}", directory)]
    return [*entries, Entry(NOTE, "the adapter is not in there: runtimes do not launch it by themselves", directory)]


def _open(file: str) -> None:
    try:
        with open(file, "rb") as opened:
            opened.read(1)
    except (OSError, ValueError) as error:  # a path with a NUL character
        raise ConfigError(file, getattr(error, "strerror", None) or str(error)) from None


def _problem(error: ConfigError) -> Entry:
    file, _, line = error.place.rpartition(":")
    if file and line.isdigit():
        return Entry(PROBLEM, error.reason, file, int(line))
    return Entry(PROBLEM, error.reason, error.place)


def _drop_in() -> str:
    """Returns the file whose text a runtime that launches the adapter passes to it, empty if there is none."""
    if not os.path.isdir(PLUGINS):
        return ""
    links = [name for name in sorted(os.listdir(PLUGINS)) if _is_us(f"{PLUGINS}/{name}")]
    candidates = [f"{DROP_INS}/{name}.conf" for link in links for name in (link, link.partition("-")[2])]
    return next(filter(os.path.isfile, candidates), "")


def _is_us(path: str) -> bool:
    return os.path.exists(path) and os.path.basename(os.path.realpath(path)) == COMMAND


def _stumbles(directory: str, name: str) -> Iterator[str]:
    """Yields why runtimes would refuse to start; containerd/nri adaptation.go, discoverPlugins."""
    mode = os.lstat(f"{directory}/{name}").st_mode
    if stat.S_ISDIR(mode) or not mode & 0o111:
        return
    if not re.fullmatch(r"[0-9]{2}-.+", name):
        yield "an executable whose name is not NN-NAME: no runtime starts"
    elif stat.S_ISLNK(mode) and not os.path.exists(f"{directory}/{name}"):
        yield "a link that leads nowhere: no runtime starts"
