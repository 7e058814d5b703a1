"""The container runtimes of nodes, by system: where each has its socket, configuration, drop-ins, units and log.

Each row was read in the source or the documentation that its comment names. Nothing else knows these paths.
"""

from __future__ import annotations

import errno
import os
import re
from typing import NamedTuple

from v010_adapter.host.paths import MAX_INPUT, in_root, read

CONTAINERD, CRIO = "containerd", "CRI-O"
DOCKER_SOCKET = "/run/docker.sock"
PLUGINS = "/opt/nri/plugins"
"""The directory from which all of these runtimes launch NRI plugins."""
DROP_INS = "/etc/nri/conf.d"
"""The directory of the configurations of NRI plugins."""
NRI_SOCKETS = "/var/run/nri/nri.sock", "/run/nri/nri.sock"
"""Where all of these runtimes serve NRI by default: a root directory may lack the link /var/run."""
_OS_RELEASES = "/etc/os-release", "/usr/lib/os-release"
_UNITS = (
    *("/etc/systemd/system/multi-user.target.wants", "/etc/systemd/system"),
    *("/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"),
)
"""The directories of units, the enabled ones first: RKE2 installs both of its units."""


class System(NamedTuple):
    """A system with a container runtime. Rows with the same socket are told apart by `os` or `home`."""

    name: str
    socket: str
    config: tuple[str, ...]
    """The possible configuration files. The runtime reads the first one that exists."""
    units: tuple[str, ...] = ("containerd",)
    """The units of systemd that start the runtime. A node has one of them."""
    drop_ins: tuple[str, ...] = ()
    """Directories of drop-ins. containerd reads those that its configuration imports, CRI-O reads all."""
    editable: str = ""
    """The configuration that stays if somebody edits it. All others are generated, or read-only."""
    by_hand: str = ""
    """Where an administrator sets a key, if neither a drop-in nor an edited file stays."""
    runtime: str = CONTAINERD
    os: str = ""
    """The ID in os-release."""
    home: str = ""
    """A directory of this system alone."""
    marker: str = ""
    """The first line of a configuration whose drop-ins are read even if it does not import their directory."""
    log_file: str = ""

    @property
    def log(self) -> str:
        """Where the runtime logs: a file, or a command that shows the log."""
        return self.log_file or " ".join(["journalctl", *(f"-u {unit}" for unit in self.units)])


def _rancher(name: str, *units: str) -> System:
    """K3s and RKE2. Their configuration is generated, and imports drop-ins of its own version.

    k3s: pkg/agent/config/config.go, pkg/agent/containerd/config.go, pull request 13680 (drop-ins); rke2:
    pkg/executor/staticpod/{spw,cleanup}.go, bundle/lib/systemd/system.
    """
    home = f"/var/lib/rancher/{name.lower()}/agent"
    config = f"{home}/etc/containerd"
    template = f'in {config}/config-v3.toml.tmpl, below the line {{{{ template "base" . }}}}'
    return System(
        name,
        "/run/k3s/containerd/containerd.sock",
        (f"{config}/config.toml",),
        units,
        (f"{config}/config-v3.toml.d", f"{config}/config.toml.d"),
        by_hand=f"{template} (with containerd 1.7: config.toml.tmpl), for this version imports no drop-ins",
        home=home,
        log_file=f"{home}/containerd/containerd.log",
    )


