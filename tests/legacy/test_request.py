"""Requests against those that the original client sent (golden), and their rules one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from google.protobuf.json_format import ParseDict

from nri import api
from v010_adapter.container_files.recording import read
from v010_adapter.legacy import config, result
from v010_adapter.legacy import request as legacy_request
from v010_adapter.legacy.config import Entry
from v010_adapter.legacy.request import NO_SPEC, Labels, Target, encode, of_container, of_pod
from v010_adapter.legacy.result import Result
from v010_adapter.oci.resources import resources_from

from ..rig.steps import steps
from .deviations import DEVIATIONS

GOLDEN = Path(__file__).parent.parent / "golden"
ORIGINAL = "containerd-1.6.20"
CRIO = ("cri-o-1.34.0", "cri-o-1.36.3")
CONTAINERD = ("1.7.35", "2.0.14", "2.2.1", "2.3.4", "2.4.2")
STATES = {
    "RunPodSandbox": ("create", "sandbox"),
    "StartContainer": ("create", "container"),
    "StopContainer": ("delete", "container"),
    "StopPodSandbox": ("delete", "sandbox"),
}
CONF_JSON = b'{"version": "0.1", "plugins": [{"type": "dump", "conf": {"hello": "world", "n": 1}}, {"type": "dump2"}]}'
ANSWER = b'{"plugin":"dump","version":"0.1","error":"","metadata":{"k":"v"}}'
"""What the plugin `dump` printed when the golden requests were recorded."""

KEPT_LABELS = ("io.cri-containerd.kind", "oci_runtime_type")
REQUESTED_ANNOTATIONS = ("example.com/pod-note", "example.com/ctr-note")
NEWER_ANNOTATIONS = ("io.kubernetes.cri.podsandbox.image-name",)
"""What containerd 2 writes into the spec and 1.6 did not: the runtime differs, not we."""


def originals() -> dict[tuple[str, str, str], str]:
    """The golden requests by state, kind and plugin: their compact text, with ids and pids by name."""
    found = {}
    for path in sorted((GOLDEN / ORIGINAL).glob("*.json")):
        _, plugin, state, kind = path.stem.split("-")
        found[state, kind, plugin] = json.loads(path.read_text())
    pod, container = found["create", "sandbox", "dump"], found["create", "container", "dump"]
    names = Names(pod["id"], pod["pid"], container["id"], container["pid"])
    return {key: names.put_into(compact(request)) for key, request in found.items()}


class Names(NamedTuple):
    """What is different in every run."""

    pod: str
    pod_pid: int
    container: str
    container_pid: int

    def put_into(self, text: str) -> str:
        for actual, name in (
            (self.pod, "POD"),
            (self.container, "CONTAINER"),
            (f'"pid":{self.pod_pid},', '"pid":PODPID,'),
            (f'"pid":{self.container_pid},', '"pid":CONTAINERPID,'),
            (f"/proc/{self.pod_pid}/", "/proc/PODPID/"),
        ):
            text = text.replace(actual, name)
        return text


def compact(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def targets(runtime: str) -> Iterator[tuple[str, Target]]:
    """What requests are made of, event by event; at deletes with what the create left in memory."""
    created: dict[str, Target] = {}
    recorded: list[tuple[str, Any]] = [*read(GOLDEN / runtime / "events-one-pod.jsonl")]
    for event, told in recorded:
        if event not in STATES:
            continue
        target = of_pod(told.pod) if STATES[event][1] == "sandbox" else of_container(told.container, told.pod)
        if STATES[event][0] == "create":
            created[target.id] = target
        else:
            target.complete(created.pop(target.id))
        yield event, target


def requests(runtime: str) -> dict[tuple[str, str, str], bytes]:
    """Our requests for the life of a pod, by state, kind and plugin."""
    made = {}
    for event, target in targets(runtime):
        state, kind = STATES[event]
        results: list[Result] = []
        for entry in config.parse(CONF_JSON, "conf.json").entries:
            made[state, kind, entry.type] = encode(target, state, entry, results)
            results.append(result.parse(ANSWER))
    return made


def without_deviations(request: dict[str, Any]) -> dict[str, Any]:
    """Undoes what stands in DEVIATIONS about the original, all of it, and nothing else."""
    labels = request["labels"]
    assert labels.pop(KEPT_LABELS[0]) == "sandbox"
    labels.pop(KEPT_LABELS[1], None)
    if request["state"] == "delete":
        del request["labels"]
    annotations = request["spec"]["annotations"]
    assert [annotations.pop(key, None) for key in REQUESTED_ANNOTATIONS].count(None) == 1
    for key in NEWER_ANNOTATIONS:
        annotations.pop(key, None)
    return request


def test_the_deviations_from_the_original_are_the_ones_undone_here() -> None:
    kept, deletes, requested = (of.what for of in DEVIATIONS if of.other.startswith("the original"))
    assert all(f"`{label}`" in kept for label in KEPT_LABELS)
    assert "deletes" in deletes
    assert "annotations of the CRI request" in requested


@pytest.mark.parametrize("version", CONTAINERD)
def test_requests_are_those_of_the_original_byte_for_byte_apart_from_the_deviations(version: str) -> None:
    """Key order included, on every level."""
    made = requests(f"containerd-{version}")
    create = json.loads(made["create", "container", "dump"])
    sandbox = json.loads(made["create", "sandbox", "dump"])
    names = Names(sandbox["id"], sandbox["pid"], create["id"], create["pid"])
    ours = {key: names.put_into(compact(without_deviations(json.loads(text)))) for key, text in made.items()}
    assert ours == originals()


@pytest.mark.parametrize("runtime", CRIO)
def test_cri_os_requests_differ_in_what_cri_o_differs(runtime: str) -> None:
    made = {key: json.loads(text) for key, text in requests(runtime).items()}
    assert len(made) == len(originals())
    for (state, kind, _), request in made.items():
        says = runtime == "cri-o-1.36.3" and kind == "container"
        assert ("pid" in request) is says, "where CRI-O says none, nobody looks for it here"
        assert (request["state"], request["id"] == request["sandboxID"]) == (state, kind == "sandbox")
        assert request["labels"]["app"] == "demo"
        assert request["spec"]["cgroupsPath"] == f"/e2e/p1/crio-{request['id']}"


ENTRY = Entry("a", 0, "0.1", None)


def pod(**fields: Any) -> api.PodSandbox:
    return api.PodSandbox(id="p", **fields)


def container(linux: api.LinuxContainer | None = None, **fields: Any) -> api.Container:
    return api.Container(id="c", linux=linux, **fields)


def test_what_is_empty_is_left_out_and_what_the_original_always_had_is_there() -> None:
    """types.go: no omitempty on version, state, id, spec and spec.resources."""
    text = b'{"version":"","state":"create","id":"","spec":{"resources":null}}'
    for linux in (None, api.LinuxContainer()):
        empty = of_container(api.Container(linux=linux), api.PodSandbox())
        assert encode(empty, "create", Entry("a", 0, "", None), ()) == text


def test_what_is_there_is_not_left_out_and_the_last_of_several_namespaces_of_a_type_counts() -> None:
    namespaces = [api.LinuxNamespace(type="pid", path=path) for path in ("/1", "")]
    linux = api.LinuxContainer(resources=api.LinuxResources(), namespaces=namespaces, cgroups_path="/x")
    full = of_container(container(linux, pid=7, annotations={"": "c"}), pod(labels={"": ""}, annotations={"": "p"}))
    for conf in (b"null", b'""', b"0", b"{}", b'{"n":1.10,"n":12345678901234567890}'):
        assert encode(full, "delete", ENTRY._replace(conf=conf), [Result("a", "0.1", "", {"k": "v"}), Result()]) == (
            b'{"conf":' + conf + b',"version":"0.1","state":"delete","id":"c","sandboxID":"p","pid":7,'
            b'"spec":{"resources":{},"namespaces":{"pid":""},"cgroupsPath":"/x","annotations":{"":"c"}},"labels":{"":""},'
            b'"results":[{"plugin":"a","version":"0.1","error":"","metadata":{"k":"v"}},'
            b'{"plugin":"","version":"","error":""}]}'
        )


def test_texts_are_escaped_as_go_escapes_them() -> None:
    nasty = '<&>"\\\u2028\x01é😀'
    escaped = r"\u003c\u0026\u003e\"\\\u2028\u0001" + "é😀"
    linux = api.LinuxContainer(cgroups_path=nasty, namespaces=[api.LinuxNamespace(type=nasty, path=nasty)])
    target = of_container(
        api.Container(id=nasty, linux=linux, annotations={nasty: nasty}),
        api.PodSandbox(id=nasty, labels={nasty: nasty}),
    )
    text = encode(target, "create", Entry("a", 0, nasty, None), [Result(nasty)])
    assert text.decode().count(escaped) == 11
    assert not any(character in text.decode() for character in "<&>\u2028")
    assert json.loads(text)["labels"] == {nasty: nasty}


def test_a_request_is_for_the_sandbox_when_both_ids_are_the_same_and_a_containers_sandbox_is_its_pod() -> None:
    """FACTS: StopContainer may come with a pod of which only the id is known, or not even that."""
    assert (of_pod(pod()).is_sandbox, str(of_pod(pod()))) == (True, "sandbox p")
    of_c = of_container(container(pod_sandbox_id="other"), pod())
    assert (of_c.is_sandbox, str(of_c), of_c.sandbox_id) == (False, "container c", "p")
    assert of_container(container(pod_sandbox_id="other"), api.PodSandbox()).sandbox_id == "other"


EVERYTHING = """{
  "devices": [
    {"allow": true, "type": "c", "major": {"value": 1}, "minor": {"value": 0}, "access": "rw"},
    {"allow": false, "access": "rwm"},
    {}
  ],
  "memory": {
    "limit": {"value": 1}, "reservation": {"value": 2}, "swap": {"value": -1}, "kernel": {"value": 4},
    "kernel_tcp": {"value": 5}, "swappiness": {"value": 60}, "disable_oom_killer": {"value": true},
    "use_hierarchy": {"value": false}
  },
  "cpu": {
    "shares": {"value": 1024}, "quota": {"value": -1}, "period": {"value": 100000}, "realtime_runtime": {"value": 7},
    "realtime_period": {"value": 18446744073709551615}, "cpus": "0-3", "mems": "0"
  },
  "pids": {"limit": 99},
  "hugepage_limits": [{"page_size": "2MB", "limit": 9}, {"page_size": "1GB", "limit": 0}],
  "unified": {"memory.high": "1", "cpu.weight": "2"}
}"""
EVERYTHING_OCI = (
    '{"devices":[{"allow":true,"type":"c","major":1,"minor":0,"access":"rw"},{"allow":false,"access":"rwm"},'
    '{"allow":false}],"memory":{"limit":1,"reservation":2,"swap":-1,"kernel":4,"kernelTCP":5,"swappiness":60,'
    '"disableOOMKiller":true,"useHierarchy":false},"cpu":{"shares":1024,"quota":-1,"period":100000,'
    '"realtimeRuntime":7,"realtimePeriod":18446744073709551615,"cpus":"0-3","mems":"0"},"pids":{"limit":99},'
    '"hugepageLimits":[{"pageSize":"2MB","limit":9},{"pageSize":"1GB","limit":0}],'
    '"unified":{"cpu.weight":"2","memory.high":"1"}}'
)


def resources(text: str) -> api.LinuxResources:
    return ParseDict(json.loads(text), api.LinuxResources(), ignore_unknown_fields=False)


def test_resources_are_written_in_the_order_of_the_oci_types_and_what_the_runtime_did_not_fill_is_not_there() -> None:
    for text, oci in (
        (EVERYTHING, EVERYTHING_OCI),
        *((empty, empty) for empty in ("{}", '{"memory":{}}', '{"cpu":{}}')),
        ('{"memory": {"swap": {"value": 0}}}', '{"memory":{"swap":0}}'),
        ('{"memory": {"disable_oom_killer": {"value": false}}}', '{"memory":{"disableOOMKiller":false}}'),
        ('{"pids": {"limit": 0}}', '{"pids":{"limit":0}}'),
        ('{"pids": {"limit": -1}}', '{"pids":{}}'),  # unlimited pids have no limit
    ):
        assert compact(resources_from(resources(text))) == oci


def at(event: str) -> api.LinuxResources:
    return api.LinuxResources(unified={"at": event})


CREATED = {"spec": {"resources": {"unified": {"at": "create"}}, "cgroupsPath": "/create"}}
NOW = {"spec": {"resources": None, "cgroupsPath": "/now"}}
LABELS = {"labels": {"at": "create"}}
WITHOUT_CGROUP = {"linux": api.LinuxContainer(resources=at("delete")), "annotations": {"at": "delete"}}
WHOLE = {"resources": {"unified": {"at": "delete"}}, "cgroupsPath": "/now"}
DELETED = {"labels": {"at": "delete"}}
REMEMBERED: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    # a container and its pod at a delete, and what is in the request of it and of the create
    "nothing": ({}, {}, {"pid": 7, **CREATED, **LABELS}),
    "everything": (
        {"linux": api.LinuxContainer(cgroups_path="/now", resources=at("delete")), "pid": 8},
        DELETED,
        {"pid": 8, "spec": WHOLE, **DELETED},
    ),
    "no cgroup": (WITHOUT_CGROUP, {}, {"pid": 7, **CREATED, **LABELS}),
    "a cgroup": ({"linux": api.LinuxContainer(cgroups_path="/now")}, {}, {"pid": 7, **NOW, **LABELS}),
}


def test_the_labels_of_a_pod_are_kept_once_for_all_its_containers_unless_they_are_long() -> None:
    for size, is_shared in ((legacy_request.MOST_KEPT, True), (legacy_request.MOST_KEPT + 1, False)):
        one, other = (Target.restored("c", "p", 0, "", spec=NO_SPEC, labels=bytes(size)) for _ in "12")
        assert (one.labels is other.labels) is is_shared
    shared = Labels(pod(labels={"a": "1"}))
    kept = [of_container(container(), pod(), shared).kept() for _ in "123"]
    assert [(each.labels, each.is_cut) for each in kept] == [(b'{"a":"1"}', False)] * 3
    assert all(each.kept() is each for each in kept)


def test_of_names_spec_and_labels_as_much_is_kept_as_the_bounds_say() -> None:
    names = ("x" * legacy_request.MOST_OF_NAME, "web", "y" * legacy_request.MOST_OF_NAME)
    named = of_container(container(name=names[2] + "y"), pod(namespace=names[0] + "x", name=names[1]))
    assert named.kept().names == names
    for size, is_cut in ((legacy_request.MOST_KEPT, False), (legacy_request.MOST_KEPT + 1, True)):
        labels = {"a": "x" * (size - len(NO_SPEC) - len('{"a":""}'))}
        made, asked = (of_container(container(), pod(labels=labels)) for _ in "12")
        assert asked.spec == NO_SPEC
        assert [target.kept().is_cut for target in (made, asked)] == [is_cut] * 2


def test_what_plugins_have_in_common_is_made_once_and_so_are_resources_unless_they_are_long() -> None:
    for size, is_kept in ((legacy_request.CACHED_LENGTH, True), (legacy_request.CACHED_LENGTH + 1, False)):
        long = api.LinuxResources(cpu=api.LinuxCPU(cpus="0" * (size - 6)))
        assert long.ByteSize() == size
        first, second = (of_container(container(api.LinuxContainer(resources=long)), pod()) for _ in "12")
        encode(first, "create", ENTRY, [])
        assert steps(lambda: encode(first, "create", ENTRY, []), "v010_adapter.base.gojson") == 0  # noqa: B023 - called at once
        assert (steps(lambda: second.spec, "v010_adapter.oci.resources") == 0) is is_kept  # noqa: B023


def test_a_delete_is_named_as_its_create_was_if_that_had_the_names_of_a_pod() -> None:
    named, whole = api.PodSandbox(id="p", name="pod", namespace="ns"), api.Container(id="c", name="web")
    for container_, pod_, created, name in (
        (api.Container(id="c"), api.PodSandbox(id="p"), of_container(whole, named), "container ns/pod/web (c)"),
        (whole, named, of_container(api.Container(id="c", name="x"), api.PodSandbox()), "container ns/pod/web (c)"),
        (api.Container(id="p"), api.PodSandbox(), of_pod(named), "sandbox ns/pod (p)"),
        (api.Container(id="p"), api.PodSandbox(), of_pod(api.PodSandbox(id="p", name="pod")), "sandbox pod (p)"),
    ):
        target = of_container(container_, pod_)
        target.complete(created)
        assert str(target) == name


@pytest.mark.parametrize("asked_before", [True, False])
@pytest.mark.parametrize("what", REMEMBERED)
def test_what_a_delete_lacks_is_remembered_from_its_create(what: str, asked_before: bool) -> None:
    """Texts are made once, at the first question."""
    of_container_, of_pod_, expected = REMEMBERED[what]
    linux = api.LinuxContainer(cgroups_path="/create", resources=at("create"))
    created = of_container(container(linux, pid=7), pod(labels={"at": "create"}))
    target, forgotten = (of_container(container(**of_container_), pod(**of_pod_)) for _ in "12")
    if asked_before:
        encode(target, "delete", ENTRY, ())
    target.complete(forgotten)
    target.complete(created)
    known = {"version": "0.1", "state": "delete", "id": "c", "sandboxID": "p"}
    assert json.loads(encode(target, "delete", ENTRY, ())) == known | expected
    assert target.cgroups_path == expected["spec"]["cgroupsPath"]
