"""The facts about a container that decide which hooks it gets. Pure, in time linear in the container's size."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping
from typing import NamedTuple

from nri.proto import nri_pb2 as api
from v010_adapter.hooks.keys import OF_CONTAINERS
from v010_adapter.oci.sizes import MAX_PATH

_FILES = {
    "/etc/hosts": "hosts",
    "/etc/hostname": "hostname",
    "/etc/resolv.conf": "resolv.conf",
    "/dev/shm": "shm",  # noqa: S108
    "/run/.containerenv": ".containerenv",
    "/run/secrets": "run/secrets",
}
"""The destinations of the files that containerd and CRI-O make for each pod or container, with their sources' ends."""
_SHARED = {"/etc/hosts": "network", "/dev/shm": "ipc"}  # noqa: S108
"""The node's own files, which runtimes mount in a pod that shares this namespace with the node."""
_KUBELET = "/var/lib/kubelet"
"""The kubelet's directory. If the pod's uid is known, the kubelet may have any directory."""
_HEXADECIMAL = frozenset("0123456789abcdef")
_BIND = frozenset({"bind", "rbind"})


class Facts(NamedTuple):
    """Hooks are matched with these facts. `command` is args[0], None if there are no args."""

    annotations: Mapping[str, str]
    command: str | None
    has_bind_mounts: bool
    namespace: str = ""
    """The pod's namespace, empty if it is not known."""


def facts(pod: api.PodSandbox, container: api.Container, *, with_mounts: bool = True) -> Facts:
    """Returns the facts about a container. The pod's annotations override the container's.

    Keys that runtimes set on containers do not count on the pod: with them, its author could get or avoid hooks.
    Without `with_mounts`, `has_bind_mounts` is false.
    """
    users = {key: pod.annotations[key] for key in pod.annotations if key not in OF_CONTAINERS}
    return Facts(
        annotations={key: container.annotations[key] for key in container.annotations} | users,  # faster than `dict`
        command=container.args[0] if container.args else None,
        namespace=pod.namespace,
        has_bind_mounts=with_mounts and _has_users_bind(pod, container),
    )


def _has_users_bind(pod: api.PodSandbox, container: api.Container) -> bool:
    """Whether a mount is a bind mount that the user asked for. Upstream's injector counts every mount."""
    ids = {pod.id, container.id} - {""}
    return any(
        not _is_made(mount.destination, mount.source, ids, pod.uid)
        and not _is_the_nodes(mount.destination, mount.source, pod, container)
        for mount in container.mounts
        if mount.type in _BIND or not _BIND.isdisjoint(mount.options)
    )


def _is_made(destination: str, source: str, ids: Collection[str], uid: str) -> bool:
    """Whether the runtime or the kubelet makes a bind mount in every container, with the pod's own files.

    A pod's author can name directories like theirs, but does not know the id and the uid that the pod will have. The
    author names the pod's volumes, so the volume of the service account's token counts as the user's.
    """
    if max(len(destination), len(source)) > MAX_PATH:
        return False
    destination = "/" + posixpath.normpath(destination).lstrip("/")
    return _is_runtimes(destination, source, ids) or _is_kubelets(destination, source, ids, uid)


def _is_the_nodes(destination: str, source: str, pod: api.PodSandbox, container: api.Container) -> bool:
    """Whether a mount is the node's own file in a pod that shares the node's network or IPC.

    If a pod shares a namespace with the node, containerd does not list it for the pod, and CRI-O not for the container.
    """
    shared = _SHARED.get(source) if destination == source else None
    lists = (pod.linux.namespaces, container.linux.namespaces)
    return shared is not None and any(one and all(each.type != shared for each in one) for one in lists)


def _is_runtimes(destination: str, source: str, ids: Collection[str]) -> bool:
    """Whether the source is DIRECTORY/sandboxes/ID/FILE of containerd, or DIRECTORY/ID/userdata/FILE of CRI-O."""
    directory, found, rest = source.rpartition(f"/{_FILES.get(destination)}")
    head, _, last = directory.rpartition("/")
    parent = head.rpartition("/")[2]
    id_ = last if parent == "sandboxes" else parent if last == "userdata" else ""
    return bool(found and id_) and not rest and (not ids or id_ in ids)


def _is_kubelets(destination: str, source: str, ids: Collection[str], uid: str) -> bool:
    """Whether the source is a file that the kubelet makes for the pod. A file for `hooks match` may lack ids."""
    root, _, below = source.partition(f"/pods/{uid}/" if uid else "/pods/")
    if not uid:
        below = below.partition("/")[2] if root == _KUBELET and not ids else ""
    *parents, name = below.split("/")
    if parents[:1] == ["containers"] and len(parents[1:]) == 1:  # the termination message: the pod chooses where it is
        return name != "" and _HEXADECIMAL.issuperset(name)
    return destination == "/etc/hosts" and below == "etc-hosts"
