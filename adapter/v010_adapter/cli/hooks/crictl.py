"""A container of this node and its pod, as `crictl` shows them."""

from __future__ import annotations

import json
import shutil
import subprocess

from v010_adapter import container_files
from v010_adapter.container_files import Described
from v010_adapter.errors import ConfigError

CRICTL = "crictl"
POD_OF = "{{.info.sandboxID}}"


def is_there() -> bool:
    return shutil.which(CRICTL) is not None


def commands(id_: str) -> list[str]:
    """Returns the commands that do the same where crictl is."""
    return [
        f"{CRICTL} inspect {id_} >container.json",
        f"{CRICTL} inspectp $({CRICTL} inspect -o go-template --template '{POD_OF}' {id_}) >pod.json",
        "v010-adapter hooks match -container container.json -pod pod.json",
    ]


def inspect(id_: str) -> Described:
    """Returns a container, given its id or the beginning of it, as kubectl shows it too. Raises ConfigError."""
    id_ = id_.rpartition("://")[2]
    container = _run("inspect", id_)
    return container_files.of_crictl(container, _run("inspectp", _pod(container)))


def _run(subcommand: str, id_: str) -> bytes:
    line = [CRICTL, subcommand, "-o", "json", id_]
    done = subprocess.run(line, capture_output=True, check=False)  # noqa: S603 - the user's own words
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise ConfigError(f"{CRICTL} {subcommand} {id_}", lines[-1])
    return done.stdout


def _pod(container: bytes) -> str:
    """Returns the id of the pod in the output of `crictl inspect`. Raises ConfigError."""
    try:
        return str(json.loads(container)["info"]["sandboxID"])
    except (ValueError, KeyError, TypeError):
        raise ConfigError(f"{CRICTL} inspect", "its output has no info.sandboxID") from None
