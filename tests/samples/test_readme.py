"""The README's commands work when they are copied, and print what it says they print."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from adapter import settings

from .plugins import PATH, SAMPLES

BLOCK = re.compile(r"^```sh\n(?P<commands>.*?)^```\n+(?:```text\n(?P<output>.*?)^```\n)?", re.MULTILINE | re.DOTALL)

YAML = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_command_of_the_readme_prints_what_the_readme_says(tmp_path: Path) -> None:
    folder = shutil.copytree(SAMPLES, tmp_path / "legacy-plugins")
    blocks = list(BLOCK.finditer((SAMPLES / "README.md").read_text()))
    assert len(blocks) == (SAMPLES / "README.md").read_text().count("```sh\n") > 0
    for block in blocks:
        done = subprocess.run(
            ["sh", "-eu", "-c", block["commands"]],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"PATH": PATH},
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, block["output"] or ""), block["commands"]


@pytest.mark.parametrize("text", YAML.findall((SAMPLES / "README.md").read_text()))
def test_every_configuration_of_the_readme_is_one(text: str) -> None:
    found, errors = settings.parse(text, "README.md")
    assert errors == []
    assert found.legacy.plugins
    for plugin, own in found.legacy.plugins.items():
        assert (SAMPLES / plugin).exists()
        assert "CreateContainer" in (own.events or ())
