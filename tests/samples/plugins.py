"""Runs a sample plugin once, as a runtime does: request on stdin, result on stdout, next to nothing around it."""

from __future__ import annotations

import io
import json
import os
import runpy
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "legacy-plugins"
REQUESTS, EVENTS = (
    [path for path in sorted((SAMPLES / "requests").glob("*.json")) if path.stem.endswith("-event") is is_of_adapter]
    for is_of_adapter in (False, True)
)
"""Requests of the original's events, and of those that only the adapter has."""
GOLDEN = sorted((ROOT / "tests/golden/containerd-1.6.20").glob("*.json"))
Shell = dict[str, Any]  # how to run a script: `shell` and `path`, as execute() takes them

# What the adapter gives its plugins, and where the tests' own interpreter lies, should the system have none.
PATH = f"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:{os.path.dirname(sys.executable)}"


class Answer(NamedTuple):
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
        assert (self.result["error"], self.code) == ("", 0)
        found: dict[str, str] = self.result["metadata"]
        return found

    def is_error(self, plugin: str, error: str, **metadata: str) -> None:
        """Checks that it is a failure, and nothing but the result that says so."""
        result = {"plugin": plugin, "version": "0.1", "error": error, "metadata": metadata}
        assert (self.code, self.stderr, self.result) == (1, "", result)


def sample(name: str, **conf: object) -> dict[str, Any]:
    """Returns one of the sample requests, with a `conf` in front if there is to be one."""
    request: dict[str, Any] = json.loads((SAMPLES / "requests" / f"{name}.json").read_text())
    return {"conf": conf, **request} if conf else request


def event(annotations: dict[str, str] | None = None, /, **conf: object) -> dict[str, Any]:
    """Returns the request of CreateContainer for the container `web` of a pod with these annotations and no others."""
    request = sample("create-container-event", **conf)
    request["pod"]["annotations"] = annotations or {}
    return request


@cache
def code(plugin: str) -> dict[str, Any]:
    """Returns what a sample in Python defines, to call it without a process."""
    return runpy.run_path(str(SAMPLES / plugin))


def run(plugin: str, request: object, *arguments: str) -> Answer:
    """Calls a sample in Python, without a process, with a request, which is taken as it is if it is bytes."""
    with (
        redirect_stdout(io.StringIO()) as stdout,
        redirect_stderr(io.StringIO()) as stderr,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(sys, "argv", [plugin, *(arguments or ("invoke",))])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(encoded(request))))
        exit_code = code(plugin)["main"]()
    return Answer(exit_code, stdout.getvalue(), stderr.getvalue())


def execute(
    plugin: str | Path, request: object, *arguments: str, path: str = PATH, shell: tuple[str, ...] = ()
) -> Answer:
    """Runs a plugin (a sample's name, or a path) as a process."""
    command = [*shell, str(SAMPLES / plugin), *(arguments or ("invoke",))]
    given: dict[str, Any] = {"input": encoded(request), "env": {"PATH": path}, "cwd": "/", "timeout": 60}
    done = subprocess.run(command, capture_output=True, check=False, **given)
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


def encoded(request: object) -> bytes:
    return request if isinstance(request, bytes) else json.dumps(request).encode()
