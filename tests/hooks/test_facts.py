"""What of a container hooks are matched with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from google.protobuf.json_format import ParseDict

from adapter.hooks.facts import facts
from adapter.proto import nri_pb2 as api

GOLDEN = sorted((Path(__file__).parent.parent / "golden").glob("*/events-one-pod.jsonl"))


def mounted(destination: str, type_: str = "bind", *options: str) -> bool:
    mount = api.Mount(destination=destination, type=type_, source="/x", options=options)
    return facts(api.PodSandbox(), api.Container(mounts=[mount])).has_bind_mounts


def test_the_pods_annotations_override_the_containers() -> None:
    pod = api.PodSandbox(annotations={"a": "pod", "b": "pod"})
    container = api.Container(annotations={"b": "container", "c": "container"})
    assert facts(pod, container).annotations == {"a": "pod", "b": "pod", "c": "container"}


def test_the_command_is_the_first_argument_if_there_is_one() -> None:
    assert facts(api.PodSandbox(), api.Container(args=["/bin/sh", "-c"])).command == "/bin/sh"
    assert facts(api.PodSandbox(), api.Container(args=["", "x"])).command == ""
    assert facts(api.PodSandbox(), api.Container()).command is None


@pytest.mark.parametrize("options", [(), ("rbind", "ro"), ("bind",)])
@pytest.mark.parametrize("type_", ["bind", "rbind", "none", ""])
def test_a_users_bind_mount_counts_by_type_or_option(type_: str, options: tuple[str, ...]) -> None:
    assert mounted("/data", type_, *options) == (type_.endswith("bind") or bool(options))


@pytest.mark.parametrize(
    "destination",
    [
        "/etc/hosts",
        "/etc/hostname",
        "/etc/resolv.conf",
        "/dev/shm",  # noqa: S108
        "/dev/termination-log",
        "/run/.containerenv",
        "/run/secrets",
        "/run/secrets/x",
        "/var/run/secrets/kubernetes.io/serviceaccount",
    ],
)
def test_what_runtimes_bind_themselves_does_not_count(destination: str) -> None:
    assert not mounted(destination, "bind", "rbind")


@pytest.mark.parametrize("destination", ["/etc/hosts2", "/etc", "/run/secretsX", "/dev/shm/x", "/var/run"])  # noqa: S108
def test_what_only_looks_like_it_counts(destination: str) -> None:
    assert mounted(destination)


@pytest.mark.parametrize("type_", ["tmpfs", "proc", "sysfs", "cgroup", "volume"])
def test_other_mounts_do_not_count(type_: str) -> None:
    assert not mounted("/data", type_, "rw", "nosuid")


@pytest.mark.parametrize("recorded", GOLDEN, ids=lambda path: path.parent.name)
def test_a_recorded_container_without_volumes_has_no_bind_mounts(recorded: Path) -> None:
    events = map(json.loads, recorded.read_text().splitlines())
    event = next(event for event in events if event["event"] == "CreateContainer")
    pod = ParseDict(event["pod"], api.PodSandbox(), ignore_unknown_fields=True)
    container = ParseDict(event["container"], api.Container(), ignore_unknown_fields=True)
    assert len(container.mounts) > 5
    found = facts(pod, container)
    assert not found.has_bind_mounts
    assert found.command == "/bin/sh"
    assert found.annotations["example.com/pod-note"] == "hello"
    assert found.annotations["example.com/ctr-note"] == "world"
    container.mounts.add(destination="/data", type="bind", options=["rbind"])
    assert facts(pod, container).has_bind_mounts
