"""The annotations that runtimes and the kubelet add to containers. containerd and CRI-O have different keys. Pure.

Sources: containerd internal/cri/annotations; CRI-O pkg/annotations (CRI-O also copies the labels of containers);
Kubernetes pkg/kubelet/kuberuntime/labels.go, pkg/kubelet/types.
"""

from __future__ import annotations

from itertools import chain

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
_PODS_PREFIX = "kubernetes.io/config."
"""The kubelet sets these keys on pods. A pod's author can set them, too."""
_OTHERS = {
    "io.kubernetes.cri.sandbox-": "cpu-period cpu-quota cpu-shares memory log-directory",
    "io.kubernetes.cri-o.": "Annotations ContainerID Created Image ImageRef ImageRepoDigests Labels LogPath Metadata "
    "MountPoint Name PlatformRuntimePath ResolvPath SandboxName SeccompProfilePath Stdin StdinOnce TTY Volumes",
    "io.kubernetes.container.": "hash ports preStopHandler restartCount",
    "io.kubernetes.container.terminationMessage": "Path Policy",
    "io.kubernetes.": "cri.podsandbox.image-name pod.terminationGracePeriod",
    "": "io.container.manager platform-runtime-path.crio.io org.opencontainers.image.stopSignal",
    _PODS_PREFIX: "seen source hash",
}
"""All other keys: the names after each prefix."""
ALL = {*chain(*SAME), *(prefix + name for prefix, names in _OTHERS.items() for name in names.split())}
OF_CONTAINERS = frozenset(key for key in ALL if not key.startswith(_PODS_PREFIX))
"""The keys that runtimes and the kubelet set on containers. On a pod, its author has set them."""
