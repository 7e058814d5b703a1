"""Finds the cgroup of a container or pod, and in it the process, if the runtime reports no pid.

CRI-O 1.34 reports no pid, and legacy plugins need it to enter namespaces. Before a container starts, `runc init` is the
only process in its cgroup.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nri.proto import nri_pb2 as api

ROOT = "/sys/fs/cgroup"
_UNKNOWN, _ENDED = 1 << 62, 1 << 63
"""In place of the start of a process: they come behind each start."""


def cgroup_paths(subject: api.Container | api.PodSandbox, root: str = ROOT) -> dict[str, str]:
    """Returns the directories of the cgroup of a container or pod that exist, by controller.

    cgroup v1 has a directory for each controller (`memory`, `cpu`, …) and named hierarchy (`systemd`). That of cgroup
    v2 has the key `unified`, also where v1 is mounted beside it. `root` is where cgroups are mounted. The result is
    empty if there is no such cgroup (yet: a runtime makes that of a container after CreateContainer), or if the runtime
    does not report the path.
    """
    path = _below_root(subject.linux.cgroups_path)
    if not path:
        return {}
    if _is_unified(root):
        trees = {"unified": root}
    else:
        try:
            names = sorted(entry.name for entry in os.scandir(root))
        except OSError:
            return {}
        trees = {controller: f"{root}/{name}" for name in names for controller in name.split(",")}
    found = {controller: tree + path for controller, tree in trees.items()}
    return {controller: directory for controller, directory in found.items() if os.path.isdir(directory)}


def find_pid(cgroups_path: str, root: str = ROOT) -> int:
    """Returns the oldest process in a cgroup, 0 when there is none.

    `cgroups_path` is `linux.cgroupsPath` of the OCI specification: a plain path, or systemd's `slice:prefix:name`.
    """
    import glob  # not for the keeper of holds  # noqa: PLC0415

    path = _below_root(cgroups_path)
    if not path:
        return 0
    # In cgroup v1 each controller has a tree. In v2, such a search would look into the cgroups of others.
    controllers = "" if _is_unified(root) else "/*"
    for directory in sorted(glob.glob(f"{glob.escape(root)}{controllers}{glob.escape(path)}")):
        # crun puts processes into `container` below the scope
        for procs in (f"{directory}/cgroup.procs", f"{directory}/container/cgroup.procs"):
            pids = list[int]()
            with suppress(OSError), open(procs, "rb") as file:
                pids = [int(line) for line in file.read().split() if line != b"0"]
            if pids:
                return min(pids, key=_order)
    return 0


def _below_root(cgroups_path: str) -> str:
    """Returns a cgroup's path, empty for the root cgroup, which may have any process of the node, and above it."""
    path = expand(cgroups_path)
    return path if path.strip("/.") and "/.." not in path else ""


def _is_unified(root: str) -> bool:
    """Whether cgroup v2 is mounted there."""
    return os.path.exists(f"{root}/cgroup.controllers")


def expand(cgroups_path: str) -> str:
    """Returns a cgroup's path below the root of its hierarchy, with systemd's slices expanded.

    Source: runc libcontainer/cgroups/systemd: ExpandSlice (`a-b.slice` lies in `a.slice`), getSliceFull, getUnitName.
    """
    parts = cgroups_path.split(":")
    if len(parts) != 3:  # noqa: PLR2004 - slice:prefix:name
        return "/" + cgroups_path.strip("/")
    slice_, prefix, name = parts[0] or "system.slice", parts[1], parts[2]
    unit = name if name.endswith(".slice") else f"{prefix}-{name}.scope"
    words = slice_.removesuffix(".slice").split("-") if slice_ != "-.slice" else []
    nested = ["-".join(words[: count + 1]) + ".slice" for count in range(len(words))]
    return "/" + "/".join([*nested, unit])


def _order(pid: int) -> int:
    """Returns when a process started. One of which that is unknown comes behind these, and one that has ended last."""
    started = start_time(pid)
    return _UNKNOWN if started is None else started or _ENDED


def start_time(pid: int) -> int | None:
    """Returns when a process started, in clock ticks since boot; 0 if it has ended.

    None is unknown: the kernel has not told it, for want of descriptors or memory. Such a process may live.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # Field 2, the name in brackets, may contain anything: the fields are counted from the last bracket.
            state, *fields = file.read().rpartition(b")")[2].split()
            return 0 if state in {b"Z", b"X"} else int(fields[18])  # field 3, a zombie or dead; field 22
    except (FileNotFoundError, ProcessLookupError):
        return 0
    except OSError:
        return None
