"""What of a container decides which hooks it gets. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from adapter.proto import nri_pb2 as api

RUNTIMES_OWN = frozenset(
    {
        "/etc/hosts",
        "/etc/hostname",
        "/etc/resolv.conf",
        "/dev/shm",  # noqa: S108 - a mount's destination
        "/dev/termination-log",
        "/run/.containerenv",
    }
)
"""Where runtimes and the kubelet mount something into every container."""
SECRETS = ("/run/secrets", "/var/run/secrets")
BIND = frozenset({"bind", "rbind"})


class Facts(NamedTuple):
    """What hooks are matched with; `command` is args[0], None where there are no args."""

    annotations: Mapping[str, str]
    command: str | None
    has_bind_mounts: bool


def facts(pod: api.PodSandbox, container: api.Container) -> Facts:
    """Returns what hooks are matched with. The pod's annotations override the container's."""
    return Facts(
        annotations={**container.annotations, **pod.annotations},
        command=container.args[0] if container.args else None,
        has_bind_mounts=any(map(_is_users_bind, container.mounts)),
    )


def _is_users_bind(mount: api.Mount) -> bool:
    """Whether it is a bind mount that somebody asked for; upstream's injector counts every mount there is."""
    if mount.type not in BIND and BIND.isdisjoint(mount.options):
        return False
    destination = mount.destination
    return destination not in RUNTIMES_OWN and not any(
        destination == secrets or destination.startswith(f"{secrets}/") for secrets in SECRETS
    )
