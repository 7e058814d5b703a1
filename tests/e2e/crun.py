"""crun as the OCI runtime of a run, for the setups with holds."""

from __future__ import annotations

import sys
from pathlib import Path
from shutil import which

from tests.e2e.pod import STATE, command

CGROUPS = Path("/sys/fs/cgroup")
PLAIN = f"""#!{sys.executable} -IS
import json, os, sys

if "create" in sys.argv:
    config = os.path.join(sys.argv[sys.argv.index("--bundle") + 1], "config.json")
    with open(config) as file:
        spec = json.load(file)
    spec["ociVersion"] = "1.0.2"
    spec["linux"].pop("resources", None)
    with open(config, "w") as file:
        json.dump(spec, file)
os.execv({which("crun")!r}, ["crun", "--cgroup-manager=cgroupfs", *sys.argv[1:]])
"""
"""crun for older distributions and machines: Debian's 1.8.1 knows no later version, and where the controllers belong to
cgroups v1, version 2 can set no limit."""


def prepared() -> str:
    """Makes the run a node of cgroups v2, unless it is one: crun refuses both versions. Returns the path of crun."""
    if not (CGROUPS / "cgroup.controllers").exists():
        command("mount", "-t", "cgroup2", "none", str(CGROUPS))
    program = STATE / "crun-plain"
    program.write_text(PLAIN)
    program.chmod(0o755)
    return str(program)
