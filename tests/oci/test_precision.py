"""A specification that a tool with floats has had says what it said before."""

from __future__ import annotations

import json
import shutil
import subprocess
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapter.base import gojson
from adapter.oci.patch import merged
from adapter.oci.precision import restore_precision
from adapter.oci.spec import adjustment, resources_to
from adapter.oci.values import Spec

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


def through_jq(value: Any) -> Any:
    """As jq up to 1.6 writes it: 9223372036854771712 becomes 9223372036854772000."""
    if isinstance(value, dict):
        return {key: through_jq(member) for key, member in value.items()}
    if isinstance(value, list):
        return [through_jq(element) for element in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return int(Decimal(repr(float(value))))
    return value


def by_jq(value: Any) -> Any:
    script = ["jq", "-c", ".a = 1 | del(.a)"]
    done = subprocess.run(script, input=json.dumps(value).encode(), capture_output=True, check=True)
    return gojson.plain(gojson.decode(done.stdout, levels=1))


def test_what_a_float_loses_is_no_change() -> None:
    assert (through_jq(UNLIMITED), through_jq(LARGEST)) == (9223372036854772000, 18446744073709552000)
    for what, spec in LARGE.items():
        rounded = through_jq(spec)
        assert rounded != spec, what
        resources = spec["linux"]["resources"]
        assert not resources_to(resources, through_jq(resources)).ByteSize(), what
        assert not adjustment(spec, rounded).ByteSize(), what
        assert merged(spec, rounded) == spec, what


@pytest.mark.skipif(shutil.which("jq") is None, reason="no jq on PATH")
def test_what_jq_itself_writes_is_no_change() -> None:
    for what, spec in LARGE.items():
        assert not adjustment(spec, by_jq(spec)).ByteSize(), what
        assert merged(spec, by_jq(spec)) == spec, what


def test_what_a_float_loses_hides_no_change_beside_it() -> None:
    spec = LARGE["a memory limit"]
    rounded = through_jq(spec)
    rounded["linux"]["resources"]["cpu"]["cpus"] = "3"
    rounded["process"]["rlimits"].insert(0, {"type": "RLIMIT_CORE", "hard": 1, "soft": 1})
    adjusted = adjustment(spec, rounded)
    assert adjusted.linux.resources.cpu.cpus == "3"
    assert not adjusted.linux.resources.HasField("memory")
    assert [limit.type for limit in adjusted.rlimits] == ["RLIMIT_CORE"]


@pytest.mark.parametrize("other", [UNLIMITED - (1 << 20), -UNLIMITED, 1])
def test_another_number_is_a_change(other: int) -> None:
    spec = LARGE["a memory limit"]
    wanted = edited(("linux", "resources", "memory", "limit"), other)
    assert adjustment(spec, wanted).linux.resources.memory.limit.value == other


NUMBERS = st.integers(-(1 << 66), 1 << 66) | st.sampled_from([10**400, -(10**400), True, 0.5, 1 << 53, (1 << 53) + 1])
VALUES = st.recursive(
    NUMBERS | st.text(max_size=2) | st.none(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=1), inside, max_size=3),
)


@given(before=VALUES, after=VALUES)
@settings(deadline=None)
def test_only_numbers_that_are_the_same_float_are_replaced(before: Any, after: Any) -> None:
    found = restore_precision(before, after)
    assert as_floats(found) == as_floats(after)
    assert restore_precision(before, before) == before


def as_floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: as_floats(member) for key, member in value.items()}
    if isinstance(value, list):
        return [as_floats(element) for element in value]
    return float(value) if type(value) is int and abs(value) < 1 << 70 else value


def test_a_value_that_says_the_same_keeps_its_type() -> None:
    before = {"linux": {"resources": {"memory": {"disableOOMKiller": False}}}}
    written = merged(before, {"linux": {"resources": {"memory": {"disableOOMKiller": 0}}}})
    assert json.dumps(written) == json.dumps(before), "the next plugin reads it"
