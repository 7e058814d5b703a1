"""Root directories of nodes, laid out as the documentation or the source of each system says. Nothing here was copied.

K3s and RKE2: k3s-io/docs docs/advanced.md, k3s-io/k3s pull request 13680, k3s-io/docs issue 566 (the log),
rancher/rke2 pkg/executor/staticpod/{spw,cleanup}.go, bundle/lib/systemd/system. k0s: docs/runtime.md,
pkg/component/worker/containerd/configurer.go of 1.36 and of 1.34. MicroK8s: microk8s-resources/default-args. Talos:
hack/cri-containerd.toml, hack/cri-plugin.part before and after 1.14. COS: "Disks and file system overview" of
cloud.google.com. Bottlerocket: bottlerocket-core-kit packages/containerd. Flatcar: flatcar/scripts,
coreos-overlay/coreos/sysext/containerd, and "Customizing Docker" of flatcar.org.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

NRI = "[plugins.'io.containerd.nri.v1.nri']\n"
OFF = f"{NRI}  disable = true\n"
RANCHER = "/var/lib/rancher/{}/agent/etc/containerd"
K3S, RKE2 = RANCHER.format("k3s"), RANCHER.format("rke2")
MICROK8S = "/var/snap/microk8s/current/args/containerd-template.toml"
ETC = "/etc/containerd/config.toml"
DEFAULT = Path(__file__).parents[1] / "check/configurations/containerd-2.4.2.toml"
"""What `containerd config default` prints."""
SWITCH = "    disable = false\n", "    disable = true\n"


class Layout(NamedTuple):
    """A node on which NRI is off. `drop_in` switches it on, or else `edited`, or else what `by_hand` says."""

    name: str
    """The system as people type it."""
    shown: str
    socket: str
    files: dict[str, str]
    unit: str = ""
    drop_in: str = ""
    edited: str = ""
    by_hand: str = ""

    def make(self, root: Path) -> Path:
        own = {self.socket: "", "/etc/systemd/system/": "", **self.files}
        for path, text in own.items():
            file = root / path[1:]
            file.parent.mkdir(parents=True, exist_ok=True)
            if not path.endswith("/"):
                file.write_text(text)
        return root


def _os(name: str) -> dict[str, str]:
    return {"/usr/lib/os-release": f'NAME="x"\nID={name}\nVERSION_ID="1"\n', "/etc/os-release": f"ID='{name}'\n"}


def _imports(directory: str, version: int, text: str = OFF) -> str:
    return f'version = {version}\nimports = ["{directory}/*.toml"]\n{text}'


def _rancher(name: str, shown: str, config: str, unit: str, units: list[str]) -> Layout:
    wants = "/etc/systemd/system/multi-user.target.wants"
    files = {f"{config}/config.toml": _imports(f"{config}/config-v3.toml.d", 3), f"{wants}/{unit}.service": ""}
    files |= {f"/usr/local/lib/systemd/system/{one}.service": "" for one in units}
    socket = "/run/k3s/containerd/containerd.sock"
    return Layout(name, shown, socket, files, unit, f"{config}/config-v3.toml.d/99-nri.toml")


CONTAINERD = "/run/containerd/containerd.sock"
K0S = "# k0s_managed=true\n# This is a placeholder configuration for k0s managed containerd.\n"
LAYOUTS = [
    Layout("containerd", "containerd", CONTAINERD, {ETC: f"version = 2\n{OFF}"}, "containerd", edited=ETC),
    Layout(
        *("containerd", "containerd", CONTAINERD, {ETC: DEFAULT.read_text().replace(*SWITCH)}, "containerd"),
        "/etc/containerd/conf.d/99-nri.toml",
    ),
    Layout(  # containerd 1.7, where a drop-in would replace the other keys of the table
        *("containerd", "containerd", CONTAINERD),
        {ETC: _imports("/etc/containerd/conf.d", 2, f"{OFF}  plugin_request_timeout = '9s'\n")},
        "containerd",
        edited=ETC,
    ),
    Layout(
        *("crio", "CRI-O", "/run/crio/crio.sock", {"/etc/crio/crio.conf": "[crio.nri]\nenable_nri = false\n"}, "crio"),
        "/etc/crio/crio.conf.d/99-nri.conf",
    ),
    _rancher("k3s", "K3s", K3S, "k3s", ["k3s"]),
    _rancher("k3s", "K3s", K3S, "k3s-agent", ["k3s-agent"]),
    _rancher("rke2", "RKE2", RKE2, "rke2-server", ["rke2-server", "rke2-agent"]),
    _rancher("rke2", "RKE2", RKE2, "rke2-agent", ["rke2-server", "rke2-agent"]),
    Layout(  # before the drop-ins
        *("k3s", "K3s", "/run/k3s/containerd/containerd.sock", {f"{K3S}/config.toml": f"version = 2\n{OFF}"}, "k3s"),
        by_hand=f"in {K3S}/config-v3.toml.tmpl, below the line",
    ),
    Layout(
        *("k0s", "k0s", "/run/k0s/containerd.sock"),
        {"/etc/k0s/containerd.toml": K0S + _imports("/etc/k0s/containerd.d/", 3)},
        *("k0scontroller", "/etc/k0s/containerd.d/99-nri.toml"),
    ),
    Layout(
        *("k0s", "k0s", "/run/k0s/containerd.sock"),
        {
            "/etc/k0s/containerd.toml": f'{K0S}version = 2\nimports = ["/run/k0s/containerd-cri.toml"]\n{OFF}',
            "/etc/systemd/system/k0sworker.service": "",
        },
        *("k0sworker", "/etc/k0s/containerd.d/99-nri.toml"),
    ),
    Layout(
        *("k0s", "k0s", "/run/k0s/containerd.sock", {"/etc/k0s/containerd.toml": f"version = 3\n{OFF}"}),
        by_hand="in /etc/k0s/containerd.toml, which k0s does not manage here",
    ),
    Layout(
        *("microk8s", "MicroK8s", "/var/snap/microk8s/common/run/containerd.sock"),
        {MICROK8S: f'version = 2\n{OFF}[plugins."io.containerd.grpc.v1.cri".cni]\n  bin_dir = "${{SNAP_DATA}}/opt"\n'},
        "snap.microk8s.daemon-containerd",
        edited=MICROK8S,
    ),
    Layout(
        *("talos", "Talos", CONTAINERD),
        {
            ETC: "version = 3\ndisabled_plugins = ['io.containerd.nri.v1.nri']\n",
            "/etc/cri/containerd.toml": 'version = 3\nimports = ["/etc/cri/conf.d/cri.toml"]\n',
            "/etc/cri/conf.d/cri.toml": f"version = 3\n{OFF}",
            **_os("talos"),
        },
        by_hand="in the machine configuration, as the file /etc/cri/conf.d/20-customization.part",
    ),
    Layout(
        *("cos", "Container-Optimized OS", CONTAINERD, {ETC: f"version = 2\n{OFF}", **_os("cos")}),
        by_hand="in the node's startup script: /etc is empty again at each boot",
    ),
    Layout(
        *("bottlerocket", "Bottlerocket", CONTAINERD, {ETC: f"version = 2\n{OFF}", **_os("bottlerocket")}),
        by_hand="in its variants for Kubernetes 1.33 and later, NRI is on",
    ),
    Layout(
        *("flatcar", "Flatcar", CONTAINERD),
        {"/usr/share/containerd/config.toml": f"version = 2\n{OFF}", **_os("flatcar")},
        by_hand="in /etc/containerd/config.toml, a copy of this file",
    ),
    Layout(
        *("flatcar", "Flatcar", CONTAINERD),
        {"/usr/share/containerd/config.toml": "version = 2\n", ETC: f"version = 2\n{OFF}", **_os("flatcar")},
        "containerd",
        edited=ETC,
    ),
]
"""Nodes of each system: with its drop-ins, without, and of each role."""
