"""What a release has: one version everywhere; the command of the bundle."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from adapter import __version__

ROOT = Path(__file__).parents[2]


def test_the_packages_version_is_the_adapters() -> None:
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in configuration["project"]["dynamic"]
    assert configuration["tool"]["hatch"]["version"] == {"path": "adapter/__init__.py"}


def test_the_command_says_this_version() -> None:
    command = Path(sys.executable).with_name("v010-adapter")
    said = subprocess.run([command, "--version"], check=True, capture_output=True, text=True)
    assert said.stdout.startswith(f"v010-adapter {__version__}, ")


def test_the_changelog_begins_with_this_version() -> None:
    first = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert first is not None
    assert first[1] == __version__


def test_the_manifests_run_the_image_of_this_version() -> None:
    for profile in ("hooks", "legacy"):
        text = (ROOT / f"deploy/kustomize/{profile}/manifests.yaml").read_text()
        assert set(re.findall(r"image: \S*nri-v010-adapter:(\S+?)\"?$", text, re.M)) == {__version__}, profile


def test_the_commands_of_the_documentation_name_files_of_this_version() -> None:
    pages = "".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    assert set(re.findall(r"v010-adapter-(\d[\d.]*\d)", pages)) == {__version__}


def test_the_bundles_command_runs_the_python_beside_it(tmp_path: Path) -> None:
    """Called by a link to a link, without PATH, from a directory with a space."""
    directory = tmp_path / "a bundle"
    directory.mkdir()
    command = directory / "v010-adapter"
    command.write_bytes((ROOT / "deploy/bundle/v010-adapter").read_bytes())
    command.chmod(0o755)
    python = directory / "python3"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$0" "$@"\n')
    python.chmod(0o755)
    (tmp_path / "link").symlink_to(command)
    (tmp_path / "00-v010-adapter").symlink_to("link")
    run = subprocess.run(
        ["./00-v010-adapter", "a b", ""], cwd=tmp_path, env={}, check=True, capture_output=True, text=True
    )
    assert run.stdout.split("\n") == [str(python), "-I", "./00-v010-adapter", "a b", "", ""]
