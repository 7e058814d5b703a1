"""Kubernetes manifests with many pods, and what runtimes' tools print: which container is read, and what is unknown."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from v010_adapter import container_files
from v010_adapter.container_files import Described
from v010_adapter.errors import ConfigError
from v010_adapter.host import paths

from .conftest import Files, Json

SPEC: Json = {
    "ociVersion": "1.2.0",
    "process": {"args": ["/bin/server", "-v"], "env": ["A=1"], "cwd": "/srv"},
    "annotations": {"io.kubernetes.cri.sandbox-id": "p1", "a": "1"},
    "mounts": [{"destination": "/data", "type": "bind", "source": "/srv", "options": ["rbind", "ro"]}],
}
LABELS = {
    **{"io.kubernetes.container.name": "web", "io.kubernetes.pod.name": "web-0"},
    **{"io.kubernetes.pod.namespace": "prod", "io.kubernetes.pod.uid": "u1"},
}
CRICTL: Json = {
    "info": {"pid": 7, "sandboxID": "p1", "runtimeSpec": SPEC},
    "status": {"id": "c1", "metadata": {"attempt": 0, "name": "web"}, "labels": LABELS, "annotations": {"k": "v"}},
}
CTR: Json = {"ID": "c1", "Labels": LABELS, "Image": "i", "Runtime": {"Name": "io.containerd.runc.v2"}, "Spec": SPEC}
BIND: Json = {"Type": "bind", "Source": "/srv", "Destination": "/data", "Driver": "", "Mode": "", "Options": ["rbind"]}
VOLUME: Json = {"Type": "volume", "Name": "v", "Source": "/v/_data", "Destination": "/v", "Driver": "local", "Mode": ""}
PODMAN: Json = {
    **{"Id": "c1", "Path": "/bin/server", "Args": ["-v"], "Name": "web", "Pod": "p1"},
    "Mounts": [
        {**BIND, "RW": False, "Propagation": "rprivate"},
        {**VOLUME, "Options": ["nosuid", "rbind"], "RW": True, "Propagation": "rprivate"},
    ],
    "Config": {"Env": ["A=1"], "Labels": {"l": "2"}, "Annotations": {"a": "1"}, "Cmd": ["-v"]},
}


def names(described: Described) -> tuple[str, str, str]:
    return described.pod.namespace, described.pod.name, described.container.name


# ---- stdin


def test_a_dash_is_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, said in (
        (b'{"args":\n5}', "stdin:2: args: must be a list"),
        (b'{"args": ["/x"], "name": "long"}', "stdin: 31 bytes, at most 30"),
    ):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"args": ["/x"],\n"name": "c"}')))
        assert list(container_files.read("-").container.args) == ["/x"]
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
        monkeypatch.setattr(paths, "MAX_INPUT", 30)
        with pytest.raises(ConfigError, match=f"^{said}"):
            container_files.read("-")


# ---- manifests


def workload(kind: str, name: str, *containers: str, path: str = "spec.template") -> Json:
    """A manifest that holds the template of a pod with these containers."""
    inside: Json = {"spec": {"containers": [{"name": one, "command": [f"/{name}/{one}"]} for one in containers]}}
    for key in reversed(path.split(".") if path else []):
        inside = {key: inside}
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "prod"}} | inside


SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": []}}
A, B = workload("Deployment", "a", "web", "log"), workload("CronJob", "b", "web", path="spec.jobTemplate.spec.template")


def test_each_template_of_many_manifests_is_a_candidate(files: Files) -> None:
    for text in (
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [SERVICE, A, B]}),
        "# three\n---\n" + "---\n".join(f"{json.dumps(one, indent=1)}\n" for one in (SERVICE, A, B)),
        "\n".join(map(json.dumps, [SERVICE, A, B])),
        json.dumps([SERVICE, A, B]),
    ):
        assert names(files.read(text, name="log")) == ("prod", "a", "log")
        for name in ("b/web", "prod/b/web"):
            found = files.read(text, name=name)
            assert (names(found), list(found.container.args)) == (("prod", "b", "web"), ["/b/web"])
        known = "there are: prod/a/web, prod/a/log, prod/b/web"
        assert files.refused(text).endswith(f"choose a container with -name; {known}")
        assert files.refused(text, name="web").endswith(f"several containers are called 'web'; {known}")
        assert files.refused(text, name="eb").endswith(f"no container is called 'eb'; {known}")


def of_pod(container: Json, **spec: Any) -> Json:
    return {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", **container}], **spec}}


def test_a_hostpath_has_its_source_and_mounts_have_their_options(files: Files) -> None:
    volumes = [{"name": "host", "hostPath": {"path": "/srv"}}, {"name": "tmp", "emptyDir": {}}]
    mounts = [
        {"name": "host", "mountPath": "/a", "readOnly": True, "mountPropagation": "HostToContainer"},
        {"name": "host", "mountPath": "/b", "subPath": "x/y", "mountPropagation": "Bidirectional"},
        {"name": "tmp", "mountPath": "/c"},
    ]
    found = files.read(of_pod({"volumeMounts": mounts}, volumes=volumes))
    assert [(one.destination, one.source, list(one.options)) for one in found.container.mounts] == [
        ("/a", "/srv", ["rbind", "rslave", "ro"]),
        ("/b", "/srv/x/y", ["rbind", "rshared", "rw"]),
        ("/c", "tmp", ["rbind", "rprivate", "rw"]),
    ]


def test_what_a_manifest_leaves_open_is_named_and_the_command_can_be_given(files: Files) -> None:
    env = [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]
    env_from = [{"configMapRef": {"name": "m"}}, {"prefix": "P_", "secretRef": {"name": "s"}}]
    found = files.read(of_pod({"args": ["-v"], "env": env, "envFrom": env_from}))
    assert found.unknown == (
        "the annotations that the kubelet and the runtime add",
        container_files.ADDED_VOLUME,
        "the value of the variable B (fieldRef)",
        "the variables of the configMap m (envFrom)",
        "the variables of the secret s (envFrom)",
        container_files.IMAGE_DECIDES,
    )
    assert not found.command_is_known
    assert list(found.container.args) == [], "the first of its args is not the command"
    found = files.read(of_pod({"args": ["-v"]}), command="/bin/server")
    assert (list(found.container.args), found.command_is_known) == (["/bin/server", "-v"], True)
    for text, known in ((of_pod({"command": ["/x"]}), "/x"), (CRICTL, "/bin/server"), ({"args": []}, "none")):
        assert files.refused(text, command="/y") == f"-command: the command is known: {known}"


# ---- the tools of runtimes


def test_what_the_tools_of_the_runtimes_show_has_the_whole_specification(files: Files) -> None:
    for tool, text in (("crictl inspect", CRICTL), ("ctr containers info", CTR)):
        found = files.read(text)
        container, pod = found.container, found.pod
        assert (found.kind, found.spec, names(found)) == (tool, SPEC, ("prod", "web-0", "web"))
        assert (container.id, container.pod_sandbox_id, pod.id, pod.uid) == ("c1", "p1", "p1", "u1")
        requested = {"k": "v"} if tool == "crictl inspect" else {}  # ctr does not show the CRI request's
        assert (dict(container.labels), dict(container.annotations)) == (LABELS, SPEC["annotations"] | requested)
        assert [MessageToDict(mount) for mount in container.mounts] == SPEC["mounts"]
        assert found.unknown == ("the annotations of the pod (-pod FILE has them)",)
    assert files.read({**CTR, "Labels": {}}).container.name == "c1", "ctr's own have no name but the id"


def test_what_crictl_prints_and_cannot_be_read_is_named_by_its_command() -> None:
    container = json.dumps(CRICTL).encode()
    for texts, said in (((b"{", b"{}"), "crictl inspect:1: "), ((container, b"{"), "crictl inspectp:1: ")):
        with pytest.raises(ConfigError, match=f"^{said}unexpected end"):
            container_files.of_crictl(*texts)


def test_what_podman_shows_is_read_and_what_has_no_specification_is_refused(files: Files) -> None:
    """The keys are those that podman 4.3.1 has printed."""
    found = files.read([PODMAN])
    container = found.container
    assert (found.kind, container.id, container.name, found.pod.id) == ("podman inspect", "c1", "web", "p1")
    assert found.unknown == ("the limits of the container",)
    without = files.read({**PODMAN, "Name": "/web", "Path": ""}).container  # docker's names begin like this
    assert (without.name, list(without.args)) == ("web", []), "the first of its args is not the command"
    assert (list(container.args), list(container.env)) == (["/bin/server", "-v"], ["A=1"])
    assert (dict(container.labels), dict(container.annotations)) == ({"l": "2"}, {"a": "1"})
    assert [(one.destination, one.type, one.source, list(one.options)) for one in container.mounts] == [
        ("/data", "bind", "/srv", ["rbind", "rprivate", "ro"]),
        ("/v", "bind", "/v/_data", ["nosuid", "rbind", "rprivate", "rw"]),
    ]
    assert files.refused('{"status": {},\n"info": {"pid": 1}}') == "c:2: info: it has no runtimeSpec"
    said = "c:2: Spec.process.args: must be a list, not a number"
    assert files.refused('{"ID": "c", "Spec":\n{"process": {"args": 1}}}') == said


def test_the_pod_of_a_container_may_be_given_but_only_one(files: Files) -> None:
    metadata, texts = {"name": "n", "namespace": "ns", "uid": "u"}, {"labels": {"l": "1"}, "annotations": {"b": "2"}}
    status = {"id": "p1", "metadata": metadata, **texts}
    found = files.read(CRICTL, pod=json.dumps({"status": status, "info": {}}))
    assert MessageToDict(found.pod) == {"id": "p1", **metadata, **texts}
    assert found.unknown == ()
    for key, is_added in (("io.kubernetes.cri.container-type", True), ("io.kubernetes.cri-o.ContainerType", False)):
        spec = {"annotations": {key: "sandbox", "b": "spec"}}  # containerd tells plugins these, CRI-O does not
        found = files.read(CRICTL, pod=json.dumps({"status": status, "info": {"runtimeSpec": spec}}))
        assert dict(found.pod.annotations) == ({"b": "spec", key: "sandbox"} if is_added else {"b": "2"})
    found = files.read(CRICTL, pod=json.dumps(A))
    assert found.unknown == (container_files.ADDED_ANNOTATIONS,)
    other = {"apiVersion": "v1", "kind": "ConfigMap"}
    assert files.read(CRICTL, pod=f"{json.dumps(other)}\n{json.dumps(A)}").pod == found.pod
    two = f"{json.dumps(A)}\n{json.dumps(other)}\n{json.dumps(B)}"
    for several in (json.dumps({"apiVersion": "v1", "kind": "List", "items": [A, B]}), two, '{"id": "a"}\n{"id": "b"}'):
        assert files.refused({"args": ["/x"]}, pod=several) == "p:1: there are 2 pods in it"
    for pod in (json.dumps(A), '{"name": "p"}'):
        found = files.read(of_pod({"command": ["/x"]}), pod=pod)
        assert found.unknown == (container_files.ADDED_VOLUME, container_files.ADDED_ANNOTATIONS)
