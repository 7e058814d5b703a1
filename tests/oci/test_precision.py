"""A specification that a tool with floats has had says what it said before."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapter.base import gojson
from adapter.errors import NotAdjustable
from adapter.oci.patch import merged
from adapter.oci.precision import restore_precision
from adapter.oci.spec import adjustment, resources_to
from adapter.oci.values import Spec
from adapter.proto import nri_pb2 as api

from .cases import edited

UNLIMITED = 9223372036854771712
"""What cgroup v1 calls no limit of memory."""
LARGEST = (1 << 64) - 1
ARGUMENT = {"index": 0, "value": LARGEST, "valueTwo": UNLIMITED + 1, "op": "SCMP_CMP_MASKED_EQ"}
LARGE: dict[str, Spec] = {
    "a memory limit": edited(("linux", "resources", "memory", "limit"), UNLIMITED),
    "a negative limit": edited(("linux", "resources", "cpu", "quota"), -UNLIMITED),
    "CPU shares": edited(("linux", "resources", "cpu", "shares"), (1 << 53) + 1),
    "huge pages": edited(("linux", "resources", "hugepageLimits", 0, "limit"), UNLIMITED),
    "an rlimit": edited(("process", "rlimits", 0), {"type": "RLIMIT_AS", "hard": LARGEST, "soft": UNLIMITED}),
    "an argument of a system call": edited(("linux", "seccomp", "syscalls", 0, "args"), [ARGUMENT]),
    "a device's number": edited(("linux", "resources", "devices", 1, "minor"), (1 << 63) - 1),
}


def through_floats(value: Any) -> Any:
    """As jq up to 1.6 writes it: 9223372036854771712 becomes 9223372036854772000."""
    if isinstance(value, dict):
        return {key: through_floats(member) for key, member in value.items()}
    if isinstance(value, list):
        return [through_floats(element) for element in value]
    return int(Decimal(repr(float(value)))) if type(value) is int and abs(value) < 1 << 70 else value


def through_jq(value: Any) -> Any:
    script = ["jq", "-c", ".a = 1 | del(.a)"]
    done = subprocess.run(script, input=json.dumps(value).encode(), capture_output=True, check=True)
    return gojson.plain(gojson.decode(done.stdout, levels=1))


TOOLS = [through_floats, *([through_jq] if shutil.which("jq") else [])]


def test_what_a_float_loses_is_no_change_and_hides_no_change_beside_it() -> None:
    assert through_floats([UNLIMITED, LARGEST]) == [9223372036854772000, 18446744073709552000]
    for (what, spec), tool in itertools.product(LARGE.items(), TOOLS):
        rounded = tool(spec)
        assert tool is through_jq or rounded != spec, what
        resources = spec["linux"]["resources"]
        assert not resources_to(resources, rounded["linux"]["resources"]).ByteSize(), what
        assert not adjustment(spec, rounded).ByteSize(), what
        assert merged(spec, rounded) == spec, what
        rounded["process"]["oomScoreAdj"] = 7
        rounded["process"]["rlimits"].insert(0, {"type": "RLIMIT_CORE", "hard": 1, "soft": 1})
        adjusted = adjustment(spec, rounded)
        assert [limit.type for limit in adjusted.rlimits] == ["RLIMIT_CORE"], what
        assert adjusted.linux == api.LinuxContainerAdjustment(oom_score_adj=api.OptionalInt(value=7)), what


def test_a_number_that_a_float_has_not_lost_is_a_change_and_a_value_that_says_the_same_keeps_its_type() -> None:
    before = {"linux": {"resources": {"memory": {"disableOOMKiller": False}}}}
    written = merged(before, {"linux": {"resources": {"memory": {"disableOOMKiller": 0}}}})
    assert json.dumps(written) == json.dumps(before), "the next plugin reads it"
    unlimited = LARGE["an rlimit"]
    rounded = through_floats(unlimited)
    rounded["process"]["rlimits"][0]["soft"] = 5
    [limit] = adjustment(unlimited, rounded).rlimits
    assert (limit.hard, limit.soft) == (LARGEST, 5)
    for beyond in (2**65, 10**400):
        rounded["process"]["rlimits"][0]["hard"] = beyond
        with pytest.raises(NotAdjustable, match="out of the range"):
            adjustment(unlimited, rounded)
    path = ("linux", "resources", "memory", "limit")
    for other in (UNLIMITED - (1 << 20), -UNLIMITED, 1):
        adjusted = adjustment(LARGE["a memory limit"], edited(path, other))
        assert adjusted.linux.resources.memory.limit.value == other


NUMBERS = st.integers(-(1 << 66), 1 << 66) | st.sampled_from([10**400, -(10**400), True, 0.5, 1 << 53, (1 << 53) + 1])
VALUES = st.recursive(
    NUMBERS | st.text(max_size=2) | st.none(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=1), inside, max_size=3),
)


@given(before=VALUES, after=VALUES)
@settings(deadline=None)
def test_only_numbers_that_are_the_same_float_are_replaced(before: Any, after: Any) -> None:
    found = restore_precision(before, after)
    assert through_floats(found) == through_floats(after)
    assert restore_precision(before, before) == before
