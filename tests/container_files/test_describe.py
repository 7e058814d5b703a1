"""Containers as people have them at hand: every kind of file, and what is said of those that cannot be used."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from v010_adapter.base import gojson
from v010_adapter.container_files import ADDED_VOLUME, PODS_ANNOTATIONS, Described
from v010_adapter.errors import ConfigError
from v010_adapter.hooks.facts import Facts, facts

from .conftest import Files, Json

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: p
  namespace: ns
  annotations: {a: "1"}
spec:
  containers:
    - name: c
      command: [/bin/sh]
      args: [-c, exit]
      volumeMounts:
        - {name: v, mountPath: /v}
"""
BIND = {"destination": "/srv", "type": "bind", "source": "/srv", "options": ["rbind", "ro"]}


def facts_of(described: Described) -> Facts:
    return facts(described.pod, described.container)


# fmt: off
OWN: Json = {"id": "c1", "pod_sandbox_id": "p1", "name": "c", "annotations": {"a": "1", "b": "2"}, "args": ["/x"]}
SPEC: Json = {"ociVersion": "1.0.2", "process": {"args": ["/x", "y"]}, "annotations": {"a": "1"}, "mounts": [BIND]}
KUBERNETES: Json = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "command": ["/x"]}]}}
REQUEST: Json = {"pod": {"name": "p", "annotations": {"a": "1"}}, "container": {"args": ["/x"]}}
NONE, ONE = Facts({}, "/x", False), Facts({"a": "1"}, "/x", False)
# The texts of container and pod, what the first is called, the container's id, the pod's name, and the facts.
KINDS: list[tuple[str | Json, str, str, str, str, Facts]] = [
    (OWN | {"mounts": [BIND]}, '{"id": "p1", "name": "p", "namespace": "ns", "annotations": {"b": "3"}}',
     "an NRI container", "c1", "p", Facts({"a": "1", "b": "3"}, "/x", True, "ns")),
    ({"id": "c", "podSandboxId": "p"}, "", "an NRI container", "c", "", Facts({}, None, False)),
    (SPEC, "", "an OCI config.json", "", "", Facts({"a": "1"}, "/x", True)),
    ({"ociVersion": "1.0.2", "root": {"path": "x"}}, "", "an OCI config.json", "", "", Facts({}, None, False)),
    (REQUEST, "", "an NRI request", "", "p", ONE),
    (KUBERNETES, "", "a Kubernetes manifest", "", "", NONE),
    (POD, "", "a Kubernetes manifest", "", "p", Facts({"a": "1"}, "/bin/sh", True, "ns")),
    # A pod with a file of its own replaces the one that came with the container.
    (REQUEST, '{"name": "other", "namespace": "n"}', "an NRI request", "", "other",
     NONE._replace(namespace="n")),
    # A pod may be given as a manifest, an event, or a message.
    ({"args": ["/x"]}, POD, "an NRI container", "", "p", ONE._replace(namespace="ns")),
    *(({"args": ["/x"]}, pod, "an NRI container", "", "", ONE) for pod in (
        '{"event": "x", "pod": {"annotations": {"a": "1"}}}', '{"annotations": {"a": "1"}}')),
]
# fmt: on


def test_a_container_can_be_given_in_many_forms(files: Files) -> None:
    for text, pod, kind, id_, name, expected in KINDS:
        found = files.read(text, pod)
        assert (found.kind, found.container.id, found.pod.name, facts_of(found)) == (kind, id_, name, expected)
    assert files.read({"id": "c", "podSandboxId": "p"}).container.pod_sandbox_id == "p", "protojson's spelling"
    assert files.read("id: c\npid: 5.0").container.pid == 5, "as tools without integers write it"
    with_pod, without = (files.read(one).unknown for one in ({"pod": {"id": "p1"}, "container": OWN}, OWN))
    assert (with_pod, without) == ((), (PODS_ANNOTATIONS,))
    manifest = files.read(POD)
    assert (manifest.pod.namespace, list(manifest.container.args)) == ("ns", ["/bin/sh", "-c", "exit"])
    assert manifest.unknown == ("the annotations that the kubelet and the runtime add", ADDED_VOLUME)


