"""The runtime that is served: its version of NRI, and its differences from other runtimes."""

from __future__ import annotations

import re
from typing import NamedTuple

from nri.proto import nri_pb2 as api

Version = tuple[int, ...]

OLDEST: Version = (0, 8, 0)
"""The version that is assumed for a runtime that reports none. It is the one of containerd 1.7 to 2.1."""
LATE_PLUGINS_STAY: Version = (0, 12, 4)
"""Since this version the runtime keeps a plugin whose answer is late, if the plugin's failure policy asks for it."""
UPDATES_AT_ANY_TIME: Version = (0, 12, 1)
"""Since this version an unsolicited UpdateContainers cannot deadlock the runtime."""


class Habits(NamedTuple):
    """How a runtime differs from others. The defaults are for runtimes that nobody has measured."""

    no_hooks: str = ""
    """Why a plugin must not inject hooks, empty if it may."""
    no_updates: str = ""
    """Why no container can be updated, empty if they can."""
    no_ends: str = ""
    """Why no event reports the stop of a pod or container, empty if one does. A container may then restart unseen."""
    hides_refused: bool = False
    """Whether no event reports the end of a container whose creation was refused."""
    hides_earlier_pods: bool = False
    """Whether no event reports the stop of a pod that was there before the runtime's restart."""


_HABITS = {
    "containerd": Habits(hides_earlier_pods=True),
    "cri-o": Habits(no_hooks="CRI-O injects those of its own hooks_dir", hides_refused=True),
    "docker": Habits(
        no_hooks="Docker refuses containers with injected hooks",
        no_updates="Docker takes no updates of containers",
        no_ends="Docker tells of the creation of containers only",
    ),
}

_RUNS_PLUGINS_FOR_PODS: dict[Version, bool] = {(1, 7): False, **dict.fromkeys([(2, minor) for minor in range(5)], True)}
"""Whether a version of containerd runs the plugins of its conf.json for pods; measured with 1.7.35, 2.0.14 to 2.4.2."""


class Runtime(NamedTuple):
    """A runtime: its name in lower case, its version in the runtime's own form, and its version of NRI."""

    name: str = ""
    version: str = ""
    nri: Version = OLDEST

    @property
    def habits(self) -> Habits:
        """How this runtime differs from others."""
        return _HABITS.get(self.name, Habits())

    @property
    def refuses_updates(self) -> str:
        """Why containers cannot be updated outside of an answer to an event, empty if they can."""
        if self.nri < UPDATES_AT_ANY_TIME:
            first = ".".join(map(str, UPDATES_AT_ANY_TIME))
            return (
                f"{self.name} {self.version} may deadlock over updates outside of an answer, as all before NRI {first}"
            )
        return self.habits.no_updates

    @property
    def runs_plugins_for_pods(self) -> bool | None:
        """Whether the runtime itself runs the plugins of its conf.json for pods; None for versions not measured."""
        if self.name != "containerd":
            return False
        return _RUNS_PLUGINS_FOR_PODS.get(numbers(self.version)[:2])


_FIRST_WITH_0_11 = {"containerd": (2, 2, 0), "cri-o": (1, 36, 0)}
"""The first version of each runtime with NRI 0.11 (from its go.mod). Earlier versions count as OLDEST."""


def of(request: api.ConfigureRequest) -> Runtime:
    """Returns the runtime that has sent this request. Runtimes report their version of NRI since 0.12."""
    name = request.runtime_name.lower()
    nri = numbers(request.NRI_version)
    if not nri:
        first = _FIRST_WITH_0_11.get(name)
        nri = (0, 11, 0) if first and numbers(request.runtime_version) >= first else OLDEST
    return Runtime(name, request.runtime_version, nri)


def numbers(version: str) -> Version:
    """Returns the numbers of a version such as `v0.12.5` or `0.9.1-pre`, none for another text."""
    match = re.match(r"v?(\d+)\.(\d+)\.(\d+)", version)
    return tuple(map(int, match.groups())) if match else ()
