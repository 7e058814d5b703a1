"""crun as the OCI runtime of a run. It refuses a node with both versions of cgroups, which the run then has no more."""

from __future__ import annotations

import sys
from pathlib import Path
from shutil import which

from tests.e2e.pod import STATE, command

CGROUPS = Path("/sys/fs/cgroup")
WITHOUT_RESOURCES = f"""#!{sys.executable} -IS
import json, os, sys

if "create" in sys.argv:
    config = os.path.join(sys.argv[sys.argv.index("--bundle") + 1], "config.json")
    with open(config) as file:
        spec = json.load(file)
    spec["linux"].pop("resources", None)
    with open(config, "w") as file:
        json.dump(spec, file)
os.execv({which("crun")!r}, ["crun", "--cgroup-manager=cgroupfs", *sys.argv[1:]])
"""
"""crun for a node whose controllers all belong to version 1: in version 2, no limit of a container can be set."""


def prepared() -> str:
    """Makes the run a node of cgroups v2, unless it is one; returns the path of crun."""
    if (CGROUPS / "cgroup.controllers").exists():
        return which("crun") or ""
    command("mount", "-t", "cgroup2", "none", str(CGROUPS))
    program = STATE / "crun-without-resources"
    program.write_text(WITHOUT_RESOURCES)
    program.chmod(0o755)
    return str(program)
