"""Which version of NRI a runtime has. It decides what the runtime understands; what it does not, it drops silently."""

from __future__ import annotations

import re

from adapter.proto import nri_pb2 as api

Version = tuple[int, ...]

OLDEST: Version = (0, 8, 0)
"""What is assumed of runtimes that do not tell: that of containerd 1.7 to 2.1."""
UPDATES_AT_ANY_TIME: Version = (0, 12, 1)
"""Since then an unsolicited UpdateContainers cannot deadlock the runtime."""


def of(request: api.ConfigureRequest) -> Version:
    """Returns the NRI version of the runtime that says this; runtimes tell it since 0.12.

    containerd 2.2 has 0.11 (its go.mod); the released CRI-O of that time has what 0.8 has.
    """
    told = _numbers(request.NRI_version)
    if told:
        return told
    return (
        (0, 11, 0) if request.runtime_name == "containerd" and _numbers(request.runtime_version) >= (2, 2) else OLDEST
    )


def _numbers(version: str) -> Version:
    match = re.match(r"v?(\d+)\.(\d+)\.(\d+)", version)
    return tuple(map(int, match.groups())) if match else ()
