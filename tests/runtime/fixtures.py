"""Fixtures for tests that launch plugins under the embedded runtime: `plugins` is a directory to write them into.

Import it into a module or a conftest; tests/runtime/conftest.py does.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from adapter.nri import api
from adapter.runtime import Flavour, Plugin, Runtime

ROOT = Path(__file__).parents[2]

PRELUDE = f"""\
#!{sys.executable} -I
import os, signal, sys, time
sys.path.insert(0, {str(ROOT)!r})
from adapter.errors import CallError
from adapter.nri import Context, Plugin, api, events, run
from tests.runtime import raw
"""

POLICIES = "v0.12.5"
"""The first NRI that was seen to have failure policies."""

POD = api.PodSandbox(id="pod", name="p", namespace="default")
CONTAINER = api.Container(id="ctr", pod_sandbox_id="pod", name="c")
CREATE = api.CreateContainerRequest(pod=POD, container=CONTAINER)
START = api.StartContainerRequest(pod=POD, container=CONTAINER)


@dataclass
class Plugins:
    """A plugin directory and its conf.d."""

    path: Path
    config: Path
    runtimes: list[Runtime] = field(default_factory=list)

    def write(self, name: str, source: str) -> Path:
        """Writes an executable script; it has the stub's names, `raw`, and a few modules imported."""
        path = self.path / name
        path.write_text(PRELUDE + textwrap.dedent(source))
        path.chmod(0o755)
        return path

    def calls(self, name: str) -> list[str]:
        """Returns the methods that a raw plugin was called with."""
        return (self.path / f"{name}.calls").read_text().split()

    def runtime(self, flavour: Flavour | None = None, **more: Any) -> Runtime:
        """Returns a runtime for this directory, not started; it is stopped after the test."""
        runtime = Runtime(self.path, self.config, None, flavour or Flavour(), **more)
        self.runtimes.append(runtime)
        return runtime

    def launch(self, name: str, source: str, flavour: Flavour | None = None) -> tuple[Runtime, Plugin]:
        """Writes a plugin and launches it alone."""
        runtime = self.runtime(flavour)
        return runtime, runtime.launch(self.write(name, source))


@pytest.fixture
def plugins(tmp_path: Path) -> Iterator[Plugins]:
    """An empty plugin directory."""
    directory = Plugins(tmp_path / "plugins", tmp_path / "conf.d")
    directory.path.mkdir()
    directory.config.mkdir()
    yield directory
    for runtime in directory.runtimes:
        runtime.stop()
