"""The command `demo`: what it plays, what it shows, and that it fails when something is wrong."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nri.testing import POD_LIFE
from v010_adapter.cli import command_line as cli
from v010_adapter.cli import demo
from v010_adapter.cli.simulate.view import as_json
from v010_adapter.container_files.recording import read
from v010_adapter.hooks.match import adjustment

from .rig.daemon import COMMAND
from .rig.mounts import OWN_MOUNTS, require_mounts
from .rig.waiting import LIMIT

ROOT = Path(__file__).parents[1]
STATES = {"RunPodSandbox": "create", "StartContainer": "create", "StopContainer": "delete", "StopPodSandbox": "delete"}


def test_a_temporary_directory_where_no_program_runs_is_named(tmp_path: Path) -> None:
    require_mounts()
    script = 'mount -t tmpfs -o noexec,mode=700 tmpfs "$1"; exec "$0" demo'
    line = [*OWN_MOUNTS, "sh", "-ec", script, str(COMMAND), str(tmp_path)]
    done = subprocess.run(
        line, env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True, timeout=LIMIT, check=False
    )
    reason = "is mounted noexec, and programs run there: set TMPDIR to another directory"
    assert (done.returncode, done.stderr) == (2, f"v010-adapter: TMPDIR {tmp_path}: {reason}\n")


def test_the_demo_plays_the_life_of_a_pod_and_runs_every_plugin_once_per_create_and_delete(tmp_path: Path) -> None:
    run = demo.Demo(tmp_path)
    steps = list(run.steps())
    assert run.problems == []
    assert [scene.outcome.event for scene, _ in steps] == [
        "Synchronize",
        *(one.event for one in list(read(POD_LIFE))[2:]),
    ]
    runs = [(scene, line) for scene, lines in steps for line in lines if "request" in line]
    ran = [(scene.outcome.event, line["state"], line["plugin"]) for scene, line in runs]
    assert ran == [(event, STATES[event], plugin) for event in STATES for plugin in ("clearcfs", "dump", "logger")]
    assert not [line for _, line in runs if "pid" in line["request"]], "these would be other processes"
    (start, clearcfs), _, (_, logger) = [run for run in runs if run[0].outcome.event == "StartContainer"]
    assert start.seconds * 1e6 > clearcfs["us"] > 0
    assert as_json(start)["us"] == round(start.seconds * 1e6)
    assert clearcfs["request"]["spec"]["resources"]["cpu"]["quota"] == 50000
    assert clearcfs["result"]["metadata"]["now"] == "max 100000"
    assert [result["plugin"] for result in logger["request"]["results"]] == ["clearcfs", "dump"]
    (create,) = [scene for scene, _ in steps if scene.outcome.event == "CreateContainer"]
    matched = [decision.named for decision in run.decisions() if decision.matched]
    assert [named.file for named in matched] == ["always-inject.json", "record.json"]
    assert create.outcome.adjust == adjustment(matched)
    assert run.brief(f"{tmp_path}/hooks.d/a.json of {'0a' * 32}") == "…/a.json of 0a0a0a0a0a0a"


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    """Returns the whole output of a demo that fails."""
    assert cli.main(["demo", "-v"]) == 1
    return capsys.readouterr().out


def test_what_fails_is_shown_and_fails_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("hooks.d", "legacy-plugins"):
        shutil.copytree(ROOT / name, tmp_path / name)
    monkeypatch.setattr(demo, "SAMPLES", tmp_path)
    (tmp_path / "legacy-plugins/dump").write_text('#!/bin/sh\necho \'{"plugin":"dump","error":"no mood"}\'\n')
    for name, old, new in (("always-inject", "poststop", "postmortem"), ("by-command", "/bin/true", "/not/there")):
        file = tmp_path / f"hooks.d/{name}.json"
        file.write_text(file.read_text().replace(old, new))
    text = shown(capsys)
    for problem in ("\nPROBLEM: RunPodSandbox: plugin: dump: no mood\n", "the stage 'postmortem' is unknown"):
        assert problem in text
    assert "its program /not/there: No such file" in text
    assert re.search(r'\n    clearcfs +\S+ ms  {"plugin": "clearcfs"', text), "the result of what has not failed"
    monkeypatch.setattr(sys, "executable", "/not/there")
    assert "\nPROBLEM: Synchronize: 00-v010-adapter: plugin 00-v010-adapter failed to register" in shown(capsys)


def test_where_it_can_make_no_directory_it_says_so_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in a container whose root is read-only."""
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("TMPDIR", str(file))
    assert cli.main(["demo"]) == cli.FINDINGS
    assert re.fullmatch(rf"v010-adapter: {re.escape(str(file))}/\S+: Not a directory\n", capsys.readouterr().err)
