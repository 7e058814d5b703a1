"""The adapter as a plugin in a temporary directory, to try one-shot plugins and hooks apart from the node's own."""

from __future__ import annotations

import json
import os
import shlex
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from nri.testing.launch import PluginFile, undisturbed
from v010_adapter.cli.arguments import PROGRAM
from v010_adapter.container_files.document import read_argument
from v010_adapter.errors import ConfigError
from v010_adapter.host import trust
from v010_adapter.legacy import config

IDX = "00"
DEFAULT = "/tmp"  # noqa: S108 - it is checked
"""Where temporary directories are without TMPDIR."""
MAIN = (
    'import logging, sys; logging.getLogger("v010_adapter.stderr").setLevel(logging.DEBUG);'
    " from v010_adapter.cli.entry import main; sys.exit(main())"
)
"""Runs the adapter, which shows what programs print on stderr: who tries a program wants to see that."""


class Scratch(TemporaryDirectory[str]):
    """A temporary directory that is removed even at Ctrl-C: SIGINT is blocked while it is made and while it is removed.

    Programs in it are run. So it is never in the current directory, which Python would use if /tmp is full, and never
    in a directory that another user owns, or that all can write to. TMPDIR may be such a directory: `su` keeps it.
    """

    def __init__(self, prefix: str) -> None:
        """Raises ConfigError for a directory that must not be used, OSError for one that cannot be used."""
        above = os.environ.get("TMPDIR", "")
        if reason := trust.strict(above or DEFAULT, owned=True) or _noexec(above or DEFAULT):
            raise ConfigError(f"TMPDIR {above}" if above else DEFAULT, reason)
        with undisturbed():
            super().__init__(prefix=prefix, dir=above or DEFAULT)

    def cleanup(self) -> None:
        with undisturbed():
            super().cleanup()


def _noexec(directory: str) -> str:
    """Returns why no program runs in a directory, else nothing. Raises OSError."""
    is_noexec = os.statvfs(directory).f_flag & os.ST_NOEXEC
    return "is mounted noexec, and programs run there: set TMPDIR to another directory" if is_noexec else ""


def plugin(
    directory: Path, programs: Sequence[str], events: Sequence[str], hooks: Sequence[str], conf: str = ""
) -> PluginFile:
    """Returns an adapter that runs these programs at these events, and injects the hooks of these directories.

    With `conf`, it runs the programs of that conf.json instead, at the events of a configuration without `events`.
    Its files are written to `directory`. Raises ConfigError for what cannot be tried.
    """
    for program in programs:
        if not os.path.isfile(program) or not os.access(program, os.X_OK):
            reason = f"not executable: chmod +x {program}" if os.path.isfile(program) else "no such program"
            raise ConfigError(f"-legacy {program}", reason)
    for hooks_d in hooks:
        if not os.path.isdir(hooks_d):
            raise ConfigError(f"-hooks {hooks_d}", "no such directory")
    absolute = list(map(os.path.abspath, programs))
    conf_json = directory / "conf.json"
    text = json.dumps({"version": "0.1", "plugins": [{"type": path} for path in absolute]}).encode()
    if conf:
        text, _ = read_argument(conf)
        config.parse(text, conf)  # raises ConfigError if it has an error
    conf_json.write_bytes(text)
    own = {
        "trust": "off",
        "legacy": {
            "config": str(conf_json),
            "sandboxes": "always",
            "plugins": {path: {"events": list(events)} for path in absolute},
        },
        "hooks": {"enabled": bool(hooks), "precreate": True, "directories": list(map(os.path.abspath, hooks))},
    }
    return PluginFile(write_program(directory), IDX, PROGRAM, json.dumps(own))  # JSON is YAML


def write_program(directory: Path) -> Path:
    """Writes a program that runs this process's adapter to a directory; returns its path.

    It imports nothing from the current directory (`-P`): whoever can write there could run code as the user.
    """
    path = directory / f"{IDX}-{PROGRAM}"
    path.write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -c '{MAIN}' \"$@\"\n")
    path.chmod(stat.S_IRWXU)
    return path
