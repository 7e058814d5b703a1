"""The README's commands work when they are copied, and print what it says they print."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.peers.test_hooks_oracle import DEVIATIONS

SAMPLES = Path(__file__).resolve().parents[2] / "hooks.d"
README = (SAMPLES / "README.md").read_text()
BLOCK = re.compile(r"^```sh\n(?P<commands>.*?)^```\n\n```text\n(?P<output>.*?)^```\n", re.MULTILINE | re.DOTALL)
PATH = os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"])


def test_every_command_of_the_readme_prints_what_the_readme_says(tmp_path: Path) -> None:
    folder = shutil.copytree(SAMPLES, tmp_path / "hooks.d")
    blocks = list(BLOCK.finditer(README))
    assert len(blocks) == README.count("```sh\n") > 0
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
        assert (done.returncode, done.stdout) == (0, block["output"]), block["commands"]


def test_the_readme_has_a_line_for_every_sample_and_no_other() -> None:
    told = re.findall(r"^\| \[`([^`]+\.json)`\]", README, re.MULTILINE)
    assert told == sorted(path.name for path in SAMPLES.glob("*.json"))


def test_the_readme_shows_record_json_as_it_is_but_for_the_environment() -> None:
    shown = next(block for block in re.findall(r"```json\n(.*?)```", README, re.DOTALL) if "oci/record" in block)
    without_environment = shown.replace('    "env": ["TZ=UTC"],\n', "")
    assert "".join(without_environment.split()) == "".join((SAMPLES / "record.json").read_text().split())


def test_the_deviations_from_podman_are_those_that_the_oracle_shows() -> None:
    rows = [f"| {each.what} | {each.why.split('. tests/')[0]} |" for each in DEVIATIONS.values()]
    table = README[README.index("What differs from podman") :].split("\n\n")[1]
    assert table.splitlines()[2:] == rows