def test_of_several_containers_one_is_chosen_by_name(files: Files) -> None:
    events = (("StartContainer", "a", "late"), ("CreateContainer", "b", "/b"), ("CreateContainer", "a", "/a"))
    line = '{"event": "%s", "pod": {}, "container": {"name": "%s", "args": ["%s"]}}\n'
    manifest = f"{POD}  initContainers:\n    - name: a\n      command: [/a]\n"
    for text, place, names in (("".join(line % one for one in events), "c:1", "b, a"), (manifest, "c:8: spec", "c, a")):
        assert facts_of(files.read(text, name="a")).command == "/a"
        assert files.refused(text) == f"{place}: choose a container with -name; there are: {names}"
        assert files.refused(text, name="x") == f"{place}: no container is called 'x'; there are: {names}"


def test_kubernetes_adds_the_volume_of_a_token_to_a_manifest_that_does_not_refuse_it(files: Files) -> None:
    """It counts as the user's, who can name a volume like it."""
    at = "/var/run/secrets/kubernetes.io/serviceaccount"
    added = ("the annotations that the kubelet and the runtime add",)
    for text, unknown in (
        (POD, (*added, ADDED_VOLUME)),
        (POD.replace("spec:\n", "spec:\n  automountServiceAccountToken: true\n"), (*added, ADDED_VOLUME)),
        (POD.replace("spec:\n", "spec:\n  automountServiceAccountToken: false\n"), added),
        (POD.replace("name: v, mountPath: /v", f"name: kube-api-access-x7k2p, mountPath: {at}"), added),
    ):
        found = files.read(text)
        assert (found.unknown, facts_of(found).has_bind_mounts) == (unknown, True), text


VALUES = "id: &i c\npod_sandbox_id: *i\nargs: [x, y]", 9
"""A text in YAML, and how many values it has, keys and aliases included."""


