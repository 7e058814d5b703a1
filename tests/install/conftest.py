"""The node of the tests: a directory with the node's files, in which the command is installed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.rig.command import Command
from tests.rig.daemon import COMMAND

PROGRAM = "/opt/v010-adapter/bin/v010-adapter"
LINK = "opt/nri/plugins/00-v010-adapter"
UNIT = "etc/systemd/system/v010-adapter.service"
WANTED = "etc/systemd/system/multi-user.target.wants/v010-adapter.service"
YAML, LIST, SHARED = "etc/nri/v010-adapter.yaml", "etc/nri/v010-adapter.json", "etc/nri/conf.json"
EXTERNAL = ("-external",)
FORMS = {(): [LIST, YAML, LINK], EXTERNAL: [LIST, YAML, UNIT, WANTED]}
"""What each form makes, by its flags."""


class Installed(Command):
    """A node below a directory, and what the commands do to it."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        super().__init__(root, capsys)
        for directory in ("etc/systemd/system", "opt/v010-adapter/bin"):
            (root / directory).mkdir(parents=True)
        shutil.copy(COMMAND, root / PROGRAM[1:])
        self.socket = self.write("run/containerd/containerd.sock", "")

    def __call__(self, *words: str) -> int:
        """Runs a command; `out` and `err` are what it prints."""
        return self.run(*words, "-root", self.folder)

    def results(self, *words: str) -> dict[str, tuple[str, bool]]:
        """Runs `install` and returns what it tells of each thing, and whether that has changed."""
        assert self("install", *words, "-o", "json") == 0
        told = self.told()
        assert told["changed"] is any(thing["changed"] for thing in told["things"])
        return {thing["path"][1:]: (thing["result"], thing["changed"]) for thing in told["things"]}

    def link(self, name: str, target: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)
        return path

    def files(self) -> Mapping[str, tuple[int, int, str]]:
        """Every file, link and directory: its mode, the time of its last change, its content."""
        found = {}
        for path in sorted(self.folder.rglob("*")):
            status = path.lstat()
            content = os.readlink(path) if path.is_symlink() else path.read_text() if path.is_file() else ""
            changed = 0 if path.is_dir() else status.st_ctime_ns
            found[str(path.relative_to(self.folder))] = (status.st_mode, changed, content)
        return found


@pytest.fixture
def node(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Installed:
    monkeypatch.setattr("sys.argv", [str(tmp_path / PROGRAM[1:])])
    return Installed(tmp_path, capsys)


@pytest.fixture(params=FORMS, ids=["launched", "external"])
def form(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The flags of one of the two forms."""
    return tuple(request.param)
