"""The annotations that runtimes and the kubelet add to containers. containerd and CRI-O have different keys. Pure.

Sources: containerd internal/cri/annotations; CRI-O pkg/annotations (CRI-O also copies the labels of containers);
Kubernetes pkg/kubelet/kuberuntime/labels.go, pkg/kubelet/types.
"""

from __future__ import annotations

from collections.abc import Collection

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


def may_be_added(pattern: str) -> bool:
    """Whether a valid pattern matches a key that runtimes or the kubelet add."""
    search = compiled(pattern).search
    return any(map(search, (*(key for pair in SAME for key in pair), *_OTHERS)))


def runtimes_of(annotations: Collection[str]) -> list[str]:
    """Returns the runtime that has added one of these keys. If none has, it may be any runtime."""
    found = [name for name, prefix in PREFIXES.items() if any(key.startswith(prefix) for key in annotations)]
    return found[:1] or list(PREFIXES)


def foreign(pattern: str, runtimes: Collection[str]) -> str:
    """Returns a sentence if a valid pattern matches keys of one runtime only, and one of `runtimes` is another one."""
    search = compiled(pattern).search
    of_containerd, of_crio = ([pair for pair in SAME if search(pair[column])] for column in (0, 1))
    if of_containerd and not of_crio and CRIO in runtimes:
        return f"{of_containerd[0][0]} is a key of {CONTAINERD}; {CRIO} has {of_containerd[0][1]}"
    if of_crio and not of_containerd and CONTAINERD in runtimes:
        return f"{of_crio[0][1]} is a key of {CRIO}; {CONTAINERD} has {of_crio[0][0]}"
    return ""
