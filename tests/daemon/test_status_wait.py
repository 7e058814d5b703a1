"""`status -wait`: a rollout goes on when an adapter has joined a runtime."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from adapter.cli import command_line as cli
from adapter.monitoring import status

from .harness import Node

JOINED = {"state": "joined", "pid": 7, "faults": []}
CONNECTING = {"state": "connecting", "pid": 7, "faults": []}


@pytest.fixture
def wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the command with a clock of its own, in front of adapters that tell one thing after the other."""

    def run(*told: list[dict[str, Any]], seconds: str = "10") -> tuple[int, float]:
        now, looks = [0.0], iter(told)
        monkeypatch.setattr(time, "monotonic", lambda: now[0])
        monkeypatch.setattr(time, "sleep", lambda pause: now.__setitem__(0, now[0] + pause))
        last: list[list[dict[str, Any]]] = [[]]
        monkeypatch.setattr(status, "ask", lambda *_: last.__setitem__(0, next(looks, last[0])) or last[0])
        code = cli.main(["status", "-directory", str(tmp_path), "-wait", seconds, "-o", "json"])
        return code, now[0]

    return run


def test_it_waits_for_an_adapter_and_then_for_its_runtime(wait: Any, capsys: pytest.CaptureFixture[str]) -> None:
    code, waited = wait([], [CONNECTING], [CONNECTING], [CONNECTING, JOINED])
    assert (code, waited) == (0, 1.5)
    assert json.loads(capsys.readouterr().out)["adapters"] == [CONNECTING, JOINED], "it is told once"
    assert wait([JOINED]) == (0, 0)
    assert wait([{**JOINED, "faults": ["one"]}]) == (1, 0)


def test_it_waits_no_longer_than_it_is_told_to(wait: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert wait(seconds="2.2") == (3, pytest.approx(2.2))
    assert capsys.readouterr().err.startswith("no adapter has joined a runtime within 2.2 s\nno adapter runs with")
    assert wait([CONNECTING], seconds="1") == (1, 1)
    assert capsys.readouterr().err == "no adapter has joined a runtime within 1 s\n"


@pytest.mark.parametrize("words", [["-1"], ["nan"], ["inf"], ["soon"], ["1", "-watch"]])
def test_the_time_is_a_number_and_watching_is_something_else(words: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(["status", "-wait", *words])


def test_it_ends_when_an_adapter_joins(node: Node, capfd: pytest.CaptureFixture[str]) -> None:
    node.shared_state = "state"
    codes: list[int] = []
    waiting = threading.Thread(
        target=lambda: codes.append(cli.main(["status", "-directory", str(node.path / "state"), "-wait", "60"]))
    )
    waiting.start()
    node.launch()
    waiting.join()
    assert codes == [0]
    assert "joined" in capfd.readouterr().out
