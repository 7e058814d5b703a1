"""Everything the demo's adapter gets to see: plugins, hooks, configuration, a make-believe cgroup, and a log."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import adapter
from adapter.errors import ConfigError
from adapter.runtime.demo import hooks

NAME = "00-v010-adapter"
PLUGINS = ("clearcfs", "dump", "logger")
COMMAND = Path(sys.executable).with_name("v010-adapter")
"""The command that was installed along with this interpreter."""
QUOTA = "50000 100000"  # that of the recorded container, as cgroup v2 writes it
NO_QUOTA = "max 100000"

PACKAGE = Path(adapter.__file__).parent
SAMPLES = (PACKAGE.parent / "legacy-plugins", PACKAGE / "samples" / "legacy-plugins")
"""Where the samples are: beside the package in a checkout, in it when it was installed."""
HOOK_SAMPLES = (PACKAGE.parent / "hooks.d", PACKAGE / "samples" / "hooks.d")


class Stage:
    """A temporary directory, set up for the demo."""

    def __init__(self, root: Path, cgroups: dict[str, str]) -> None:
        """Sets the directory up. `cgroups` is what stands in the `cpu.max` of which cgroup. Raises ConfigError."""
        self.root = root
        self.plugins = root / "plugins"
        self.config = root / "conf.d"
        self.dumps = root / "dump"
        self.hooks = root / "hooks.d"
        self.samples = _samples(SAMPLES, PLUGINS, "plugins")
        self.hook_samples = _samples(HOOK_SAMPLES, (*hooks.HOOKS, hooks.RECORD), "hooks")
        self.record = hooks.install(self.hook_samples, self.hooks, root / "oci-hooks.jsonl")
        """Where a node has the program of record.json."""
        for directory in (self.plugins, self.config, self.dumps):
            directory.mkdir()
        for cgroup, quota in cgroups.items():
            file = self.quota_file(cgroup)
            file.parent.mkdir(parents=True)
            file.write_text(quota)
        self._install()
        self._configure()
        self.log = (root / "adapter.log").open("ab", buffering=0)
        """The adapter's stderr: a file, for nobody reads while it writes."""
        self._tail = (root / "adapter.log").open(encoding="utf-8", errors="replace")
        self._unfinished = ""

    def close(self) -> None:
        """Closes the log."""
        self.log.close()
        self._tail.close()

    @property
    def drop_in(self) -> Path:
        """The adapter's own configuration, as the runtime hands it on."""
        return self.config / "v010-adapter.conf"

    def quota_file(self, cgroup: str) -> Path:
        """Returns the file with the CPU quota of a cgroup."""
        return self.root / "cgroup" / cgroup.lstrip("/") / "cpu.max"

    def new_log_lines(self) -> Iterator[dict[str, Any]]:
        """Yields what the adapter has logged since the last time; what is no JSON comes as a message."""
        *lines, self._unfinished = (self._unfinished + self._tail.read()).split("\n")
        for line in lines:
            try:
                yield json.loads(line)
            except ValueError:
                yield {"level": "error", "message": line}

    def _install(self) -> None:
        """Puts the adapter into the plugin directory: a symlink, as on a node; a script where there is no command."""
        link = self.plugins / NAME
        if COMMAND.is_file():
            link.symlink_to(COMMAND)
            return
        path = [str(PACKAGE.parent), *sys.path]  # the environment that may have made it does not get through
        code = f"import sys; sys.path[:] = {path!r}; from adapter.cli import main; sys.exit(main())"
        link.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(code)} "$@"\n')
        link.chmod(0o755)

    def _configure(self) -> None:
        """Writes the original's conf.json, and the adapter's own configuration as the runtime's drop-in."""
        conf = self.root / "conf.json"
        settings = {
            "clearcfs": {"cgroupRoot": str(self.root / "cgroup")},
            "dump": {"directory": str(self.dumps)},
            "logger": None,
        }
        entries = [{"type": name, **({"conf": settings[name]} if settings[name] else {})} for name in PLUGINS]
        conf.write_text(json.dumps({"version": "0.1", "plugins": entries}))
        own = {
            "legacy": {"config": str(conf), "path": [str(self.samples)], "sandboxes": "always"},
            "hooks": {"directories": [str(self.hooks)]},
            "log": {"level": "debug", "format": "json", "target": "stderr"},
        }
        self.drop_in.write_text(json.dumps(own))  # JSON is YAML, and quotes every path


def _samples(directories: Sequence[Path], names: Sequence[str], what: str) -> Path:
    for directory in directories:
        if all((directory / name).is_file() for name in names):
            return directory
    raise ConfigError(" or ".join(map(str, directories)), f"the sample {what} {', '.join(names)} are not there")
