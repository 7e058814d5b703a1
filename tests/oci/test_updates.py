"""What an update carries of changed resources, and what it cannot."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from adapter.errors import NotAdjustable
from adapter.oci import limits
from adapter.oci.limits import Limit
from adapter.oci.spec import resources_to

CARRIED: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "nothing": ({"cpu": {"shares": 2}}, {"cpu": {"shares": 2}}, {}),
    "of nothing": ({}, {}, {}),
    "only what differs": ({"cpu": {"shares": 2, "quota": 5, "cpus": "0"}, "memory": {"limit": 5}},
        {"cpu": {"shares": 3, "quota": 5, "cpus": "0-1"}, "memory": {"limit": 5}},
        {"cpu": {"shares": {"value": "3"}, "cpus": "0-1"}}),
    "a quota without limit": ({}, {"cpu": {"quota": -1}}, {"cpu": {"quota": {"value": "-1"}}}),
    "memory": ({"memory": {"limit": 0}}, {"memory": {"limit": 7}}, {"memory": {"limit": {"value": "7"}}}),
    "huge pages": ({"hugepageLimits": [{"pageSize": "2MB", "limit": 1}]},
        {"hugepageLimits": [{"pageSize": "2MB", "limit": 1}, {"pageSize": "1GB", "limit": 0}]},
        {"hugepageLimits": [{"pageSize": "1GB"}]}),
    "unified": ({}, {"unified": {"cpu.weight": "5"}}, {"unified": {"cpu.weight": "5"}}),
}  # fmt: skip
REFUSED: dict[str, tuple[dict[str, Any], str, Limit]] = {
    "pids": ({"pids": {"limit": 5}}, "pids", limits.UPDATE),
    "device rules": ({"devices": [{"allow": True}]}, "devices", limits.UPDATE),
    "real time": ({"cpu": {"realtimeRuntime": 5}}, "cpu.realtimeRuntime", limits.UPDATE),
    "its period": ({"cpu": {"realtimePeriod": 5}}, "cpu.realtimePeriod", limits.UPDATE),
    "swap with the limit": ({"memory": {"limit": 5, "swap": 5}}, "memory.swap", limits.UPDATE),
    "swap": ({"memory": {"swap": 5}}, "memory.swap", limits.MEMORY),
    "no shares": ({"cpu": {"shares": 0}}, "cpu.shares", limits.ZERO),
    "no quota": ({"cpu": {"quota": 0}}, "cpu.quota", limits.ZERO),
    "no memory": ({"memory": {"limit": 0}}, "memory.limit", limits.ZERO),
    "block I/O": ({"blockIO": {"weight": 5}}, "blockIO", limits.NOWHERE),
}


def test_an_update_carries_what_differs() -> None:
    for what, (before, after, expected) in CARRIED.items():
        assert MessageToDict(resources_to(before, after)) == expected, what


def test_what_updates_lose_is_refused_by_name() -> None:
    for after, place, limit in REFUSED.values():
        with pytest.raises(NotAdjustable) as refused:
            resources_to({}, after)
        assert (refused.value.place, refused.value.reason) == (f"linux.resources.{place}", limit.why)
    with pytest.raises(NotAdjustable, match=r"^linux\.resources: not what belongs there: a string instead"):
        resources_to({}, "a")  # type: ignore[arg-type]
