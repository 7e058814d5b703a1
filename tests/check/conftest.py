"""A node with everything that can be configured, in a directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.rig.command import Command
from tests.rig.sockets import listening
from v010_adapter.cli import systems
from v010_adapter.cli.check import configuration
from v010_adapter.cli.systems import System

HOOK = {"version": "1.0.0", "hook": {"path": "/bin/true"}, "when": {"always": True}, "stages": ["createRuntime"]}
REQUIRED = """\
version = 3
[plugins.'io.containerd.nri.v1.nri'.default_validator]
enable = true
required_plugins = ["other", "v010-adapter"]
"""
"""containerd's configuration that creates no container while the adapter is missing."""
REQUIRED_OF_CRIO = """\
[crio.nri.default_validator]
nri_enable_default_validator = true
nri_validator_required_plugins = ["v010-adapter"]
"""
"""CRI-O's configuration that does the same."""


class Checked(Command):
    """Everything that is configured, in a directory, and what the command says of it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        super().__init__(folder, capsys)
        self.sockets = ExitStack()
        self.settings: dict[str, Any] = {
            "legacy": {"config": str(folder / "conf.json"), "path": [str(folder / "bin")]},
            "hooks": {"directories": [str(folder / "one"), str(folder / "two")]},
            "runtime": {"socket": str(folder / "nri.sock")},
            "state": {"directory": str(folder / "state")},
        }
        for name in ("bin", "one", "two", "plugins", "conf.d"):
            (folder / name).mkdir()

    def listen(self, name: str) -> None:
        """Makes the socket of a runtime, which takes no connection."""
        self.sockets.enter_context(listening(self.folder / name))

    def program(self, name: str, text: str = "#!/bin/sh\n") -> Path:
        file = self.write(f"bin/{name}", text)
        file.chmod(0o755)
        return file

    def __call__(self, *words: str) -> list[str]:
        """The lines of the report, less this node's folder; `code` is the exit code."""
        self.run("check", *(words or ("-config", self.write("own.yaml", self.settings))))
        return [" ".join(line.split()) for line in self.out.replace(f"{self.folder}/", "").splitlines()]

    def problems(self) -> list[str]:
        """The lines of the report that are problems."""
        return [line.removeprefix("PROBLEM ") for line in self() if line.startswith("PROBLEM")]

    def part(self, name: str) -> list[str]:
        """The lines of one part of the report, whose parts begin with a line of their name."""
        lines = self()
        start = lines.index(name) + 1 if name in lines else len(lines)
        others = (number for number, line in enumerate(lines) if line in PARTS or number == len(lines) - 1)
        return lines[start : next((number for number in others if number >= start), None)]


PARTS = {"configuration", "legacy plugins", "hooks", "trust", "runtime", "stand-by"}


def _moved(folder: Path, name: str, config: str, drop_ins: tuple[str, ...]) -> System:
    """A system whose files are in a directory."""
    usual = next(system for system in systems.SYSTEMS if system.name == name)
    file = str(folder / config)
    return usual._replace(socket=str(folder / name), config=(file,), drop_ins=drop_ins, editable=file)


@pytest.fixture
def node(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Checked]:
    monkeypatch.setattr(configuration, "PLUGINS", str(tmp_path / "plugins"))
    monkeypatch.setattr(configuration, "DROP_INS", str(tmp_path / "conf.d"))
    monkeypatch.setattr(configuration, "UNIT", str(tmp_path / "unit"))
    for module in ("cli.check.plugins", "cli.check.runtimes", "legacy.sandboxes"):
        monkeypatch.setattr(f"v010_adapter.{module}.DEFAULT_CONF_JSON", str(tmp_path / "shared.json"))
    usual = {str(tmp_path / name) for name in ("conf.json", "one", "two")}
    monkeypatch.setattr(configuration, "USUAL", usual | configuration.USUAL)
    monkeypatch.setattr("v010_adapter.settings.DEFAULT_PATH", str(tmp_path / "default.yaml"))
    moved = {"containerd": ("config.toml", ()), "CRI-O": ("crio.conf", (f"{tmp_path}/crio.conf.d",))}
    monkeypatch.setattr(systems, "SYSTEMS", tuple(_moved(tmp_path, name, *places) for name, places in moved.items()))
    monkeypatch.setattr(systems, "DOCKER_SOCKET", str(tmp_path / "Docker"))
    node = Checked(tmp_path, capsys)
    node.write("config.toml", REQUIRED)
    node.write("crio.conf", REQUIRED_OF_CRIO)
    with node.sockets:
        yield node
