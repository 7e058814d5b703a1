"""What a runtime is too old for is refused by name, for it would drop the change silently, or crash.

tests/peers/test_versions_oracle.py shows that the table is true.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

from google.protobuf.json_format import ParseDict

from adapter.errors import NotAdjustable
from adapter.oci.fields_by_version import NEEDS, refuse_unknown
from adapter.proto import nri_pb2 as api

from .test_limits import PAGE, rows

ERRNO = {"names": ["read"], "action": "SCMP_ACT_ERRNO", "errnoRet": {"value": 1}}
NEW: list[tuple[dict[str, Any], str, str, str]] = [
    ({"args": ["x"]}, "0.9.1", "0.10.0", "process.args"),
    ({"linux": {"ioPriority": {}}}, "0.9.1", "0.10.0", "process.ioPriority"),
    ({"linux": {"namespaces": [{"type": "pid"}]}}, "0.8.0", "0.10.0", "linux.namespaces"),
    ({"linux": {"resources": {"devices": [{"allow": True}]}}}, "0.8.0", "0.10.0", "linux.resources.devices"),
    ({"linux": {"seccompPolicy": {}}}, "0.8.0", "0.10.0", "linux.seccomp"),
    ({"linux": {"seccompPolicy": {"syscalls": [ERRNO]}}}, "0.11.0", "0.12.0", "linux.seccomp.syscalls[0].errnoRet"),
    ({"linux": {"scheduler": {}}}, "0.10.0", "0.11.0", "process.scheduler"),
    ({"linux": {"netDevices": {"-a": {}}}}, "0.10.0", "0.11.0", "linux.netDevices"),
    ({"linux": {"rdt": {"remove": True}}}, "0.10.0", "0.11.0", "linux.intelRdt"),
    ({"linux": {"sysctl": {"net.a": "b"}}}, "0.11.0", "0.12.0", "linux.sysctl"),
    ({"linux": {"sysctl": {"-net.a": "", "b": "c"}}}, "0.12.2", "0.12.3", "linux.sysctl[net.a]"),
    ({"linux": {"memoryPolicy": {}}}, "0.11.0", "0.12.0", "linux.memoryPolicy"),
]


OLDEST = {"annotations": {"a": "b"}, "env": [{"key": "a"}], "linux": {"cgroupsPath": "/x"}}


def refusal(adjusted: dict[str, Any], version: str) -> str:
    try:
        refuse_unknown(ParseDict(adjusted, api.ContainerAdjustment()), tuple(map(int, version.split("."))))
    except NotAdjustable as refused:
        return str(refused)
    return ""


def test_a_change_is_refused_where_the_runtime_is_too_old_and_taken_where_it_is_not() -> None:
    for adjusted, older, needed, place in NEW:
        assert [refusal(adjusted, version) for version in (needed, "0.13.0")] == ["", ""]
        said = rf"{re.escape(place)}: needs NRI {needed}, the runtime has {older}: .*(crash|drop).*"
        assert re.fullmatch(said, refusal(adjusted, older))
    assert refusal(OLDEST, "0.8.0") == "", "what the oldest runtimes know"
    said = "linux.sysctl: needs NRI 0.12.0, the runtime has 0.11.0: NRI 0.11 crashes, older runtimes drop it"
    assert refusal({"linux": {"sysctl": {"a": "1"}}}, "0.11.0") == said, "the version that it would end"


def test_every_row_is_tried() -> None:
    messages = [ParseDict(adjusted, api.ContainerAdjustment()) for adjusted, *_ in NEW]
    assert {need for need, message in itertools.product(NEEDS, messages) if list(need.places(message))} == set(NEEDS)


def test_the_documentation_has_the_table() -> None:
    written = [
        f"| `{place}` | {change} | {'.'.join(map(str, version))} | {before} |"
        for place, change, version, before, _ in NEEDS
    ]
    assert rows(PAGE.read_text(), "| place in the spec | change | needs NRI | because |") == written
