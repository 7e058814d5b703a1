"""Fixtures for tests that launch plugins under the embedded runtime: `plugins` is a directory to write them into.

Import them into a module or a conftest; tests/runtime/conftest.py does. A plugin that `plugins` has written is forked
off and not executed, unless a test asks for that: an interpreter that starts takes a hundred times as long.
"""

from __future__ import annotations

import os
import select
import socket
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from typing import Any, cast

import pytest

from nri import api
from nri.testing import FLAVOURS, Flavour, Plugin, PluginFile, Runtime, launch, runtime
from tests.rig.forks import forks
from tests.rig.interpreter import FIRST_LINE
from tests.rig.programs import Programs
from tests.rig.waiting import LIMIT
from v010_adapter.cli.simulate.drop_ins import drop_in

ROOT = Path(__file__).parents[2]

exec_ = launch.spawn
"""How the product starts plugins."""


class Forked(Popen[bytes]):
    """A process that was forked off: by another one, for this one may have threads."""

    def __init__(self, pid: int) -> None:
        self.pid, self.returncode = pid, cast(int, None)

    def send_signal(self, sig: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, sig)

    def poll(self) -> int | None:
        with suppress(TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            pidfd = os.pidfd_open(self.pid)
            ended, _, _ = select.select([pidfd], [], [], timeout)
            os.close(pidfd)
            if not ended:
                raise TimeoutExpired("", timeout or 0)
            self.returncode = forks().reap(self.pid)
        return self.returncode


def forked(plugin: PluginFile, output: int | None = None, state: str = "") -> tuple[socket.socket, Popen[bytes]]:
    """Starts a plugin as `exec_` does, but has it forked off."""
    source = plugin.path.read_text(errors="replace")
    if not source.startswith(PRELUDE):
        return exec_(plugin, output, state)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    environ = {"NRI_PLUGIN_NAME": plugin.base, "NRI_PLUGIN_IDX": plugin.idx, "NRI_PLUGIN_SOCKET": "3"}
    with theirs, open(os.devnull, "r+b") as null:
        shown = null.fileno() if output is None else output
        code = f"import os; os.setpgid(0, 0)\n{source}"
        pid = forks().spawn(code, [str(plugin.path)], environ, {1: shown, 2: shown, 3: theirs.fileno()}, "/")
    return ours, Forked(pid)


def detached(path: Path) -> Popen[bytes]:
    """Starts a plugin that connects by itself, forked off, too."""
    with open(os.devnull, "r+b") as null:
        code = f"import os; os.setpgid(0, 0)\n{path.read_text()}"
        return Forked(forks().spawn(code, [str(path)], {}, {1: null.fileno(), 2: null.fileno()}, "/"))


@pytest.fixture
def executing(monkeypatch: pytest.MonkeyPatch, plugins: Plugins) -> None:
    """Lets runtimes execute plugins after all."""
    monkeypatch.setattr(runtime, "spawn", exec_)


PRELUDE = f"""\
{FIRST_LINE} -I
import os, signal, sys, time
sys.path[:0] = {[str(ROOT), str(ROOT / "adapter")]!r}
from nri.errors import NRIError, CallError
from nri import Context, Plugin, api, events, run
from tests.rig import raw
"""

POD = api.PodSandbox(id="pod", name="p", namespace="default")
CONTAINER = api.Container(id="ctr", pod_sandbox_id="pod", name="c")
CREATE = api.CreateContainerRequest(pod=POD, container=CONTAINER)
START = api.StartContainerRequest(pod=POD, container=CONTAINER)


def patient(flavour: Flavour = FLAVOURS["containerd/2.4.2"], **fields: Any) -> Flavour:
    """Returns a runtime that waits longer than a slow machine needs."""
    return replace(flavour, registration_timeout=LIMIT, request_timeout=LIMIT, **fields)


WILLING = """
raw.run(lambda plugin, request:
    api.ConfigureResponse(events={events}).SerializeToString() if request.method == "Configure" else b"")
"""
"""A plugin that wants the events of the mask {events} and answers everything with an empty message."""


SERVES = """
def wanted(*ids):
    update = [api.ContainerUpdate(container_id=id) for id in ids]
    return "UpdateContainers", api.UpdateContainersRequest(update=update).SerializeToString()
def answer(plugin, request):
    if request.method in {methods!r}:
        {does}
    return b""
raw.run(answer)
"""
"""A plugin that does something at the events {methods} and answers everything with an empty message."""


def serves(does: str, *methods: str) -> str:
    return SERVES.format(methods=methods or ("StartContainer",), does=does.strip())


@dataclass
class Plugins:
    """A plugin directory and its conf.d."""

    path: Path
    config: Path
    runtimes: list[Runtime] = field(default_factory=list)

    def write(self, name: str, source: str) -> Path:
        """Writes an executable script; it has the stub's names, `raw`, and a few modules imported."""
        return Programs(self.path).write(name, PRELUDE + textwrap.dedent(source))

    def calls(self, name: str) -> list[str]:
        """Returns the methods that a raw plugin was called with."""
        return (self.path / f"{name}.calls").read_text().split()

    def file(self, path: Path) -> PluginFile:
        """Returns a plugin named by its file, with its configuration of conf.d."""
        idx, _, base = path.name.partition("-")
        return PluginFile(path, idx, base, drop_in(self.config, idx, base))

    def runtime(self, flavour: Flavour | None = None, **more: Any) -> Runtime:
        """Returns a runtime without plugins; it is stopped after the test."""
        made = Runtime(flavour or patient(), **more)
        self.runtimes.append(made)
        return made

    def start(self, flavour: Flavour | None = None) -> Runtime:
        """Returns a runtime that has launched all plugins of the directory."""
        made = self.runtime(flavour)
        for path in sorted(self.path.iterdir()):
            made.launch(self.file(path))
        return made

    def launch(self, name: str, source: str, flavour: Flavour | None = None) -> tuple[Runtime, Plugin]:
        """Writes a plugin and launches it alone."""
        made = self.runtime(flavour)
        return made, made.launch(self.file(self.write(name, source)))


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plugins]:
    """An empty plugin directory; runtimes fork its plugins off."""
    monkeypatch.setattr(runtime, "spawn", forked)
    directory = Plugins(tmp_path / "plugins", tmp_path / "conf.d")
    directory.path.mkdir()
    directory.config.mkdir()
    yield directory
    with ExitStack() as stack:
        for made in directory.runtimes:
            stack.callback(made.stop)


def dropped(of: Runtime) -> list[Plugin]:
    """The plugins that have lost their connection."""
    return [plugin for plugin in of.connected if plugin.closed]


def gone(plugin: Plugin) -> bool:
    """Whether the runtime has killed and reaped a plugin that it launched, if it had not ended with its connection."""
    assert plugin.process is not None
    return plugin.process.returncode is not None
