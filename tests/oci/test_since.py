"""What a runtime does not know is refused by name, for it would drop it silently."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from adapter.errors import NotAdjustable
from adapter.oci.since import SINCE, refuse_unknown
from adapter.proto import nri_pb2 as api

NEW = [
    (api.ContainerAdjustment(args=["x"]), (0, 10, 0), "process.args"),
    (api.ContainerAdjustment(linux=api.LinuxContainerAdjustment(sysctl={"a": "b"})), (0, 11, 0), "linux.sysctl"),
    (
        api.ContainerAdjustment(linux=api.LinuxContainerAdjustment(memory_policy=api.LinuxMemoryPolicy())),
        (0, 12, 0),
        "linux.memoryPolicy",
    ),
]


@pytest.mark.parametrize(("adjustment", "since", "place"), NEW)
def test_a_field_is_refused_where_the_runtime_does_not_know_it(
    adjustment: api.ContainerAdjustment, since: tuple[int, int, int], place: str
) -> None:
    refuse_unknown(adjustment, since)
    refuse_unknown(adjustment, (0, 13, 0))
    major, minor, _ = since
    with pytest.raises(NotAdjustable) as refused:
        refuse_unknown(adjustment, (major, minor - 1, 9))
    reason = f"the runtime has NRI 0.{minor - 1}.9, which does not know it; 0.{minor}.0 does"
    assert (refused.value.place, refused.value.reason) == (place, reason)


def test_the_removal_of_a_sysctl_is_known_later_than_its_setting() -> None:
    removal = api.ContainerAdjustment(linux=api.LinuxContainerAdjustment(sysctl={"-net.a": "", "b": "c"}))
    refuse_unknown(removal, (0, 12, 5))
    with pytest.raises(NotAdjustable, match=r"linux\.sysctl\[net\.a\]: the runtime has NRI 0\.12\.3, .* 0\.12\.5 does"):
        refuse_unknown(removal, (0, 12, 3))


def test_what_the_oldest_runtimes_know_is_taken() -> None:
    adjustment = api.ContainerAdjustment(
        annotations={"a": "b"},
        env=[api.KeyValue(key="a")],
        linux=api.LinuxContainerAdjustment(cgroups_path="/x", resources=api.LinuxResources(unified={"a": "b"})),
    )
    refuse_unknown(adjustment, (0, 8, 0))


def test_every_name_is_that_of_one_field() -> None:
    names = [
        *api.ContainerAdjustment.DESCRIPTOR.fields_by_name,
        *api.LinuxContainerAdjustment.DESCRIPTOR.fields_by_name,
    ]
    assert all(names.count(name) == 1 for name in SINCE)


def test_the_readme_names_every_place_with_its_version() -> None:
    readme = (Path(__file__).parents[2] / "legacy-plugins" / "README.md").read_text()
    paragraph = readme[readme.index("What the runtime is too old for") :].split("\n\n", maxsplit=1)[0]
    said: dict[str, str] = {}
    for part in paragraph.replace("\n", " ").split(";"):
        version = re.search(r"0\.\d+", part)
        said |= dict.fromkeys(re.findall(r"`([^`]+)`", part), version[0] if version else "")
    assert said == {since.place: f"0.{since.version[1]}" for since in SINCE.values()}
