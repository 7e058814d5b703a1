"""Who runs the legacy plugins for pods: some versions of containerd themselves run those of their own conf.json."""

from __future__ import annotations

import errno
import logging
import os
from functools import cached_property
from typing import NamedTuple

from nri.runtimes import Runtime
from v010_adapter.errors import ConfigError, reason_of
from v010_adapter.host.paths import in_root
from v010_adapter.host.trust import off
from v010_adapter.legacy.config import read
from v010_adapter.legacy.plan import ORIGINAL
from v010_adapter.settings import DEFAULT_CONF_JSON, LegacySettings

log = logging.getLogger(__name__)

CHUNK = 1 << 20
"""Bytes of an executable that are read at a time."""


def is_runtimes_own(conf_json: str, host_root: str) -> bool:
    """Whether a conf.json is the file that the runtime of the node at `host_root` reads."""
    try:
        return os.path.samefile(conf_json, in_root(host_root, DEFAULT_CONF_JSON))
    except OSError:
        return False


def names_conf_json(pid: int) -> bool:
    """Whether the executable of a process contains the path of conf.json. A pid of 0 is unknown. Raises OSError."""
    if not pid:
        raise OSError(errno.ESRCH, "its process is in another pid namespace")
    sought = DEFAULT_CONF_JSON.encode()
    text = b""
    with open(f"/proc/{pid}/exe", "rb") as executable:
        while chunk := executable.read(CHUNK):
            text = text[-len(sought) :] + chunk
            if sought in text:
                return True
    return False


class SandboxVerdict(NamedTuple):
    """Whether the runtime itself runs the plugins for pods, and why. If that is not known, the adapter guesses."""

    runtime_runs: bool
    why: str
    is_known: bool = True


class Sandboxes:
    """Decides who runs the plugins at the events of pods: the runtime or the adapter."""

    def __init__(self, settings: LegacySettings, host_root: str, runtime: Runtime, pid: int) -> None:
        """Takes the settings, the root of the node's files, the runtime, and its pid (0: unknown)."""
        self._settings = settings
        self._host_root = host_root
        self._runtime = runtime
        self._pid = pid

    @cached_property
    def _evidence(self) -> SandboxVerdict:
        """Judges a runtime that has the same conf.json by its version, if that was measured, else by its executable."""
        name = f"{self._runtime.name} {self._runtime.version}"
        runs = self._runtime.runs_plugins_for_pods
        if runs is not None:
            return SandboxVerdict(runs, f"{name} {'runs' if runs else 'does not run'} them itself")
        try:
            runs = names_conf_json(self._pid)
        except OSError as error:
            why = f"whether {name} runs them itself is not known, its executable cannot be read: {error.strerror}"
            return SandboxVerdict(False, f"{why} (legacy.sandboxes)", is_known=False)
        return SandboxVerdict(
            runs, f"the executable of {name} {'contains' if runs else 'does not contain'} {DEFAULT_CONF_JSON}"
        )

    def fault(self) -> str:
        """Returns why the runtime makes no pod, empty if it does: it reads its conf.json, whoever runs the plugins."""
        try:
            error = read(in_root(self._host_root, DEFAULT_CONF_JSON), off).error
        except OSError as loop:  # of links
            error = ConfigError(DEFAULT_CONF_JSON, reason_of(loop))
        if error is None or not self._evidence.runtime_runs:
            return ""
        return f"{error}; all pods of this node fail: {self._runtime.name} {self._runtime.version} reads it, too"

    def _verdict(self) -> SandboxVerdict:
        config, configured = self._settings.config, self._settings.sandboxes
        if configured != "auto":
            return SandboxVerdict(configured == "never", f"legacy.sandboxes: {configured}")
        if is_runtimes_own(config, self._host_root):
            return self._evidence
        return SandboxVerdict(False, f"no runtime reads {config}")

    @property
    def runtime_runs(self) -> bool:
        """Whether the runtime reads the very same conf.json and runs its plugins for pods."""
        return self._verdict().runtime_runs

    def runtime_runs_at(self, event: str) -> bool:
        """Whether the runtime runs the plugins at an event of a pod."""
        return event in ORIGINAL and self.runtime_runs

    def describe(self, pods: int = 0) -> str:
        """Returns who runs the plugins for pods, and why; empty without a conf.json.

        `pods` is the number of pods whose create the runtime has run: it runs their deletes, too.
        """
        if not os.path.exists(self._settings.config):
            return ""
        runtime_runs, why, _ = self._verdict()
        them = "1 pod gets its delete" if pods == 1 else f"{pods} pods get their deletes"
        end = f"; {them} from the runtime" if pods and self._settings.sandboxes == "auto" else ""
        return f"plugins for pods are {'left to the runtime' if runtime_runs else 'run by the adapter'}: {why}{end}"

    def log_verdict(self) -> None:
        """Logs who runs the plugins for pods, unless that is configured."""
        if self._settings.sandboxes == "auto" and (text := self.describe()):
            log.log(logging.INFO if self._verdict().is_known else logging.WARNING, "%s", text)
