"""The runtime that is played, and the differences between versions of NRI.

Failure policies (NRI 0.12.4) are not played, because no released runtime has them.
"""

from __future__ import annotations

from dataclasses import dataclass

from nri import api
from nri.runtimes import numbers

# First versions with a feature, in pkg/adaptation and pkg/api of the modules 0.8.0 to 0.12.5.
POD_UPDATES = (0, 9, 1)  # in CRI-O 1.34.0, before the release of 0.10
VALIDATION = (0, 10, 0)
DEDICATED_CALLS = (0, 12, 0)

ALWAYS_DEDICATED = frozenset(
    ("CreateContainer", "UpdateContainer", "StopContainer", "UpdatePodSandbox", "ValidateContainerAdjustment")
)
"""The events that have their own call in every version. The others were StateChange in earlier versions."""

AFTER_FAILURE = {
    "RunPodSandbox": ("StopPodSandbox", "RemovePodSandbox"),
    "CreateContainer": ("StopContainer", "RemoveContainer"),
    "StartContainer": ("StopContainer", "RemoveContainer"),
}
"""The events of a pod or container that runtimes still send after one of these failed."""
TOLERATED = {("cri-o", "StartContainer")}
"""Errors that a runtime only logs. CRI-O up to 1.36.3 starts the container nevertheless."""


@dataclass(frozen=True)
class Flavour:
    """A runtime, the version of its NRI module (`v0.12.5`, `0.9.1-pre`), and its timeouts in seconds.

    The default timeouts are those of containerd and CRI-O.
    """

    name: str = "containerd"
    version: str = "v2.4.2"
    nri: str = "v0.12.3"
    registration_timeout: float = 5.0
    request_timeout: float = 2.0

    @property
    def valid_events(self) -> int:
        """The mask of all events that the runtime knows. A plugin that asks for others is refused."""
        return 0x3FFF if self._has(VALIDATION) else 0x1FFF if self._has(POD_UPDATES) else 0x7FF

    @property
    def dedicated(self) -> bool:
        """Whether every event has its own call; otherwise most events are a StateChange."""
        return self._has(DEDICATED_CALLS)

    def configure_request(self, config: str) -> api.ConfigureRequest:
        """Returns the Configure request for a plugin with this configuration."""
        return api.ConfigureRequest(
            config=config,
            runtime_name=self.name,
            runtime_version=self.version,
            registration_timeout=round(self.registration_timeout * 1000),
            request_timeout=round(self.request_timeout * 1000),
            NRI_version=self.nri if self.dedicated else "",
        )

    def after_failure(self, event: str) -> tuple[str, ...] | None:
        """Returns the events that the pod or container still has after this one failed, None for all of them."""
        return None if (self.name, event) in TOLERATED else AFTER_FAILURE.get(event)

    def _has(self, first_version: tuple[int, ...]) -> bool:
        return numbers(self.nri) >= first_version


FLAVOURS = {
    f"{flavour.name}/{flavour.version.removeprefix('v')}": flavour
    for flavour in (
        Flavour(version="1.7.35", nri="v0.8.0"),
        Flavour(version="v2.0.14", nri="v0.8.0"),
        Flavour(version="v2.2.1", nri="v0.11.0"),
        Flavour(version="v2.3.4", nri="v0.12.0"),
        Flavour(version="v2.4.2", nri="v0.12.3"),
        Flavour("cri-o", version="1.34.0", nri="v0.9.1-pre"),
        Flavour("cri-o", version="1.36.3", nri="v0.11.0"),
    )
}
"""Runtimes that the project is tested with, by name and version."""
