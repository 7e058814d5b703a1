"""Each message of NRI and each of its fields is explained, in the stub that editors show and on a page."""

from __future__ import annotations

import json
import re
from pathlib import Path

from docs import messages
from nri import api
from nri.needs import NEEDS

COMMENTS = messages.comments()
PAGE = Path(messages.__file__).with_name("messages.md")
GOLDEN = Path(__file__).with_name("golden")
KEYWORD = "LinuxIOPriority.class"
"""A field whose name is a word of Python, which the stub cannot have."""
PLACES = {"a device rule": "LinuxDeviceCgroup", "an errnoRet": "LinuxContainerAdjustment.seccomp_policy"}
PLACES |= {"a removed sysctl": "LinuxContainerAdjustment.sysctl", "args": "ContainerAdjustment.args"}


def test_every_message_and_every_field_is_explained() -> None:
    kinds = [*api.DESCRIPTOR.message_types_by_name.values(), *api.DESCRIPTOR.enum_types_by_name.values()]
    fields = [f"{message.name}.{field.name}" for message in kinds for field in getattr(message, "fields", ())]
    names = [kind.name for kind in kinds] + fields
    assert [name for name in names if not COMMENTS.get(name)] == [KEYWORD]


def test_a_field_that_older_runtimes_drop_names_the_version_that_it_needs() -> None:
    for need in NEEDS:
        place = PLACES.get(need.change, f"LinuxContainerAdjustment.{need.change}")
        version = re.sub(r"\.0$", "", ".".join(map(str, need.version)))
        assert re.search(rf"\b{re.escape(version)}(?!\.?\d)", COMMENTS[place]), place


def test_the_page_has_a_row_for_every_field_and_links_to_every_type() -> None:
    lines = list(messages.tables())
    anchors = {line.removeprefix("## ").lower() for line in lines if line.startswith("## ")}
    rows = [line for line in lines if line.startswith("| `")]
    assert len(rows) == sum(len(message.fields) for message in api.DESCRIPTOR.message_types_by_name.values())
    assert {link for row in rows for link in re.findall(r"\(#(\w+)\)", row)} <= anchors
    assert "| `annotations` | map of text to text | annotations of the container, not of the pod |" in rows
    assert PAGE.read_text().count(messages.MARK) == 1


def test_recorded_runtimes_send_a_field_since_the_version_that_its_comment_names() -> None:
    """Each recording is the life of a pod with one container, of which some fields are missing in older runtimes."""
    claims = [
        (name, runtime.lower(), tuple(map(int, version.split("."))))
        for name, comment in COMMENTS.items()
        if name.startswith("Container.")
        for runtime, version in re.findall(r"(containerd|CRI-O) (?:since|before) (\d+\.\d+)", comment)
    ]
    assert len(claims) == 10
    for path in GOLDEN.glob("*/events-one-pod.jsonl"):
        runtime, _, version = path.parent.name.rpartition("-")
        containers = [json.loads(line)["container"] or {} for line in path.read_text().splitlines()]
        for name, claimed, first in claims:
            if claimed == runtime:
                is_sent = any(one.get(name.removeprefix("Container.")) for one in containers)
                assert is_sent is (tuple(map(int, version.split(".")))[:2] >= first), (name, path)
