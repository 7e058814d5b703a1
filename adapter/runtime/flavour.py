"""Which runtime is played, and what its version of NRI does differently from others."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from adapter.nri import api

# Versions from which on; seen in pkg/adaptation and pkg/api of the modules 0.6.1 to 0.12.5.
TIMEOUTS_TOLD = (0, 8, 0)
POD_UPDATES = (0, 9, 1)  # as CRI-O 1.34.0 has it, before the release of 0.10
VALIDATION = (0, 10, 0)
DEDICATED_CALLS = (0, 12, 0)
FAILURE_POLICIES = (0, 12, 4)

ALWAYS_DEDICATED = frozenset(
    ("CreateContainer", "UpdateContainer", "StopContainer", "UpdatePodSandbox", "ValidateContainerAdjustment")
)
"""Events that have had a call of their own in every version; the others began as StateChange."""


@dataclass(frozen=True)
class Flavour:
    """A runtime as its plugins see it. The timeouts, in seconds, are containerd's and CRI-O's defaults."""

    name: str = "containerd"
    version: str = "v2.4.2"
    nri: str = "v0.12.3"
    """The version of the NRI module that it is built with: `v0.12.5`, `0.9.1-pre`."""
    registration_timeout: float = 5.0
    request_timeout: float = 2.0

    def __post_init__(self) -> None:
        """Raises ValueError for an `nri` that is no version."""
        if not re.match(r"v?\d+\.\d+\.\d+", self.nri):
            raise ValueError(f"no version of NRI: {self.nri!r}")

    @cached_property
    def valid_events(self) -> int:
        """The mask of all events that it knows; a plugin that asks for others is refused."""
        return 0x3FFF if self._since(VALIDATION) else 0x1FFF if self._since(POD_UPDATES) else 0x7FF

    @cached_property
    def dedicated(self) -> bool:
        """Whether every event is a call of its own; otherwise most are a StateChange."""
        return self._since(DEDICATED_CALLS)

    @cached_property
    def failure_policies(self) -> bool:
        """Whether the policy in a plugin's answer to Configure counts."""
        return self._since(FAILURE_POLICIES)

    def introduction(self, config: str) -> api.ConfigureRequest:
        """Returns what it tells a plugin of itself, along with the plugin's configuration."""
        request = api.ConfigureRequest(config=config, runtime_name=self.name, runtime_version=self.version)
        if self._since(TIMEOUTS_TOLD):
            request.registration_timeout = round(self.registration_timeout * 1000)
            request.request_timeout = round(self.request_timeout * 1000)
        if self.dedicated:
            request.NRI_version = self.nri
        return request

    def _since(self, version: tuple[int, int, int]) -> bool:
        match = re.match(r"v?(\d+)\.(\d+)\.(\d+)", self.nri)
        return match is not None and tuple(map(int, match.groups())) >= version


FLAVOURS = {
    f"{one.name}-{one.version.removeprefix('v')}": one
    for one in (
        Flavour(version="1.7.35", nri="v0.8.0"),
        Flavour(version="v2.0.14", nri="v0.8.0"),
        Flavour(version="v2.2.1", nri="v0.11.0"),
        Flavour(version="v2.3.4", nri="v0.12.0"),
        Flavour(version="v2.4.2", nri="v0.12.3"),
        Flavour("cri-o", version="1.34.0", nri="v0.9.1-pre"),
    )
}
"""Runtimes that have been looked at closely, by name and version."""
