"""What plugins answer is merged and applied in time proportional to its size: nothing else runs meanwhile."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from adapter.oci.patch import merged
from adapter.oci.spec import apply
from adapter.oci.values import Spec
from adapter.proto import nri_pb2 as api

from .cases import FULL

MANY = 1000
NUMBERS = range(MANY)
MOST = 500 * MANY
"""Instructions; with a loop over all elements for each of them there would be twenty times as many."""
PATCHES: dict[str, Spec] = {
    "variables set and removed": {"process": {"env": [name for n in NUMBERS for name in (f"A{n}=1", f"A{n}")]}},
    "one variable set and removed": {"process": {"env": ["A=1", "A"] * MANY}},
    "mounts added and removed": {
        "mounts": [m for n in NUMBERS for m in ({"destination": f"/{n}"}, {"destination": f"/{n}", "$patch": "delete"})]
    },
}
MOUNTS = api.ContainerAdjustment(mounts=[api.Mount(destination=f"/{n}") for n in NUMBERS])


def instructions(work: Callable[[], object], module: str) -> int:
    """Returns how many instructions of a module some work takes; that is the same on every machine."""
    count = 0

    def trace(frame: Any, event: str, _: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes = frame.f_globals["__name__"] == module
        count += event == "opcode"
        return trace if frame.f_trace_opcodes else None

    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # Python 3.12 traces no instructions if no frame asked for it before
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def test_what_is_large_takes_time_in_proportion() -> None:
    for what, patch in PATCHES.items():
        assert MANY < instructions(lambda patch=patch: merged(FULL, patch), "adapter.oci.patch") < MOST, what  # type: ignore[misc]
    assert MANY < instructions(lambda: apply(FULL, MOUNTS), "adapter.oci.named_parts") < MOST


def test_of_many_hooks_each_is_looked_for_once() -> None:
    hooks = {"hooks": {"poststop": [{"path": f"/{number}"} for number in NUMBERS]}}
    twice = {"hooks": {"poststop": [*hooks["hooks"]["poststop"]] * 2}}
    assert MANY < instructions(lambda: merged({}, twice), "adapter.oci.patch") < MOST
    assert merged({}, twice) == hooks
