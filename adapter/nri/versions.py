"""The NRI version of a runtime. Runtimes drop fields that they do not know without an error."""

from __future__ import annotations

import re
from typing import NamedTuple

from adapter.proto import nri_pb2 as api

Version = tuple[int, ...]

OLDEST: Version = (0, 8, 0)
"""Assumed of a runtime that reports no version: the version in containerd 1.7 to 2.1."""


class Runtime(NamedTuple):
    """What decides which changes a runtime makes: its version of NRI, and its name in lower case."""

    nri: Version = OLDEST
    name: str = ""


LATE_PLUGINS_STAY: Version = (0, 12, 4)
"""Since this version the runtime keeps a plugin whose answer was late, if its failure policy asks for it."""
UPDATES_AT_ANY_TIME: Version = (0, 12, 1)
"""Since this version an unsolicited UpdateContainers cannot deadlock the runtime."""

_FIRST_WITH_0_11 = {"containerd": (2, 2), "cri-o": (1, 36)}
"""By the name of a runtime, its first version with NRI 0.11 (their go.mod); those before count as the oldest."""


def of(request: api.ConfigureRequest) -> Version:
    """Returns the NRI version of the runtime that sent this request. Runtimes report it since 0.12."""
    reported = _numbers(request.NRI_version)
    if reported:
        return reported
    first = _FIRST_WITH_0_11.get(request.runtime_name)
    return (0, 11, 0) if first and _numbers(request.runtime_version) >= first else OLDEST


def _numbers(version: str) -> Version:
    match = re.match(r"v?(\d+)\.(\d+)\.(\d+)", version)
    return tuple(map(int, match.groups())) if match else ()
