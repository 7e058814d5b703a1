"""The annotations that runtimes and the kubelet add to containers. containerd and CRI-O have different keys. Pure.

Sources: containerd internal/cri/annotations; CRI-O pkg/annotations (CRI-O also copies the labels of containers);
Kubernetes pkg/kubelet/kuberuntime/labels.go, pkg/kubelet/types.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from adapter.hooks.patterns import compiled

CONTAINERD, CRIO = "containerd", "CRI-O"
PREFIXES = {CONTAINERD: "io.kubernetes.cri.", CRIO: "io.kubernetes.cri-o."}
"""The prefix of a runtime's keys; each of its containers has such keys."""
SAME = (
    ("io.kubernetes.cri.container-name", "io.kubernetes.container.name"),
    ("io.kubernetes.cri.container-type", "io.kubernetes.cri-o.ContainerType"),
    ("io.kubernetes.cri.image-name", "io.kubernetes.cri-o.ImageName"),
    ("io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"),
    ("io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace"),
    ("io.kubernetes.cri.sandbox-uid", "io.kubernetes.pod.uid"),
    ("io.kubernetes.cri.sandbox-id", "io.kubernetes.cri-o.SandboxID"),
)
"""Keys of containerd and of CRI-O for the same thing."""
_OTHERS = (
    *(f"io.kubernetes.cri.sandbox-{name}" for name in ("cpu-period", "cpu-quota", "cpu-shares", "memory")),
    *("io.kubernetes.cri.sandbox-log-directory", "io.kubernetes.cri.podsandbox.image-name", "io.container.manager"),
    *(
        f"io.kubernetes.cri-o.{name}"
        for name in ("Annotations", "ContainerID", "Created", "Image", "ImageRef", "Labels")
    ),
    *(f"io.kubernetes.cri-o.{name}" for name in ("LogPath", "Metadata", "MountPoint", "Name", "ResolvPath", "TTY")),
    *(f"io.kubernetes.cri-o.{name}" for name in ("SandboxName", "SeccompProfilePath", "Stdin", "StdinOnce", "Volumes")),
    *(f"io.kubernetes.cri-o.{name}" for name in ("ImageRepoDigests", "PlatformRuntimePath")),
    *("platform-runtime-path.crio.io", "org.opencontainers.image.stopSignal"),
    *("kubernetes.io/config.seen", "kubernetes.io/config.source", "kubernetes.io/config.hash"),
    *(f"io.kubernetes.container.{name}" for name in ("hash", "ports", "preStopHandler", "restartCount")),
    *(f"io.kubernetes.container.{name}" for name in ("terminationMessagePath", "terminationMessagePolicy")),
    "io.kubernetes.pod.terminationGracePeriod",
)


class Foreign(NamedTuple):
    """An annotation's key of one runtime, and the other runtime's key for the same thing."""

    runtime: str
    key: str
    other: str
    others_key: str

    def __str__(self) -> str:
        """Returns the fact as a sentence."""
        return f"{self.key} is a key of {self.runtime}; {self.other} has {self.others_key}"


def may_be_added(pattern: str) -> bool:
    """Whether a valid pattern matches a key that runtimes or the kubelet add."""
    search = compiled(pattern).search
    return any(map(search, (*(key for pair in SAME for key in pair), *_OTHERS)))


def runtime_of(annotations: Iterable[str]) -> str:
    """Returns the runtime that has added one of these annotation keys, empty if none has."""
    keys = tuple(annotations)
    return next((name for name, prefix in PREFIXES.items() if any(key.startswith(prefix) for key in keys)), "")


def foreign(pattern: str) -> Foreign | None:
    """Returns the key that a valid pattern matches, if only one runtime has such keys; else None."""
    search = compiled(pattern).search
    by_runtime = [[pair for pair in SAME if search(pair[column])] for column in (0, 1)]
    names = (CONTAINERD, CRIO)
    for own, other in ((0, 1), (1, 0)):
        if by_runtime[own] and not by_runtime[other]:
            pair = by_runtime[own][0]
            return Foreign(names[own], pair[own], names[other], pair[other])
    return None