_CONFIG = "/etc/containerd/config.toml"
_USUAL = System(CONTAINERD, "/run/containerd/containerd.sock", (_CONFIG,))
SYSTEMS = (
    _rancher("K3s", "k3s", "k3s-agent"),
    _rancher("RKE2", "rke2-server", "rke2-agent"),
    # k0s: docs/runtime.md, pkg/component/worker/containerd/{component,configurer}.go. Before 1.36 it imported each
    # drop-in by its name. From 1.36 on it ends at a drop-in of version 2.
    System(
        "k0s",
        "/run/k0s/containerd.sock",
        ("/etc/k0s/containerd.toml",),
        ("k0scontroller", "k0sworker"),
        ("/etc/k0s/containerd.d",),
        by_hand="in /etc/k0s/containerd.toml, which k0s does not manage here",
        marker="# k0s_managed=true",
    ),
    # microk8s: microk8s-resources/default-args/containerd, microk8s-resources/wrappers/run-containerd-with-args,
    # which makes containerd.toml of this template at each start.
    System(
        "MicroK8s",
        "/var/snap/microk8s/common/run/containerd.sock",
        ("/var/snap/microk8s/current/args/containerd-template.toml",),
        ("snap.microk8s.daemon-containerd",),
        editable="/var/snap/microk8s/current/args/containerd-template.toml",
    ),
    # talos: pkg/machinery/constants/constants.go (CRIContainerdAddress, CRIContainerdConfig,
    # CRICustomizationConfigPart), CHANGELOG.md of 1.14. Another containerd runs the system's own services.
    _USUAL._replace(
        name="Talos",
        config=("/etc/cri/containerd.toml",),
        units=(),
        by_hand="in the machine configuration, as the file /etc/cri/conf.d/20-customization.part (1.14: NRI is on)",
        os="talos",
        log_file="talosctl logs cri",
    ),
    # Container-Optimized OS: cloud.google.com/container-optimized-os/docs/concepts/disks-and-filesystem
    _USUAL._replace(
        name="Container-Optimized OS",
        by_hand=f"in {_CONFIG}, in the node's startup script: /etc is empty again at each boot",
        os="cos",
    ),
    # bottlerocket-core-kit: packages/containerd/{containerd.service,etc-containerd.mount}, issue 539
    _USUAL._replace(
        name="Bottlerocket",
        by_hand="which no setting of Bottlerocket reaches: in its variants for Kubernetes 1.33 and later, NRI is on",
        os="bottlerocket",
    ),
    # flatcar/scripts: sdk_container/src/third_party/coreos-overlay/coreos/sysext/containerd; flatcar.org/docs:
    # container-runtimes/customizing-docker
    _USUAL._replace(
        name="Flatcar",
        config=(_CONFIG, "/usr/share/containerd/config.toml"),
        editable=_CONFIG,
        by_hand=f"in {_CONFIG}, a copy of this file, which a drop-in of containerd.service names",
        os="flatcar",
    ),
    # containerd: docs/man/containerd-config.toml.5.md; `containerd config default` imports conf.d since 2.2, EKS's
    # Amazon Linux 2023 imports config.d.
    _USUAL._replace(drop_ins=("/etc/containerd/conf.d", "/etc/containerd/config.d"), editable=_CONFIG),
    # cri-o: docs/crio.conf.5.md, docs/crio.conf.d.5.md
    System(
        CRIO,
        "/run/crio/crio.sock",
        ("/etc/crio/crio.conf",),
        ("crio",),
        ("/etc/crio/crio.conf.d",),
        runtime=CRIO,
    ),
)
NAMES = {system.os or system.name.lower().replace("-", ""): system for system in SYSTEMS}
"""The systems by the names that people type, those of one distribution first."""


def present(root: str) -> list[System]:
    """Returns the systems on the node whose files are below `root`: those whose sockets exist, else the configured."""
    running = [system for system in SYSTEMS if exists(root, system.socket)]
    configured = [one for one in SYSTEMS if any(exists(root, place) for place in (*one.config, *one.drop_ins))]
    found = running or configured
    own = [system for system in found if _is_recognised(system, root)]
    whole = {system.socket for system in own if system in configured}  # K3s that was removed may leave its directory
    own = [system for system in own if system in configured or system.socket not in whole]
    general: dict[str, System] = {}
    for system in found:
        if not system.os and system.socket not in {one.socket for one in own}:
            general.setdefault(system.socket, system)
    return [system for system in found if system in own or system in general.values()]


def _is_recognised(system: System, root: str) -> bool:
    if system.os:
        return system.os == _os(root)
    return bool(system.home) and exists(root, system.home)


def _os(root: str) -> str:
    for file in _OS_RELEASES:
        try:
            text, _ = read(in_root(root, file), MAX_INPUT)
        except (OSError, ValueError):
            continue
        found = re.search(r"^ID=[\"']?([a-z0-9._-]+)", text.decode("utf-8", "replace"), re.MULTILINE)
        return found[1] if found else ""
    return ""


def unit(system: System, root: str) -> str:
    """Returns the unit that starts the runtime on this node, the first one if none is found, empty if it has none."""
    places = [(directory, name) for directory in _UNITS for name in system.units]
    found = (name for directory, name in places if os.path.lexists(in_root(root, f"{directory}/{name}.service")))
    return next(found, system.units[0] if system.units else "")


def exists(root: str, place: str) -> bool:
    """Whether a file of the node, whose files are below `root`, may exist."""
    return may_exist(in_root(root, place))


def may_exist(path: str) -> bool:
    """Whether a path exists, or this process may not look. A link that leads nowhere exists."""
    try:
        os.lstat(path)
    except OSError as error:
        return error.errno not in (errno.ENOENT, errno.ENOTDIR)
    return True
