"""What of a container hooks are matched with."""

from __future__ import annotations

from itertools import product

import pytest

from nri.proto import nri_pb2 as api
from v010_adapter.hooks.facts import Facts, facts


def mounted(
    destination: str, type_: str = "bind", *options: str, source: str = "/x", id_: str = "", uid: str = ""
) -> bool:
    mount = api.Mount(destination=destination, type=type_, source=source, options=options)
    return facts(api.PodSandbox(id=id_, uid=uid), api.Container(mounts=[mount])).has_bind_mounts


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


ID, UID = "ed03050bc61d", "9d2d0b5c-1e6f-4c8e-9d3b-0a6a0e1a2b3c"
CONTAINERD = f"/run/containerd/io.containerd.grpc.v1.cri/sandboxes/{ID}"
CRI_O = f"/run/containers/storage/overlay-containers/{ID}/userdata"
KUBELET = f"/var/lib/kubelet/pods/{UID}"
SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
OWN = [
    ("/etc/hosts", f"{CONTAINERD}/hosts"),
    ("/etc/hosts", f"{KUBELET}/etc-hosts"),
    ("//etc//hosts", f"{KUBELET}/etc-hosts"),
    ("/etc/hostname", f"{CRI_O}/hostname"),
    ("/etc/resolv.conf", f"{CONTAINERD}/resolv.conf"),
    ("/dev/shm", f"{CRI_O}/shm"),  # noqa: S108
    ("/dev/termination-log", f"{KUBELET}/containers/web/3f2a9c01"),
    ("/tmp/last-words", f"{KUBELET}/containers/web/3f2a9c01"),  # noqa: S108 - terminationMessagePath
    ("/run/.containerenv", f"{CRI_O}/.containerenv"),
    ("/run/secrets", f"{CRI_O}/run/secrets"),
]
USERS = [
    ("/etc/hosts", "/etc/hosts"),
    ("/dev/shm", "/dev/shm"),  # noqa: S108
    (SERVICE_ACCOUNT, f"{KUBELET}/volumes/kubernetes.io~projected/kube-api-access-x7k2p"),
    (SERVICE_ACCOUNT, f"{KUBELET}/volumes/kubernetes.io~secret/default-token-x7k2p"),
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
    ("/d", "/data/pods/x/containers/y/0"),
    ("/d", f"{KUBELET}/containers/web/x"),
    ("/d", f"{KUBELET}/containers/web/x/0"),
    ("/d", f"{KUBELET}/volumes/kubernetes.io~empty-dir/0"),
    ("/d", f"{KUBELET}/volumes/kubernetes.io~empty-dir/containers/web/0"),
    ("/etc/hosts", "/data/pods/x/etc-hosts"),
    ("/run/secrets", "/data/run/secrets"),
    (SERVICE_ACCOUNT, "/data/kube-api-access-x7k2p"),
    ("", ""),
    ("/data", ""),
]


def test_what_runtimes_and_the_kubelet_mount_themselves_does_not_count_and_the_users_own_mounts_do() -> None:
    """Wherever they are."""
    for table, counts in ((OWN, False), (USERS, True)):
        for destination, source in table:
            for id_, uid in (("", ""), (ID, UID)):
                assert mounted(destination, source=source, id_=id_, uid=uid) is counts, (destination, source, id_)


def test_a_users_directory_that_is_named_like_the_runtimes_or_the_kubelets_counts() -> None:
    """The id and the uid of the pod are not known to its author. Where they are known, the directory may be any."""
    for destination, source in OWN:
        assert mounted(destination, source=source, id_="another", uid="another"), source
        moved = source.replace("/var/lib/kubelet", "/data")
        assert not mounted(destination, source=moved, id_=ID, uid=UID), moved
        assert mounted(destination, source=moved) is (moved != source), moved
        assert mounted(destination, source=source, id_=ID) is source.startswith(KUBELET), "a pod without a kubelet"


NAMESPACES = {name: [api.LinuxNamespace(type=name, path=f"/{name}")] for name in ("network", "ipc", "pid")}


@pytest.mark.parametrize(("path", "of"), [("/etc/hosts", "network"), ("/dev/shm", "ipc")])  # noqa: S108
def test_the_nodes_own_file_is_the_runtimes_only_in_a_pod_that_shares_the_nodes_namespace(path: str, of: str) -> None:
    """containerd lists the namespaces of such a pod without this one, CRI-O those of the container."""

    def counts(pod: list[str], container: list[str], source: str = path) -> bool:
        def listed(names: list[str]) -> list[api.LinuxNamespace]:
            return [namespace for name in names for namespace in NAMESPACES[name]]

        return facts(
            api.PodSandbox(id=ID, linux=api.LinuxPodSandbox(namespaces=listed(pod))),
            api.Container(
                mounts=[api.Mount(destination=path, source=source, type="bind")],
                linux=api.LinuxContainer(namespaces=listed(container)),
            ),
        ).has_bind_mounts

    (other,) = {"network", "ipc"} - {of}
    everything, others = ["pid", other, of], ["pid", other]
    assert counts(everything, everything)
    assert counts(everything, [])
    assert counts([], [])
    assert not counts(others, everything)
    assert not counts(everything, others)
    assert counts(others, others, source="/srv/x")


def test_keys_that_runtimes_set_on_containers_do_not_count_on_pods() -> None:
    own = ["io.kubernetes.cri.image-name", "io.kubernetes.cri-o.ImageName", "io.kubernetes.container.hash"]
    others = ["io.kubernetes.cri-o.Devices", "kubernetes.io/config.source", "io.kubernetes.cri.image-name2"]
    pod = api.PodSandbox(annotations=dict.fromkeys([*own, *others], "pod"))
    assert facts(pod, api.Container()).annotations == dict.fromkeys(others, "pod")
    container = api.Container(annotations=dict.fromkeys([*own, *others], "container"))
    assert facts(pod, container).annotations == {**dict.fromkeys(own, "container"), **dict.fromkeys(others, "pod")}
