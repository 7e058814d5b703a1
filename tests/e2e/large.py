"""A pod author's day under a real runtime: containers with one large field each, between ordinary ones.

Each ordinary container has its hook and the plugin's edit, each large one has them, too, or is refused. The runtime
never drops the adapter. `tests.faults.large` plays more of them without a runtime.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.e2e import hooks
from tests.e2e.pod import Cri, HarnessError, Sandbox
from tests.e2e.runtimes import Runtime
from tests.faults.large import PLUGIN

CONTAINERS = int(os.environ.get("E2E_LARGE", "20"))
"""So many large containers."""
SEED = os.environ.get("TEST_SEED", "33")
CONF = Path("/etc/nri/large/conf.json")
SETTINGS = f"""
legacy: {{config: {CONF}, plugins: {{editor: {{events: [CreateContainer], onFailure: fail}}}}}}
hooks: {{enabled: true}}
"""
REFUSED = "create of container"
"""What an error of the log begins with that is a large container's."""


def _mounts(size: int) -> dict[str, Any]:
    return {"mounts": [{"container_path": f"/data/{n}", "host_path": "/srv"} for n in range(size // 45)]}


MOST_ENV = 500_000
"""Bytes of variables at most. If a plugin sets one, containerd 2.4.2 compares each variable with all before it
(internal/cri/nri/spec_generator_linux.go, AddProcessEnv): with 250,000 variables that takes more than 90 s."""
FIELDS: Mapping[str, Callable[[int], dict[str, Any]]] = {
    "args: many": lambda size: {"args": ["a"] * (size // 3)},
    "args: one": lambda size: {"args": ["ab" * (size // 2)]},
    "env: many": lambda size: {"envs": [{"key": f"A{n:06d}", "value": "x"} for n in range(min(size, MOST_ENV) // 11)]},
    "env: one": lambda size: {"envs": [{"key": "A", "value": "x" * size}]},
    "mounts: many": _mounts,
    "annotations: many": lambda size: {"annotations": {f"a{n}": "xxxx" for n in range(size // 16)}},
    "annotations: one": lambda size: {"annotations": {"a": "x" * size}},
}
"""The fields of a container in CRI, filled with about so many bytes.

Not its labels: the kubelet decides on these, and containerd writes 240,000 of them for minutes, under the lock of its
database (core/metadata/boltutil, WriteLabels).
"""


def prepare() -> None:
    CONF.parent.mkdir(parents=True, exist_ok=True)
    CONF.write_text('{"version": "0.1", "plugins": [{"type": "editor"}]}')
    program = Path("/opt/nri/bin/editor")
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(PLUGIN)
    program.chmod(0o755)
    hooks.write("always.json", {"path": "/bin/true"}, ["createRuntime"], always=True)


def play(cri: Cri, runtime: Runtime) -> Iterator[str]:
    """Creates the containers; yields what is wrong."""
    rng = random.Random(SEED)  # noqa: S311 - no secret
    pod = cri.run_pod()
    for number in range(CONTAINERS):
        field = rng.choice(list(FIELDS))
        size = min(int(10 ** rng.uniform(4, 7)), 3_900_000)
        yield from _created(cri, pod, f"l{number}", f"{field}, {size} bytes", FIELDS[field](size))
        yield from _created(cri, pod, f"c{number}", "", {})
    if "closing plugin" in runtime.log.read_text(errors="replace"):
        yield "the runtime has dropped the adapter"
    cri.end_pod(pod.id)


def _created(cri: Cri, pod: Sandbox, name: str, large: str, fields: dict[str, Any]) -> Iterator[str]:
    try:
        container = cri.create(pod, name, **fields)
    except HarnessError as error:
        if not large or "editor" not in str(error):
            yield f"{name} ({large or 'ordinary'}) fails: {str(error)[-300:]}"
        return
    spec = json.loads(cri("inspect", "-o", "json", container))["info"]["runtimeSpec"]
    if not spec.get("hooks", {}).get("createRuntime"):
        yield f"{name} ({large or 'ordinary'}) has no hook"
    if "ADDED=1" not in spec["process"]["env"] or spec["annotations"].get("added") != "1":
        yield f"{name} ({large or 'ordinary'}) lacks the plugin's edit"
    cri("rm", container)
