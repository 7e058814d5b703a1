"""The process of a container or pod that a runtime did not name, found in its cgroup.

CRI-O gives no pid, and legacy plugins enter namespaces by it. When a container is about to start, `runc init` is the
only process in its cgroup.
"""

from __future__ import annotations

import glob

ROOT = "/sys/fs/cgroup"


def find_pid(cgroups_path: str, root: str = ROOT) -> int:
    """Returns the oldest process in a cgroup, 0 when there is none.

    `cgroups_path` is what the OCI runtime specification calls so: a plain path, or systemd's `slice:prefix:name`.
    """
    path = expand(cgroups_path)
    if not path.strip("/.") or "/.." in path:
        return 0  # every process of the node, or nobody knows whose
    # The unified hierarchy, then version 1's controllers; crun puts processes into `container` below the scope.
    for pattern in (root, f"{root}/*"):
        for directory in sorted(glob.glob(f"{pattern}{glob.escape(path)}")):
            for procs in (f"{directory}/cgroup.procs", f"{directory}/container/cgroup.procs"):
                pids = _pids(procs)
                if pids:
                    return min(pids, key=_started)
    return 0


def expand(cgroups_path: str) -> str:
    """Returns a cgroup's path below its hierarchy's root, with systemd's slices written out.

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


def _pids(path: str) -> list[int]:
    try:
        with open(path, "rb") as file:
            return [int(line) for line in file.read().split() if line != b"0"]
    except OSError:
        return []


def _started(pid: int) -> int:
    """Returns when a process started, in clock ticks since boot; one that has gone comes last."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # Field 22; the name, field 2, may contain anything, so count from the bracket behind it.
            return int(file.read().rpartition(b")")[2].split()[19])
    except OSError:
        return 1 << 63
