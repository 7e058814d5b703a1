"""What a release has: one version everywhere; the command of the bundle."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

from adapter import __version__

from .chart import CHART

ROOT = Path(__file__).parents[2]


def test_whatever_names_a_version_names_the_adapters() -> None:
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in configuration["project"]["dynamic"]
    assert configuration["tool"]["hatch"]["version"] == {"path": "adapter/__init__.py"}
    command = Path(sys.executable).with_name("v010-adapter")
    said = subprocess.run([command, "--version"], check=True, capture_output=True, text=True)
    assert said.stdout.startswith(f"v010-adapter {__version__}, ")
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    changes = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert changes[0] == __version__
    for profile in ("hooks", "legacy"):
        text = (ROOT / f"deploy/kustomize/{profile}/manifests.yaml").read_text()
        assert set(re.findall(r"image: \S*nri-v010-adapter:(\S+?)\"?$", text, re.M)) == {__version__}, profile
    pages = "".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    assert set(re.findall(r"v010-adapter-(\d[\d.]*\d)", pages)) == {__version__}


def test_the_bundles_command_runs_the_python_beside_it(tmp_path: Path) -> None:
    """Called by a link to a link, without PATH, from a directory with a space."""
    directory = tmp_path / "a bundle"
    directory.mkdir()
    command, python = directory / "v010-adapter", directory / "python3"
    shutil.copy(ROOT / "deploy/bundle/v010-adapter", command)
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$0" "$@"\n')
    python.chmod(0o755)
    (tmp_path / "link").symlink_to(command)
    (tmp_path / "00-v010-adapter").symlink_to("link")
    run = subprocess.run(
        ["./00-v010-adapter", "a b", ""], cwd=tmp_path, env={}, check=True, capture_output=True, text=True
    )
    assert run.stdout.split("\n") == [str(python), "-I", "./00-v010-adapter", "a b", "", ""]
