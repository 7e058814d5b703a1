"""The command `demo`: what it plays, what it shows, and that it fails when something is wrong."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict

from adapter.cli import command_line as cli
from adapter.cli import demo
from adapter.cli.simulate.view import as_json
from adapter.hooks import inject
from adapter.nri import api
from adapter.runtime import POD_LIFE, read

ROOT = Path(__file__).parents[1]
COMMAND = [str(Path(sys.executable).with_name("v010-adapter")), "demo"]
EVENTS = ["Synchronize", *(one.event for one in list(read(POD_LIFE))[2:])]

Json = dict[str, Any]


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[Json]:
    """The steps of a demo, and its problems."""
    run = demo.Demo(tmp_path_factory.mktemp("demo"))
    steps = [
        as_json(step.scene) | {"runs": step.runs, "log": step.messages, "hooks": step.hooks} for step in run.steps()
    ]
    return [*steps, {"problems": run.problems}]


@pytest.fixture
def samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the samples for the demo, to be changed."""
    for name in ("hooks.d", "legacy-plugins"):
        shutil.copytree(ROOT / name, tmp_path / name)
    monkeypatch.setattr(demo, "SAMPLES", tmp_path)
    return tmp_path


def test_the_demo_plays_the_whole_life_of_a_pod_and_runs_every_plugin_once_per_create_and_delete(
    lines: list[Json],
) -> None:
    *steps, end = lines
    assert [step["event"] for step in steps] == EVENTS
    assert end == {"problems": []}
    runs = [(step["event"], run["state"], run["plugin"]) for step in steps for run in step["runs"]]
    states = {"RunPodSandbox": "create", "StartContainer": "create", "StopContainer": "delete"}
    assert runs == [
        (event, state, plugin)
        for event, state in {**states, "StopPodSandbox": "delete"}.items()
        for plugin in ("clearcfs", "dump", "logger")
    ]


def test_requests_results_and_times_are_shown(lines: list[Json]) -> None:
    start = next(step for step in lines if step.get("event") == "StartContainer")
    clearcfs, _, logger = start["runs"]
    assert start["us"] > clearcfs["us"] > 0
    assert clearcfs["request"]["spec"]["resources"]["cpu"]["quota"] == 50000
    assert clearcfs["result"]["metadata"]["now"] == "max 100000"
    assert [result["plugin"] for result in logger["request"]["results"]] == ["clearcfs", "dump"]
    assert any("create container c1" in line["message"] for line in start["log"])
    pids = [run for step in lines[:-1] for run in step["runs"] if "pid" in run["request"]]
    assert not pids, "these would be other processes"


def test_hooks_are_shown_with_reasons_and_are_those_that_the_adapter_injects(lines: list[Json]) -> None:
    (create,) = [step for step in lines[:-1] if step["hooks"]]
    assert create["event"] == "CreateContainer"
    assert {hook.named.file: (hook.matched, hook.reason) for hook in create["hooks"]} == {
        "always-inject.json": (True, "always is true"),
        "by-annotation.json": (False, r"no annotation matches '^hooks\\.example\\.com/trace$': '^(true|yes)$'"),
        "by-command.json": (False, "the container has no bind mounts but those of the runtime"),
        "old-style.json": (
            False,
            "no annotation matches '.*': '^web$' and the command '/bin/sh' matches none of '/nginx$'",
        ),
        "record.json": (
            True,
            "the annotation 'hooks.example.com/record': 'yes' matches "
            r"'^hooks\\.example\\.com/record$': '^(true|yes)$'",
        ),
    }
    injected = {
        stage: [os.path.basename(hook["path"]) for hook in hooks] for stage, hooks in create["adjust"]["hooks"].items()
    }
    expected = inject.adjustment(hook.named for hook in create["hooks"] if hook.matched)
    assert ParseDict(create["adjust"], api.ContainerAdjustment()) == expected
    assert injected == {"create_runtime": ["true", "record"], "poststop": ["true", "record"]}


def test_the_demo_leaves_nothing_behind_and_verbose_shows_requests_and_results_in_full(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PATH": os.defpath}
    done = subprocess.run([*COMMAND, "-v"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert str(tmp_path) in done.stdout
    assert '"sandboxID": "ed03050bc61d5f94bd1222020c86c2cff3b63ecf1723e7ba9f105f164e5d889e"' in done.stdout
    assert '"error": ""' in done.stdout
    assert max(map(len, done.stdout.splitlines())) > 200
    assert list(tmp_path.iterdir()) == []


def test_for_people_everything_is_on_lines_that_fit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert demo.main([]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 120
    assert "\033" not in text
    for expected in (
        "\n    request   create container ed8ad69bb328, cgroup /e2e/p1/ed8ad69bb328\n",
        "\n    logger   ",
        "log       info: logger: stderr: create container c1 in pod default/p1",
        "\n    + hooks.createRuntime[/bin/true]  {",
        "\n    hook      always-inject.json   yes: always is true\n",
        "\n    hook      by-command.json      no: the container has no bind mounts but those of the runtime\n",
        "\n12 events, no problems\n",
    ):
        assert expected in text


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    """Returns the output of a demo that fails."""
    assert demo.main([]) == 1
    return capsys.readouterr().out


def test_a_plugin_that_fails_is_shown_and_fails_the_demo(samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (samples / "legacy-plugins/dump").write_text('#!/bin/sh\necho \'{"plugin":"dump","error":"no mood"}\'\n')
    text = shown(capsys)
    assert "FAILED: plugin: dump: no mood" in text
    assert "\nPROBLEM: RunPodSandbox: plugin: dump: no mood\n" in text


def test_bad_hook_files_are_shown_and_fail_the_demo(samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, old, new in (("always-inject", "poststop", "postmortem"), ("by-command", "/bin/true", "/not/there")):
        file = samples / f"hooks.d/{name}.json"
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))
    text = shown(capsys)
    assert "the stage 'postmortem' is unknown" in text
    assert "its program /not/there: No such file" in text
    assert text.count("\nPROBLEM: ") == 2


def test_an_adapter_that_does_not_start_is_shown_with_its_last_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/not/there")
    text = shown(capsys)
    assert "\nPROBLEM: Synchronize: 00-v010-adapter: plugin 00-v010-adapter failed to register" in text
    assert "/not/there" in text


def test_without_a_temporary_directory_it_says_so_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in a container whose root is read-only."""
    monkeypatch.setenv("TMPDIR", "/proc/1")
    assert cli.main(["demo"]) == cli.FINDINGS
    assert re.fullmatch(r"v010-adapter: /proc/1/\S+: No such file or directory\n", capsys.readouterr().err)
