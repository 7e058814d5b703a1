"""Fixtures of the sample tests."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.rig.brief import few
from tests.rig.debian import find, missing
from tests.rig.programs import Programs

from .plugins import SAMPLES, Shell

DEFAULT_DIRECTORY = "/run/nri/dump"


def fill(directory: Path) -> None:
    """Fills a directory with links to busybox, one for each of its programs, if it is not there yet."""
    binary = find("busybox", "busybox-static")
    if isinstance(binary, str):
        missing(binary)
    if directory.exists():
        return
    directory.mkdir()
    for name in subprocess.run([binary, "--list"], capture_output=True, check=True, text=True).stdout.split():
        (directory / name).symlink_to(binary)


@pytest.fixture
def tame_dump(tmp_path: Path) -> Path:
    """A copy of `dump` whose default directory lies in the test's own folder: `default` beside it."""
    script = (SAMPLES / "dump").read_text()
    assert script.count(f'"{DEFAULT_DIRECTORY}"') == 1
    return Programs(tmp_path).write("dump", script.replace(f'"{DEFAULT_DIRECTORY}"', f'"{tmp_path}/default"'))


@pytest.fixture(params=few(["dash", "busybox"], 1))
def shell(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A way to run a shell script; the one of busybox has nothing but busybox on its PATH."""
    if request.param == "busybox":
        applets = tmp_path_factory.getbasetemp() / "applets"
        fill(applets)
        return {"shell": (f"{applets}/sh",), "path": str(applets)}
    if not shutil.which("dash"):
        missing("no dash on PATH")
    return {"shell": ("dash",)}
