"""Who runs the legacy plugins for pods: containerd from 2.0 on does so itself, for those of its own conf.json."""

from __future__ import annotations

import logging
import os
import re

from adapter.legacy.request import Target
from adapter.legacy.subscriptions import ORIGINAL
from adapter.loop import Loop
from adapter.paths import under
from adapter.settings import DEFAULT_CONF_JSON, LegacySettings

log = logging.getLogger(__name__)


def is_runtimes_own(conf_json: str, host_root: str) -> bool:
    """Whether a conf.json is the file that the runtime of the node at `host_root` reads."""
    try:
        return os.path.samefile(conf_json, under(host_root, DEFAULT_CONF_JSON))
    except OSError:
        return False


class Sandboxes:
    """Decides whether the events of pods are left to the runtime."""

    def __init__(self, loop: Loop, settings: LegacySettings, host_root: str) -> None:
        self._loop = loop
        self._settings = settings
        self._host_root = host_root
        self._runtime_runs_plugins = False

    def runtime_is(self, name: str, version: str) -> None:
        """Learns which runtime this is.

        Measured with containerd 2.0.14 to 2.4.2; 1.7 does not run the plugins, and no other runtime ever did.
        """
        major = re.match(r"v?(\d+)\.", version)
        self._runtime_runs_plugins = name == "containerd" and (major is None or int(major[1]) > 1)
        if self.are_left:
            text = f"sandboxes are left to {name} {version}, which runs the plugins in {self._settings.config} for them"
            self._loop.call_soon(lambda: log.info("%s", text))  # the runtime waits for the answer

    @property
    def are_left(self) -> bool:
        """Whether the runtime reads the very same conf.json and runs its plugins for pods."""
        if self._settings.sandboxes != "auto":
            return self._settings.sandboxes == "never"
        return self._runtime_runs_plugins and is_runtimes_own(self._settings.config, self._host_root)

    def is_left(self, event: str, target: Target) -> bool:
        """Whether an event is left to the runtime."""
        return target.is_sandbox and event in ORIGINAL and self.are_left