def test_a_text_in_yaml_may_have_so_many_values_and_no_more(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    text, number = VALUES
    monkeypatch.setattr(gojson, "MAX_VALUES", number)
    assert list(files.read(text).container.args) == ["x", "y"]
    monkeypatch.setattr(gojson, "MAX_VALUES", number - 1)
    assert files.refused(text) == "c: larger or deeper than can be read"


def bombs(form: str) -> str:
    """A YAML text of a few lines whose aliases stand for a billion values, each in a list of nine others."""
    lines = (f"a{step}: &a{step} {form.format(', '.join([f'*a{step - 1}'] * 9))}" for step in range(1, 10))
    return "\n".join(["a0: &a0 {b: c}", *lines])


BAD: list[tuple[str | bytes, str]] = [
    ("", "c: it is empty"),
    ('{"args": ["/x"],\n "mounts": [,]}', "c:2: unexpected ','"),
    ('{"args": []}\n{"args": []}\n{"args": ]', "c:3: unexpected ']'"),
    ("id: c\nannotations:\n  a: b\n  yes: c", "c:3: annotations.True: must be a text, not a boolean"),
    ("[" * 5000, "c:1: unexpected end"),
    ('{"x": ' * 2000 + "0" + "}" * 2000, "c:1: "),
    # Python's versions differ in how deep they can go
    ('{"x": ' + "1" * 5000 + "}", "c:1: larger or deeper than can be read"),
    ("x: 0x" + "f" * 5000, "c: larger or deeper than can be read"),
    ("&a {kind: List, apiVersion: v1, items: [*a]}", "c: larger or deeper than can be read"),
    (bombs("[{}]"), "c: larger or deeper than can be read"),
    (bombs("{{<<: [{}]}}"), "c: larger or deeper than can be read"),
    ("a: b: c", "c:1: mapping values are not allowed here"),
    (b"\nb: \xff", "c:2: not a text: the byte 0xff is not UTF-8"),
    ("{}", "c:1: neither an NRI container, nor an OCI config.json, nor a Kubernetes manifest"),
    ("- a\n- b", "c:1: [0]: must be a mapping, not a text"),
    ("!!timestamp x", "c"),
    ("\nb: \0", "c:2: special characters are not allowed"),
    ('{"id": "p", "uid": "u", "namespace": "n"}', "c:1: this is a pod, not a container: name this file with -pod"),
    ('{"id": "c"}\n{"id": "d",\n"name": 5}', "c:3: name: must be a text, not a number"),
    ('{"id": "c",\n"pid": "x"}', "c:2: pid: must be a whole number"),
    ('{"id": "c", "podSandboxId": 5}', "c:1: podSandboxId: must be a text"),
    ('{"id": "c", "pid": true}', "c:1: pid: must be a whole number"),
    ('{"id": "c", "pid": 99999999999}', "c:1: pid: Value out of range: 99999999999"),
    ('{"id": "c", "linux":\n{"devices": [{"major": -99999999999999999999}]}}', "c:1: linux.devices.major: Value out"),
    ('{"id": "c",\n"linux": {"seccomp_policy": {"default_errno": {"value": []}}}}',
        "c:2: linux.seccomp_policy.default"),
    ('{"id": "c",\n"args": "/x"}', "c:2: args: must be a list, not a text"),
    ('{"id": "c", "linux":\n{"resources": {"memory": {"use_hierarchy": {"value": 5}}}}}',
        "c:2: linux.resources.memory.use_hierarchy.value: must be true or false"),
    ('{"ociVersion": "1.0.2",\n"linux": {"resources": {"memory": {"limit": "x"}}}}',
        "c:2: linux.resources.memory: limit: a wrong value: a string instead of a number"),
    ('{"ociVersion": "1.0.2", "process": {"oomScoreAdj": "x"}}',
        "c:1: process.oomScoreAdj: a wrong value: a string instead of a number"),
    ("a: " + "[" * 1000 + "]" * 1000, "c: nested too deeply"),
    ('{"args": [],\n"annotations":\n{"a": true}}',
        "c:3: annotations.a: must be a text, not a boolean (put it in quotes)"),
    ("apiVersion: v1\nkind: Service\n---\napiVersion: v1\nkind: Secret",
        "c:2: kind: neither a Pod nor a manifest with a template of a pod"),
    ('{"event": "StartContainer", "pod": {}}\n{"event": "StopContainer"}', "c:1: it has no container"),
    ('{"event": 5, "container": {"args": []}}', "c:1: event: must be a text"),
    ("apiVersion: v1\nkind: Pod\nspec: {}", "c:3: spec: choose a container with -name; there are: none"),
    ("apiVersion: v1\nkind: Pod\nspec:\n  containers: {}", "c:4: spec.containers: must be a list, not a mapping"),
    (POD.replace("command: [/bin/sh]", "command: /bin/sh"), "c:10: spec.containers[0].command: must be a list"),
    (POD.replace('a: "1"', "a: 1"), "c:6: metadata.annotations.a: must be a text, not a number (put it in quotes)"),
    (POD.replace('"1"', "2026-01-01"), "c:6: metadata.annotations.a: must be a text, not a date (put it in quotes)"),
    (POD.replace("name: c\n", "name: c\n      env: [{name: V, valueFrom: {1: x, a: y}}]\n"),
        "c:10: spec.containers[0].env[0].valueFrom.1: must be a text, not a number"),
]  # fmt: skip


BAD_PODS = {
    '{"args": []}': "p:1: neither an NRI pod, nor a Kubernetes manifest, nor crictl's",
    '{"name":\n5}': "p:2: name: must be a text, not a number (put it in quotes)",
    '{"name": []}': "p:1: name: must be a text, not a list",
    "[]": "p: it is empty",
}


def test_what_cannot_be_used_is_named_with_file_line_and_key(files: Files) -> None:
    for text, message in BAD:
        said = files.refused(text)
        assert said.startswith(message), (text, said)
        assert not said.endswith(".")
    for pod, message in BAD_PODS.items():
        assert files.refused('{"args": []}', pod) == message


def test_half_a_character_becomes_a_replacement(files: Files) -> None:
    described = files.read(rb'{"args": ["\ud800"], "annotations": {"\udc00": "x"}}')
    assert (facts_of(described).command, list(described.container.annotations)) == ("\ufffd", ["\ufffd"])


KEYS = [
    "apiVersion", "kind", "spec", "containers", "template", "metadata", "annotations", "name", "command", "args", "x",
    "volumeMounts", "mountPath", "event", "pod", "container", "process", "root", "mounts", "options", "destination",
]  # fmt: skip
SHAPES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3)),
    lambda of: st.one_of(st.lists(of, max_size=2), st.dictionaries(st.sampled_from(KEYS), of, max_size=4)),
    max_leaves=12,
)


TEXTS = st.binary(max_size=40) | st.text(alphabet='{}[]:,"\\ \n\t-&*!|>%@`a0\u0085', max_size=30)


@settings(deadline=None, max_examples=700, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=SHAPES, text=TEXTS, given_as=st.sampled_from(["container", "pod", "text"]))
def test_any_json_and_bytes_are_described_or_refused(files: Files, data: Any, text: str | bytes, given_as: str) -> None:
    kinds = {"kind": "Pod"} if isinstance(data, dict) and "kind" in data else {}
    shape = json.dumps(data | kinds if kinds else data)
    try:
        files.read('{"args": []}', shape) if given_as == "pod" else files.read(text if given_as == "text" else shape)
    except ConfigError as refused:
        assert str(refused).startswith(str(files.folder))  # noqa: PT017 - to be described is as good
