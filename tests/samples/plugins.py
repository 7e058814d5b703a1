"""Runs a sample plugin once, as a runtime does: request on stdin, result on stdout, next to nothing around it."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "legacy-plugins"
EVENTS = sorted((SAMPLES / "requests").glob("*-event.json"))
"""Requests of the events that only the adapter has."""
REQUESTS = sorted({*(SAMPLES / "requests").glob("*.json")} - {*EVENTS})
"""Requests of the original's events."""
GOLDEN = sorted((ROOT / "tests/golden/containerd-1.6.20").glob("*.json"))

Shell = dict[str, Any]  # how to run a script: `shell` and `path`, as run() takes them

# What the adapter gives its plugins, and where the tests' own interpreter lies, should the system have none.
PATH = f"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:{os.path.dirname(sys.executable)}"


@dataclass(frozen=True)
class Answer:
    """What a plugin left behind."""

    code: int
    stdout: str
    stderr: str

    @property
    def result(self) -> dict[str, Any]:
        """The one JSON document on stdout."""
        document = json.loads(self.stdout)
        assert isinstance(document, dict)
        return document

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata of a result without error."""
        assert self.result["error"] == ""
        assert self.code == 0
        found: dict[str, str] = self.result["metadata"]
        return found


def sample(name: str, **conf: object) -> dict[str, Any]:
    """Returns one of the sample requests, with a `conf` in front if there is to be one."""
    request: dict[str, Any] = json.loads((SAMPLES / "requests" / f"{name}.json").read_text())
    return {"conf": conf, **request} if conf else request


def event(annotations: dict[str, str] | None = None, /, **conf: object) -> dict[str, Any]:
    """Returns the request of CreateContainer for the container `web` of a pod with these annotations and no others."""
    request = sample("create-container-event", **conf)
    request["pod"]["annotations"] = annotations or {}
    return request


def code(plugin: str) -> dict[str, Any]:
    """Returns what a sample in Python defines, to call it without a process."""
    return runpy.run_path(str(SAMPLES / plugin))


def run(plugin: str | Path, request: object, *arguments: str, path: str = PATH, shell: tuple[str, ...] = ()) -> Answer:
    """Runs a plugin (a sample's name, or a path) with a request, which is taken as it is if it is bytes."""
    stdin = request if isinstance(request, bytes) else json.dumps(request).encode()
    done = subprocess.run(
        [*shell, str(SAMPLES / plugin), *(arguments or ("invoke",))],
        input=stdin,
        capture_output=True,
        env={"PATH": path},
        cwd="/",
        timeout=60,
        check=False,
    )
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())
