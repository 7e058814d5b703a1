"""What of a container hooks are matched with."""

from __future__ import annotations

from itertools import product

from adapter.hooks.facts import Facts, facts
from adapter.proto import nri_pb2 as api


def mounted(destination: str, type_: str = "bind", *options: str, source: str = "/x") -> bool:
    mount = api.Mount(destination=destination, type=type_, source=source, options=options)
    return facts(api.PodSandbox(), api.Container(mounts=[mount])).has_bind_mounts


def test_the_pods_annotations_override_and_the_command_is_the_first_argument_if_there_is_one() -> None:
    pod = api.PodSandbox(annotations={"a": "pod", "b": "pod"})
    container = api.Container(annotations={"b": "container", "c": "container"})
    assert facts(pod, container) == Facts({"a": "pod", "b": "pod", "c": "container"}, None, False)
    for args in (["/bin/sh", "-c"], ["", "x"]):
        assert facts(pod, api.Container(args=args)).command == args[0]


def test_a_users_bind_mount_counts_by_type_or_option_and_no_other_mount_does() -> None:
    for type_, options in product(["bind", "rbind", "none", ""], [(), ("rbind", "ro"), ("bind",)]):
        assert mounted("/data", type_, *options) == (type_.endswith("bind") or bool(options)), (type_, options)
    for type_ in ("tmpfs", "proc", "sysfs", "cgroup", "volume"):
        assert not mounted("/data", type_, "rw", "nosuid"), type_


CONTAINERD = "/run/containerd/io.containerd.grpc.v1.cri/sandboxes/ed03050bc61d"
CRI_O = "/run/containers/storage/overlay-containers/d170e8d0825d/userdata"
KUBELET = "/var/lib/kubelet/pods/9d2d0b5c-1e6f-4c8e-9d3b-0a6a0e1a2b3c"
SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
OWN = [
    ("/etc/hosts", f"{CONTAINERD}/hosts"),
    ("/etc/hosts", f"{KUBELET}/etc-hosts"),
    ("/etc/hosts", "/etc/hosts"),
    ("//etc//hosts", f"{KUBELET}/etc-hosts"),
    ("/etc/hostname", f"{CRI_O}/hostname"),
    ("/etc/resolv.conf", f"{CONTAINERD}/resolv.conf"),
    ("/dev/shm", f"{CRI_O}/shm"),  # noqa: S108
    ("/dev/shm", "/dev/shm"),  # noqa: S108 - of a pod that shares the node's IPC
    ("/dev/termination-log", f"{KUBELET}/containers/web/3f2a9c01"),
    ("/tmp/last-words", f"{KUBELET}/containers/web/3f2a9c01"),  # noqa: S108 - terminationMessagePath
    ("/run/.containerenv", f"{CRI_O}/.containerenv"),
    ("/run/secrets", f"{CRI_O}/run/secrets"),
    (SERVICE_ACCOUNT, f"{KUBELET}/volumes/kubernetes.io~projected/kube-api-access-x7k2p"),
    (SERVICE_ACCOUNT, f"{KUBELET}/volumes/kubernetes.io~secret/default-token-x7k2p"),
]
USERS = [
    ("/dev/shm", f"{KUBELET}/volumes/kubernetes.io~empty-dir/shm"),  # noqa: S108
    ("/run/secrets/mine", f"{KUBELET}/volumes/kubernetes.io~secret/mine"),
    ("/run/secrets", f"{KUBELET}/volumes/kubernetes.io~secret/mine"),
    (SERVICE_ACCOUNT, f"{KUBELET}/volumes/kubernetes.io~projected/mine"),
    ("/var/run/secrets/tokens", f"{KUBELET}/volumes/kubernetes.io~projected/kube-api-access-x7k2p"),
    ("/etc/hosts", f"{KUBELET}/volumes/kubernetes.io~configmap/hosts"),
    ("/etc/hosts", "/srv/hosts"),
    ("/etc/resolv.conf", "/etc/resolv.conf"),
    ("/dev/shm/x", f"{CONTAINERD}/shm"),  # noqa: S108
    ("/dev/termination-log", "/var/log/x"),
    ("", ""),
    ("/data", ""),
]


def test_what_runtimes_and_the_kubelet_mount_themselves_does_not_count_and_the_users_own_mounts_do() -> None:
    """Wherever they are."""
    for table, counts in ((OWN, False), (USERS, True)):
        for destination, source in table:
            assert mounted(destination, "bind", "rbind", source=source) is counts, (destination, source)
