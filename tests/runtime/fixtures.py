"""Fixtures for tests that launch plugins under the embedded runtime: `plugins` is a directory to write them into.

Import it into a module or a conftest; tests/runtime/conftest.py does.
"""

from __future__ import annotations

import signal
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from adapter.nri import api
from adapter.runtime import Flavour, Plugin, PluginFile, Runtime
from adapter.runtime.launch import drop_in

ROOT = Path(__file__).parents[2]

PRELUDE = f"""\
#!{sys.executable} -I
import os, signal, sys, time
sys.path.insert(0, {str(ROOT)!r})
from adapter.errors import CallError
from adapter.nri import Context, Plugin, api, events, run
from tests.runtime import raw
"""

POD = api.PodSandbox(id="pod", name="p", namespace="default")
CONTAINER = api.Container(id="ctr", pod_sandbox_id="pod", name="c")
CREATE = api.CreateContainerRequest(pod=POD, container=CONTAINER)
START = api.StartContainerRequest(pod=POD, container=CONTAINER)

DEDICATED, STATE_CHANGE = "v0.12.3", "v0.11.0"
"""Versions of NRI with a call for each event, and with StateChange."""


def patient(**fields: Any) -> Flavour:
    """Returns a runtime that waits longer than a slow machine needs."""
    return Flavour(registration_timeout=60, request_timeout=60, **fields)


WILLING = """
raw.run(lambda plugin, request:
    api.ConfigureResponse(events={events}).SerializeToString() if request.method == "Configure" else b"")
"""
"""A plugin that wants the events of the mask {events} and answers everything with an empty message."""


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

    def file(self, path: Path) -> PluginFile:
        """Returns a plugin named by its file, with its configuration of conf.d."""
        idx, _, base = path.name.partition("-")
        return PluginFile(path, idx, base, drop_in(self.config, idx, base))

    def runtime(self, flavour: Flavour | None = None, **more: Any) -> Runtime:
        """Returns a runtime without plugins; it is stopped after the test."""
        runtime = Runtime(flavour or patient(), **more)
        self.runtimes.append(runtime)
        return runtime

    def start(self, flavour: Flavour | None = None) -> Runtime:
        """Returns a runtime that has launched all plugins of the directory."""
        runtime = self.runtime(flavour)
        for path in sorted(self.path.iterdir()):
            runtime.launch(self.file(path))
        return runtime

    def launch(self, name: str, source: str, flavour: Flavour | None = None) -> tuple[Runtime, Plugin]:
        """Writes a plugin and launches it alone."""
        runtime = self.runtime(flavour)
        return runtime, runtime.launch(self.file(self.write(name, source)))


@pytest.fixture
def plugins(tmp_path: Path) -> Iterator[Plugins]:
    """An empty plugin directory."""
    directory = Plugins(tmp_path / "plugins", tmp_path / "conf.d")
    directory.path.mkdir()
    directory.config.mkdir()
    yield directory
    for runtime in directory.runtimes:
        runtime.stop()


def dropped(runtime: Runtime) -> list[Plugin]:
    """The plugins that have lost their connection."""
    return [plugin for plugin in runtime.connected if plugin.closed]


def gone(plugin: Plugin) -> bool:
    """Whether the runtime has killed a plugin that it launched."""
    assert plugin.process is not None
    return plugin.process.exit_status == -signal.SIGKILL
