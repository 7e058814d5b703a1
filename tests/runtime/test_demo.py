from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from adapter.errors import ConfigError
from adapter.nri import api
from adapter.runtime import Outcome
from adapter.runtime.demo import hooks, main, stage
from adapter.runtime.demo.scene import MOMENTS, Ending, Hooks, Scene
from adapter.runtime.demo.view import TextView, short

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "adapter", "demo"]


@pytest.fixture(scope="module")
def lines() -> list[dict[str, Any]]:
    """What `demo -o json` writes."""
    done = subprocess.run([*COMMAND, "-o", "json"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_demo_plays_the_whole_life_of_a_pod(lines: list[dict[str, Any]]) -> None:
    opening, *scenes, summary = lines
    assert opening["opening"]["runtime"] == "containerd 2.4.2"
    assert [scene["event"] for scene in scenes] == list(MOMENTS)
    assert summary["summary"]["unexpected"] == []
    assert (summary["summary"]["events"], summary["summary"]["runs"]) == (11, 12)


def test_every_plugin_is_run_once_per_create_and_once_per_delete(lines: list[dict[str, Any]]) -> None:
    runs = [(run["event"], run["state"], run["plugin"]) for scene in lines[1:-1] for run in scene["runs"]]
    assert runs == [
        (event, state, plugin)
        for event, state in (
            ("RunPodSandbox", "create"),
            ("StartContainer", "create"),
            ("StopContainer", "delete"),
            ("StopPodSandbox", "delete"),
        )
        for plugin in ("clearcfs", "dump", "logger")
    ]


def test_requests_results_and_times_are_shown(lines: list[dict[str, Any]]) -> None:
    start = next(scene for scene in lines[1:-1] if scene["event"] == "StartContainer")
    clearcfs, _, logger = start["runs"]
    assert start["us"] > clearcfs["us"] > 0
    assert clearcfs["request"]["spec"]["resources"]["cpu"]["quota"] == 50000
    assert clearcfs["result"]["metadata"]["now"] == "max 100000"
    assert [result["plugin"] for result in logger["request"]["results"]] == ["clearcfs", "dump"]
    assert start["quota"] == ["50000 100000", "max 100000"]
    assert any("create container c1" in line["message"] for line in start["log"])


def test_hooks_are_shown_with_reasons_and_with_what_the_adapter_answered(lines: list[dict[str, Any]]) -> None:
    assert [scene["event"] for scene in lines[1:-1] if scene["hooks"]] == ["CreateContainer"]
    create = next(scene["hooks"] for scene in lines[1:-1] if scene["hooks"])
    assert {one["name"]: (one["matched"], one["reason"]) for one in create["decisions"]} == {
        "always-inject.json": (True, "always is true"),
        "by-annotation.json": (False, r"no annotation matches '^hooks\\.example\\.com/trace$': '^(true|yes)$'"),
        "by-command.json": (False, "it has no bind mounts but the runtime's own"),
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
    always, record = create["injected"]["create_runtime"]
    assert always == {
        "path": "/bin/true",
        "args": ["true", "for every container"],
        "env": ["SAMPLE=always-inject"],
        "timeout": {"value": 5},
    }
    assert record["path"] == f"{lines[0]['opening']['temporary']}/hooks.d/record"
    assert create["injected"] == {"create_runtime": [always, record], "poststop": [always, record]}
    assert lines[-1]["summary"]["hooks"] == 4


def test_the_annotation_that_a_sample_needs_is_said_to_be_the_demos(lines: list[dict[str, Any]]) -> None:
    opening = lines[0]["opening"]
    assert opening["annotation"] == "hooks.example.com/record=yes"
    assert opening["record"] == "/usr/local/libexec/oci/record"
    requests = [run["request"] for scene in lines[1:-1] for run in scene["runs"] if "Pod" in scene["event"]]
    assert {request["spec"]["annotations"]["hooks.example.com/record"] for request in requests} == {"yes"}


def test_for_people_everything_is_on_lines_that_fit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([]) == 0
    text = capsys.readouterr().out
    unbreakable = 60  # a path as long as the checkout's may be
    assert all(len(line) < 80 for line in text.splitlines() if all(len(word) < unbreakable for word in line.split()))
    assert "\033" not in text
    for expected in (
        "StartContainer      its process waits to become its program",
        "request   create container ed8ad69bb328, pid 23332",
        "ok  file: .../dump/002-dump-create-container.json",
        "cpu.max   50000 100000 -> max 100000: the container has no CPU limit",
        "answer    ok: the runtime goes on",
        "always-inject.json  yes  always is true",
        "by-command.json     no   it has no bind mounts but the runtime's\n",
        "injected  createRuntime       /bin/true 'for every container'\n"
        "                                .../hooks.d/record .../oci-hooks.jsonl\n"
        "            poststop            /bin/true 'for every container'\n",
        "answer    ok: the runtime goes on, and would have runc run these 4 hooks",
        "- the annotation hooks.example.com/record=yes, for record.json to",
        "12 plugin runs for 11 events",
    ):
        assert expected in text


def test_verbose_shows_requests_and_results_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-v"]) == 0
    text = capsys.readouterr().out
    assert '"sandboxID": "ed03050bc61d5f94bd1222020c86c2cff3b63ecf1723e7ba9f105f164e5d889e"' in text
    assert '"error": ""' in text
    assert '"SAMPLE=always-inject"' in text


def test_the_demo_leaves_nothing_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = subprocess.run(
        COMMAND, cwd=ROOT, env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, check=False
    )
    assert done.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_the_demo_needs_no_installed_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "COMMAND", tmp_path / "none")
    assert main([]) == 0


def test_a_plugin_that_fails_is_shown_and_fails_the_demo(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in stage.PLUGINS:
        script = tmp_path / name
        script.write_text(f'#!/bin/sh\necho \'{{"plugin":"{name}","error":"no mood"}}\'\n')
        script.chmod(0o755)
    monkeypatch.setattr(stage, "SAMPLES", (tmp_path,))
    assert main([]) == 1
    text = capsys.readouterr().out
    assert "FAILED: plugin: clearcfs: no mood" in text.replace("\n                       ", " ")
    assert "answer    error: plugin: clearcfs: no mood" in text
    assert "PROBLEM   RunPodSandbox: ran clearcfs create ed03050bc61d instead of" in text
    assert "not all went as it should" in text


def _change(directory: Path, name: str, old: str, new: str) -> None:
    """Makes a copy of the sample hooks of which one is different."""
    shutil.copytree(ROOT / "hooks.d", directory, dirs_exist_ok=True)
    text = (directory / name).read_text()
    assert old in text
    (directory / name).write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("name", "old", "new", "problems"),
    [
        (
            "old-style.json",
            "/nginx$",
            "/sh$",
            [
                "by-command.json no, old-style.json yes, record.json yes instead of always-inject.json yes",
                "the adapter injects {'create_runtime': ['true', 'true', 'record'], 'poststop': ['true', 'record']}",
            ],
        ),
        (
            "always-inject.json",
            ', "poststop"',
            "",
            ["the adapter injects {'create_runtime': ['true', 'record'], 'poststop': ['record']} instead of"],
        ),
        (
            "always-inject.json",
            "poststop",
            "postmortem",
            ["always-inject.json  BAD", "the stage 'postmortem' is unknown"],
        ),
        (
            "by-command.json",
            "/bin/true",
            "/not/there",
            ["by-command.json     BAD", "its program /not/there: No such file"],
        ),
    ],
    ids=["another hook", "another stage", "a bad file", "a missing program"],
)
def test_hooks_other_than_expected_are_shown_and_fail_the_demo(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    old: str,
    new: str,
    problems: list[str],
) -> None:
    _change(tmp_path, name, old, new)
    monkeypatch.setattr(stage, "HOOK_SAMPLES", (tmp_path,))
    assert main([]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    for problem in problems:
        assert " ".join(problem.split()) in shown
    assert "PROBLEM CreateContainer: " in shown


def test_an_answer_of_the_adapter_other_than_hooks_match_says_fails_the_demo(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = api.ContainerAdjustment(args=["sh"], hooks=api.Hooks(poststop=[api.Hook(path="/bin/true")]))
    monkeypatch.setattr(Outcome, "adjustments", property(lambda _: {stage.NAME: answer}))
    assert main([]) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert "record.json yes the annotation" in text
    assert "injected poststop /bin/true answer" in text
    assert "PROBLEM the adapter adjusts args of the container" in text
    assert "the adapter injects {'poststop': [{'path': '/bin/true'}]}, but hooks match says {'create_runtime'" in text


def test_verdicts_that_agree_with_a_wrong_answer_do_not_make_it_right() -> None:
    decisions = [{"name": name, "matched": matched} for name, matched in hooks.HOOKS.items()]
    [problem] = hooks.problems(Hooks({}, decisions, [], {}))
    assert problem.startswith("the adapter injects {} instead of")


def test_no_answer_of_hooks_match_is_told_with_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    explain = hooks.explain
    mute = tmp_path / "mute"
    mute.write_text("#!/bin/sh\necho 'no idea' >&2\nexit 2\n")
    mute.chmod(0o755)
    monkeypatch.setattr(hooks, "explain", lambda _, *others: explain(mute, *others))
    assert main([]) == 1
    assert "PROBLEM   hooks match: no idea" in capsys.readouterr().out
    with pytest.raises(ConfigError, match=r"hooks match: .*No such file"):
        explain(tmp_path / "none", tmp_path, api.CreateContainerRequest(), tmp_path / "scratch")


def test_an_adapter_that_does_not_start_is_shown_with_its_last_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "v010-adapter"
    broken.write_text("#!/bin/sh\necho 'cannot go on' >&2\n")
    broken.chmod(0o755)
    monkeypatch.setattr(stage, "COMMAND", broken)
    assert main([]) == 1
    text = capsys.readouterr().out
    assert "PROBLEM   cannot go on" in text
    assert "PROBLEM   the adapter did not come into service" in text


def test_missing_samples_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "SAMPLES", (tmp_path,))
    with pytest.raises(ConfigError, match=f"{tmp_path}: the sample plugins clearcfs, dump, logger are not there"):
        main([])


def test_missing_sample_hooks_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "HOOK_SAMPLES", (tmp_path,))
    with pytest.raises(ConfigError, match=f"{tmp_path}: the sample hooks always-inject.json, .*, record are not there"):
        main([])


def test_unknown_options_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["-o", "xml"])
    assert exit_.value.code == 2


def test_a_reader_that_goes_away_is_no_error_worth_a_traceback() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(COMMAND, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_only_a_terminal_that_wants_colour_gets_it(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], coloured: bool
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    out = Terminal()
    view = TextView(out, full=False)
    view.show(Scene("StopContainer", Outcome("StopContainer", error="broken")))
    view.close(Ending(1, 0, 0, 0.1, 0, ["broken"]))
    assert ("\033[31m" in out.getvalue()) is coloured


def test_a_request_in_short_says_what_is_not_there() -> None:
    request = {"state": "delete", "id": "a", "sandboxID": "b", "spec": {"resources": None, "cgroupsPath": ""}}
    assert short(request) == ["delete container a, no pid, no cgroup", ""]
