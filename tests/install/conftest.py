"""The node of the tests: a directory with the node's files, in which the command is installed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.rig.daemon import COMMAND
from v010_adapter.cli import command_line as cli

PROGRAM = "/opt/v010-adapter/bin/v010-adapter"
LINK = "opt/nri/plugins/00-v010-adapter"
UNIT = "etc/systemd/system/v010-adapter.service"
WANTED = "etc/systemd/system/multi-user.target.wants/v010-adapter.service"
YAML, LIST, SHARED = "etc/nri/v010-adapter.yaml", "etc/nri/v010-adapter.json", "etc/nri/conf.json"
EXTERNAL = ("-external",)
FORMS = {(): [LIST, YAML, LINK], EXTERNAL: [LIST, YAML, UNIT, WANTED]}
"""What each form makes, by its flags."""


class Node:
    """A node below a directory, and what the commands do to it."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root = root
        self._capsys = capsys
        for directory in ("etc/systemd/system", "opt/v010-adapter/bin"):
            (root / directory).mkdir(parents=True)
        shutil.copy(COMMAND, root / PROGRAM[1:])
        self.socket = self.write("run/containerd/containerd.sock", "")

    def __call__(self, *words: str) -> int:
        """Runs a command; `out` and `err` are what it prints."""
        code = cli.main([*words, "-root", str(self.root)])
        self.out, self.err = self._capsys.readouterr()
        return code

    def results(self, *words: str) -> dict[str, tuple[str, bool]]:
        """Runs `install` and returns what it tells of each thing, and whether that has changed."""
        assert self("install", *words, "-o", "json") == 0
        told = self.told()
        assert told["changed"] is any(thing["changed"] for thing in told["things"])
        return {thing["path"][1:]: (thing["result"], thing["changed"]) for thing in told["things"]}

    def told(self) -> Any:
        return json.loads(self.out)

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def link(self, name: str, target: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)
        return path

    def files(self) -> Mapping[str, tuple[int, int, str]]:
        """Every file, link and directory: its mode, the time of its last change, its content."""
        found = {}
        for path in sorted(self.root.rglob("*")):
            status = path.lstat()
            content = os.readlink(path) if path.is_symlink() else path.read_text() if path.is_file() else ""
            changed = 0 if path.is_dir() else status.st_ctime_ns
            found[str(path.relative_to(self.root))] = (status.st_mode, changed, content)
        return found


@pytest.fixture
def node(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Node:
    monkeypatch.setattr("sys.argv", [str(tmp_path / PROGRAM[1:])])
    return Node(tmp_path, capsys)


@pytest.fixture(params=FORMS, ids=["launched", "external"])
def form(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The flags of one of the two forms."""
    return tuple(request.param)
