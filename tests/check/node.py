"""A node with everything that can be configured, in a directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adapter.cli import command_line as cli

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


class Node:
    """Everything that is configured, in a directory, and what the command says of it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys
        self.settings: dict[str, Any] = {
            "legacy": {"config": str(folder / "conf.json"), "path": [str(folder / "bin")]},
            "hooks": {"directories": [str(folder / "one"), str(folder / "two")]},
            "runtime": {"socket": str(folder / "nri.sock")},
        }
        for name in ("bin", "one", "two", "plugins", "conf.d"):
            (folder / name).mkdir()

    def write(self, name: str, text: str | bytes | object) -> Path:
        file = self.folder / name
        given = text if isinstance(text, str | bytes) else json.dumps(text)
        file.write_bytes(given if isinstance(given, bytes) else given.encode())
        return file

    def program(self, name: str, text: str = "#!/bin/sh\n") -> Path:
        file = self.write(f"bin/{name}", text)
        file.chmod(0o755)
        return file

    def __call__(self, *words: str) -> list[str]:
        """The lines of the report, less this node's folder; `code` is the exit code."""
        self.write("own.yaml", self.settings)
        self.code = cli.main(["check", *(words or ("-config", str(self.folder / "own.yaml")))])
        self.out, self.err = self._capsys.readouterr()
        return [" ".join(line.split()) for line in self.out.replace(f"{self.folder}/", "").splitlines()]

    def problems(self) -> list[str]:
        """The lines of the report that are problems."""
        return [line.removeprefix("PROBLEM ") for line in self() if line.startswith("PROBLEM")]

    def caveats(self) -> list[str]:
        """What is said of runtimes."""
        lines = self()
        told = lines[lines.index("runtime") + 2 : -1]
        return [line.removeprefix("note ") for line in told if line.startswith("note ") and "NRI is" not in line]
