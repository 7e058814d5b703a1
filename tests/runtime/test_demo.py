from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from adapter.errors import ConfigError
from adapter.runtime import Outcome
from adapter.runtime.demo import main, stage
from adapter.runtime.demo.scene import MOMENTS, Ending, Scene
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
        "12 plugin runs for 11 events",
    ):
        assert expected in text


def test_verbose_shows_requests_and_results_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-v"]) == 0
    text = capsys.readouterr().out
    assert '"sandboxID": "ed03050bc61d5f94bd1222020c86c2cff3b63ecf1723e7ba9f105f164e5d889e"' in text
    assert '"error": ""' in text


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
    view.close(Ending(1, 0, 0, 0.1, ["broken"]))
    assert ("\033[31m" in out.getvalue()) is coloured


def test_a_request_in_short_says_what_is_not_there() -> None:
    request = {"state": "delete", "id": "a", "sandboxID": "b", "spec": {"resources": None, "cgroupsPath": ""}}
    assert short(request) == ["delete container a, no pid, no cgroup", ""]
