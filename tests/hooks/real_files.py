"""Hook files that other projects install, written anew from their facts, and the containers that get the hooks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from v010_adapter.container_files.recording import read
from v010_adapter.hooks.facts import Facts, facts

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


def recorded(runtime: str) -> Facts:
    recorded: list[tuple[str, Any]] = [*read(GOLDEN / runtime / "events-one-pod.jsonl")]
    created = next(request for event, request in recorded if event == "CreateContainer")
    return facts(created.pod, created.container)


# By a letter: of containerd, of CRI-O, of podman with what hooks ask for, and one with systemd in it.
CONTAINERS = {
    "c": recorded("containerd-2.4.2"),
    "o": recorded("cri-o-1.36.3"),
    "p": Facts(
        {
            "io.containers.trace-syscall": "of:/tmp/profile.json",
            "com.hooks.mpi.enabled": "true",
            "org.containers.qm.device.audio": "yes",
            "com.launchplatform.oci-hooks.mount-chown.data.path": "/data",
        },
        "/usr/bin/solver",
        has_bind_mounts=True,
    ),
    "s": Facts({"com-hooks.mpi.enabled": "true", "io.containers.trace-syscalls": "x"}, "/usr/sbin/init", False),
}


def new(when: dict[str, Any], *stages: str, **hook: Any) -> dict[str, Any]:
    return {"version": "1.0.0", "hook": {"path": "/usr/bin/x", **hook}, "when": when, "stages": list(stages)}


def old(**keys: Any) -> dict[str, Any]:
    return {"hook": "/usr/bin/x", **keys}


ALWAYS = {"always": True}
ANY = ALWAYS | {"commands": [".*"]}
MOUNT_CHOWN = r"com\.launchplatform\.oci-hooks\.mount-chown\.([^.]+)\.path"
# The file, the letters of the containers that get the hook, and the placeholders that it has as a template.
# fmt: off
FILES: dict[str, tuple[dict[str, Any], str, list[str]]] = {
    "nvidia": (new(ANY, "prestart", args=["x", "prestart"], env=["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]), "cops", []),
    # containerd's pods are of the type `sandbox`, and their containers of the type `container`.
    "nvidia, the first": (old(arguments=["prestart"], annotations=["sandbox"], stage=["prestart"]), "", []),
    "nvidia, with mounts": (old(hasbindmounts=True, stage=["prestart"]), "p", []),
    "oci-seccomp-bpf-hook": (new({"annotations": {r"^io\.containers\.trace-syscall$": ".*"}}, "prestart",
        path="__HOOK_BIN_DIR__/oci-seccomp-bpf-hook", args=["oci-seccomp-bpf-hook", "-s"]), "p", ["__HOOK_BIN_DIR__"]),
    "oci-systemd-hook": (old(cmd=[".*/init$", ".*/systemd$"], stages=["prestart", "poststop"]), "s", []),
    "oci-umount": (old(version="0.1.0", hasbindmounts=True, arguments=["--debug"], stages=["prestart"]), "p", []),
    "oci-register-machine": (old(cmd=[".*"], stages=["prestart", "poststop"]), "cops", []),
    "gadget-prestart": (new(ALWAYS, "prestart", path="/opt/hooks/oci/prestart.sh"), "cops", []),
    # Python's own names are no placeholders.
    "podman-hpc": (new(ALWAYS, "prestart", args=["x", "/etc/plug.yaml"], env=["XLOG_PLUGIN=/x/__pycache__/log"]),
        "cops", []),
    # Its dots match any character.
    "sarus": (new({"annotations": {"^com.hooks.mpi.enabled$": "^true$"}}, "createContainer",
        path="@INSTALL_PATH@/bin/mpi_hook", env=["LDCONFIG_PATH=/sbin/ldconfig", "MPI_LIBS=@MPI_LIBS@"]),
        "ps", ["@INSTALL_PATH@", "@MPI_LIBS@"]),
    "qm": (new({"annotations": {r"^org\.containers\.qm\.device\..*$": "^(true|1|yes)$"}}, "precreate"), "p", []),
    "low-latency": (new(ALWAYS, "prestart", args=["x", "{{.RPSMask}}"]), "cops", ["{{.RPSMask}}"]),
    "mount_chown": (new({"annotations": {MOUNT_CHOWN: "(.+)"}}, "createContainer"), "p", []),
}
# fmt: on


def installed(content: dict[str, Any]) -> dict[str, Any]:
    """Returns a file with a program that exists."""
    hook = content["hook"]
    return content | {"hook": "/bin/true" if isinstance(hook, str) else hook | {"path": "/bin/true"}}
