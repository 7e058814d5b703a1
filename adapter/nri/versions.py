"""The NRI version of a runtime. Runtimes drop fields that they do not know without an error."""

from __future__ import annotations

import re

from adapter.proto import nri_pb2 as api

Version = tuple[int, ...]

OLDEST: Version = (0, 8, 0)
"""Assumed of a runtime that reports no version: the version in containerd 1.7 to 2.1."""
LATE_PLUGINS_STAY: Version = (0, 12, 4)
"""Since this version the runtime keeps a plugin whose answer was late, if its failure policy asks for it."""
UPDATES_AT_ANY_TIME: Version = (0, 12, 1)
"""Since this version an unsolicited UpdateContainers cannot deadlock the runtime."""


def of(request: api.ConfigureRequest) -> Version:
    """Returns the NRI version of the runtime that sent this request. Runtimes report it since 0.12.

    containerd 2.2 has 0.11 (its go.mod). CRI-O 1.34 does not report more than 0.8.
    """
    reported = _numbers(request.NRI_version)
    if reported:
        return reported
    is_containerd_2_2 = request.runtime_name == "containerd" and _numbers(request.runtime_version) >= (2, 2)
    return (0, 11, 0) if is_containerd_2_2 else OLDEST


def _numbers(version: str) -> Version:
    match = re.match(r"v?(\d+)\.(\d+)\.(\d+)", version)
    return tuple(map(int, match.groups())) if match else ()
