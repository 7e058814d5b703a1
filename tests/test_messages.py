"""Each message of NRI and each of its fields is explained, in the stub that editors show and on a page."""

from __future__ import annotations

import re
from pathlib import Path

from adapter.nri import api
from adapter.oci.fields_by_version import NEEDS
from docs import messages

COMMENTS = messages.comments()
PAGE = Path(messages.__file__).with_name("messages.md")
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
