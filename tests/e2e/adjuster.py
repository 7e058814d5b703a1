"""A legacy plugin and a precreate hook of the end-to-end runs: what both do to a container can be seen in it.

`adjuster.py TYPE invoke` is the plugin (conf: {"updated": FILE}), `adjuster.py edit` the hook.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

FIRST, SECOND = "c0", "c1"
"""Containers: the first is edited; when the second starts, the first gets other CPU shares."""
ERRNO = {"names": ["acct"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1}
RISKY: dict[str, dict[str, Any]] = {
    "sysctl": {"kernel.msgmax": "8193"},
    "seccomp": {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [ERRNO]},
}
"""By the name of a container, a part of its `linux` that ends some runtimes when it is sent to them."""


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """What the plugin wants at an event; `conf.first` is a file that keeps the first container's id."""
    known = Path(request["conf"]["first"])
    name = request.get("container", {}).get("name") or request["spec"].get("annotations", {}).get(
        "io.kubernetes.cri.container-name", ""
    )
    match request.get("event", request["state"]):
        case "CreateContainer" if name == FIRST:
            known.write_text(request["id"])
            return {
                "spec": {
                    "process": {
                        "env": ["LEGACY=plugin", "FOO=changed"],
                        "rlimits": [{"type": "RLIMIT_NOFILE", "soft": 1234, "hard": 1234}],
                    },
                    "annotations": {"e2e/plugin": "yes"},
                    "linux": {"resources": {"cpu": {"shares": 222}}},
                },
                "metadata": {"saw": " ".join(request["spec"]["process"]["env"])},
            }
        case "CreateContainer" if name in RISKY:
            return {"spec": {"linux": {name: RISKY[name]}}}
        case "UpdateContainer":
            return {"spec": {"linux": {"resources": {"cpu": {"shares": 444}}}}}
        case "create" if known.exists() and request["id"] not in (known.read_text(), request["sandboxID"]):
            return {"updates": [{"id": known.read_text(), "resources": {"cpu": {"shares": 333}}}]}
    return {}


def edit(spec: dict[str, Any]) -> dict[str, Any]:
    spec["process"]["env"].append("HOOK=precreate")
    spec["mounts"].append({"destination": "/e2e-mount", "type": "tmpfs", "source": "tmpfs", "options": ["ro"]})
    device = {"path": "/dev/e2e-null", "type": "c", "major": 1, "minor": 3, "fileMode": 0o666}
    spec["linux"].setdefault("devices", []).append(device)
    spec.setdefault("annotations", {})["e2e/hook"] = "yes"
    return spec


if __name__ == "__main__":
    told = json.load(sys.stdin)
    json.dump(edit(told) if sys.argv[1:] == ["edit"] else answer(told), sys.stdout)
