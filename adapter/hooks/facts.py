"""The facts about a container that decide which hooks it gets. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import NamedTuple

from adapter.proto import nri_pb2 as api

_RUNTIME = "/.*/(?:sandboxes/[^/]+|userdata)/"
"""The directories in which containerd and CRI-O keep the files that they make for each pod or container."""
_POD = "/.*/pods/[^/]+/"
"""The directory in which the kubelet keeps the files that it makes for each pod."""
_MADE = re.compile(
    rf"/(?:etc|dev|run)/(hosts|hostname|resolv\.conf|shm|\.containerenv) {_RUNTIME}\1"
    rf"|/run/secrets {_RUNTIME}run/secrets"
    r"|(/etc/hosts|/dev/shm) \2"  # of a pod that shares the node's network or IPC
    rf"|/etc/hosts {_POD}etc-hosts"
    # A manifest has only the volume's name.
    rf"|/var/run/secrets/kubernetes\.io/serviceaccount (?:{_POD}volumes/kubernetes\.io~(?:projected|secret)/)?"
    r"(?:kube-api-access-|[^/]*-token-)[^/]+"
    rf"|.* {_POD}containers/[^/]+/[0-9a-f]+",  # the termination message, whose destination the pod chooses
    re.DOTALL,
)
"""Bind mounts that runtimes and the kubelet make in every container: destination and source."""
_BIND = frozenset({"bind", "rbind"})


class Facts(NamedTuple):
    """Hooks are matched with these facts. `command` is args[0], None if there are no args."""

    annotations: Mapping[str, str]
    command: str | None
    has_bind_mounts: bool


def facts(pod: api.PodSandbox, container: api.Container, *, with_mounts: bool = True) -> Facts:
    """Returns the facts about a container. The pod's annotations override the container's.

    Without `with_mounts`, `has_bind_mounts` is false.
    """
    return Facts(
        annotations=_plain(container.annotations) | _plain(pod.annotations),
        command=container.args[0] if container.args else None,
        has_bind_mounts=with_mounts and any(map(_is_users_bind, container.mounts)),
    )


def _plain(texts: Mapping[str, str]) -> dict[str, str]:
    """Returns a protobuf map as a dictionary. `dict` itself would take twice the time."""
    return {key: texts[key] for key in texts}


def _is_users_bind(mount: api.Mount) -> bool:
    """Whether a mount is a bind mount that the user asked for. Upstream's injector counts every mount."""
    if mount.type not in _BIND and _BIND.isdisjoint(mount.options):
        return False
    destination = "/" + posixpath.normpath(mount.destination).lstrip("/")
    return not _MADE.fullmatch(f"{destination} {mount.source}")
