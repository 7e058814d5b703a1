"""Completion of the command line, in the shells themselves."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.rig.debian import missing
from v010_adapter.cli import command_line as cli
from v010_adapter.cli import completion
from v010_adapter.cli.arguments import COMMANDS

CASES = {
    "": {*COMMANDS},
    "ch": {"check"},
    "-idx 10 st": {"status"},
    "-ve": {"-verbose", "-version"},
    "check --out": {"--output"},
    "check -conf": {"-config"},
    "check -o ": {"text", "json"},
    "check --output j": {"json"},
    "check -config ow": {"own.yaml"},
    "hooks ": {"match", "list"},
    "hooks match -container po": {"pod.yaml"},
    "simulate -plugin 00-": {"00-plugin"},
    "simulate 00-": {"00-plugin"},
    "simulate -runtime cri": {"cri-o/1.34.0", "cri-o/1.36.3"},
    "simulate -config hoo": {"hooks.d"},
    "completion ": {"bash", "zsh", "fish"},
}
"""What may follow on `v010-adapter` and these words in the folder of the tests."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("own.yaml", "pod.yaml", "00-plugin"):
        (tmp_path / name).touch()
    (tmp_path / "hooks.d").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shell(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        missing(f"{name} is not on this machine")
    return path


def ran(*command: str) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.usefixtures("folder")
def test_bash_completes() -> None:
    script = [completion.script("bash")]
    for line in CASES:
        words = ["v010-adapter", *line.split(" ")]
        script.append(f"COMP_WORDS=({shlex.join(words)}) COMP_CWORD={len(words) - 1} COMPREPLY=()")
        # compopt works at a prompt only
        script.append('_shtab_v010_adapter 2>/dev/null; printf "%s\\n" "${COMPREPLY[@]}"; echo ---')
    found = "\n".join(ran(shell("bash"), "-c", "\n".join(script))).split("---")
    assert {line: set(some.split()) for line, some in zip(CASES, found, strict=False)} == CASES


@pytest.mark.usefixtures("folder")
def test_fish_completes() -> None:
    for line, expected in CASES.items():
        call = f"complete -C {shlex.quote(f'v010-adapter {line}')}"
        lines = ran(shell("fish"), "--no-config", "-c", f"{completion.script('fish')}\n{call}")
        assert {found.split("\t")[0].rstrip("/") for found in lines} == expected, line


def test_the_command_prints_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    for name in completion.SHELLS:
        assert cli.main(["completion", name]) == 0
        assert capsys.readouterr().out == completion.script(name) + "\n"
    with pytest.raises(SystemExit) as ended:
        cli.main(["completion", "csh"])
    assert ended.value.code == 2
