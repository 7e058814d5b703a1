"""What people see: colours, the tables of `status`, what takes long, and a stdout that cannot be written."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.rig.brief import few
from tests.rig.command import Terminal
from tests.rig.processes import restored
from v010_adapter.cli import command_line as cli
from v010_adapter.cli.simulate.view import TextView, changes, milliseconds
from v010_adapter.cli.terminal import BOLD, announce_if_slow, are_wanted, by_word, show, show_json
from v010_adapter.monitoring import status
from v010_adapter.monitoring.times import BOUNDS

from .rig.daemon import COMMAND, MEASURED, WITH_VARIABLES
from .rig.waiting import limit, until


def test_colours_are_for_terminals_of_users_who_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, pipe = Terminal(), io.StringIO()
    for out, environment, when, wanted in (
        *((terminal, {}, "auto", True), (terminal, {"NO_COLOR": ""}, "auto", True), (pipe, {}, "auto", False)),
        *((terminal, {"NO_COLOR": "1"}, "auto", False), (terminal, {"TERM": "dumb"}, "auto", False)),
        *((terminal, {}, "never", False), (pipe, {"NO_COLOR": "1"}, "always", True)),
    ):
        monkeypatch.setattr(os, "environ", environment)
        assert are_wanted(out, when) is wanted, (environment, when)


def test_each_json_value_and_each_line_is_there_as_soon_as_it_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader follows a `simulate` whose plugin takes minutes."""
    pipe = io.BytesIO()
    with io.TextIOWrapper(pipe, encoding="ascii") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        show_json({"a": "é"}, indent=None)
        assert pipe.getvalue() == b'{"a": "\\u00e9"}\n'
        show_json({"a": ["b"]})
        assert pipe.getvalue().partition(b"\n")[2] == b'{\n  "a": [\n    "b"\n  ]\n}\n'
        show("a line")
        assert pipe.getvalue().endswith(b"\na line\n")
        monkeypatch.undo()


def test_the_first_word_is_coloured_if_it_needs_the_eye() -> None:
    assert by_word("  PROBLEM  x: PROBLEM") == "  \033[31mPROBLEM\033[0m  x: PROBLEM"
    assert by_word("unknown  x") == "\033[33munknown\033[0m  x"
    for line in ("", "  ok  PROBLEM", "UNKNOWN", "BADLY", "no   x"):
        assert by_word(line) == line
    for when, text in (("always", "\033[1mx\033[0m\n"), ("never", "x\n")):
        out = io.StringIO()
        TextView(out, color=when).line("x", BOLD)
        assert out.getvalue() == text
    assert milliseconds(0.0123) == "12.3 ms"


def test_the_mode_of_a_device_is_octal() -> None:
    device = {"path": "/dev/x", "fileMode": 0o660, "major": 1}
    [(_, _, shown)] = changes({}, {"linux": {"devices": [device]}, "env": []})
    assert shown == '{"path": "/dev/x", "fileMode": 0660, "major": 1}'
    assert changes({}, {"env": ["A=é"]}) == [("+", "env[A]", '"A=é"')]
    assert changes({}, {"a": '"fileMode": 9'}) == [("+", "a", json.dumps('"fileMode": 9'))]


# status

TIMES = {"times": {"counts": [1] * (len(BOUNDS) + 1)}, "late": 0, "p50": None}
ADAPTER: dict[str, Any] = {
    **{"version": "1", "pid": 7, "serves": True, "state": "joined", "started": 0, "joins": 2, "owed": 1},
    "runtime": {"name": "containerd", "version": "v2", "nri": "0.12.3"},
    "stalls": {"count": 1, "longest": 0.02},
    "events": {"StartContainer": TIMES | {"p50": 0.001, "p99": 50.0}, "StopContainer": TIMES | {"p99": 100.0}},
    "programs": {"a": {"runs": 1, "failures": 1, "late": 0, "killed": 0, "p50": 0.5, "p99": 1.0, "failed_at": 0,
        "last_error": "x"}},
    **{"joined": 60, "holds": {"held": [{"since": 60, "plugin": "a", "what": "container c"}]}},
    **{"standby": {"a": {"waiting": 1, "off": "why"}, "b": {"waiting": 2, "off": ""}}, "hooks": {"/h/x.json": 3}},
    **{"notes": [], "faults": ["broken"]},
}  # fmt: skip
STANDS_BY = ADAPTER | {
    **{"serves": False, "runtime": {"name": ""}, "joins": 0, "holds": {"held": []}, "faults": [], "notes": ["n"]},
    **{"stalls": {"count": 0, "longest": 0}, "events": {}, "programs": {}, "standby": {}, "hooks": {}},
}
SHOWN = """\
v010-adapter 1, pid 7, since 1970-01-01T00:00:00Z: serves the events
  runtime containerd v2 (NRI 0.12.3), joined
  joined 1970-01-01T00:01:00Z, joins so far: 2
  owed 1 delete
  HELD since 1970-01-01T00:01:00Z, for a: container c
  loop 1 stall, longest turn 20 ms
  FAULT broken

  EVENT ANSWERS LATE P50 ms P99 ms
  StartContainer 19 0 <1 <50000
  StopContainer 19 0 - >50000

  PROGRAM RUNS FAILED LATE KILLED P50 ms P99 ms
  a 1 1 0 0 <500 <1000
    FAILED 1970-01-01T00:00:00Z x

  STAND-BY WAITING
  a 1
    off: why
  b 2

  HOOK CONTAINERS
  /h/x.json 3

v010-adapter 1, pid 7, since 1970-01-01T00:00:00Z: stands by: another adapter serves the events
  owed 1 delete
  loop 0 stalls, longest turn 0 ms
  note n

v010-adapter 2, pid 8: not the version of this command; `-o json` shows its state
"""


def test_status_has_sections_and_no_false_precision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(status, "ask", lambda *_: [ADAPTER, STANDS_BY, {"version": 2, "pid": 8}])
    assert cli.main(["status", "-directory", str(tmp_path)]) == 1
    assert re.sub(r"(?<=\S) +", " ", capsys.readouterr().out.replace("\r", "")) == SHOWN


def test_who_starts_the_adapter_at_a_terminal_beside_one_that_serves_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "own.yaml"
    settings.write_text(json.dumps({"state": {"directory": str(tmp_path)}}))
    start = ["-config", str(settings), "-socket", str(tmp_path / "none.sock")]
    for adapters, told in (([ADAPTER], True), ([ADAPTER | {"serves": False}], False), ([], False)):
        monkeypatch.setattr(status, "ask", lambda at, _, told=adapters: iter(told if at == str(tmp_path) else ()))
        monkeypatch.setattr(sys, "stderr", terminal := Terminal())
        with restored():
            assert cli.main(start) == 1, "there is no runtime"
        line = "another adapter, pid 7, serves containerd already; this one joins beside it"
        assert (line in terminal.getvalue()) is told


# progress: work that takes long says what it does, to people only


@pytest.mark.parametrize(("quiet_time", "told"), [(0, b"counting ...\r\n"), (3600, b"")])
def test_at_a_terminal_long_work_is_told_once(monkeypatch: pytest.MonkeyPatch, quiet_time: int, told: bytes) -> None:
    monkeypatch.setattr("v010_adapter.cli.terminal.QUIET_TIME", quiet_time)
    ours, end = os.openpty()
    with open(ours, "rb", buffering=0) as terminal, open(end, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        before = threading.enumerate()

        def timers() -> list[threading.Timer]:
            return [one for one in threading.enumerate() if isinstance(one, threading.Timer) and one not in before]

        try:
            with announce_if_slow("counting"), limit("nothing is told"):
                assert not told or terminal.read(100) == told
            until(lambda: not timers(), "the timer ends")
        finally:
            for timer in timers():  # Python's end would wait for it
                timer.cancel()
        os.set_blocking(ours, False)
        assert terminal.read(100) is None


# a stdout that cannot be written: a reader that has gone is no error to tell, a full disk is one line

UNBUFFERED = {"PYTHONUNBUFFERED": "1"}
"""Python writes at each `print`, else at its end."""
# argparse prints help; unbuffered, it ignores errors.
CASES: list[tuple[str, dict[str, str]]] = [
    (words, {}) for words in ("--help", "check -h", "check -o json", "install -dry-run", "demo")
]
CASES += [("check -o json", UNBUFFERED)]


@pytest.mark.parametrize(("words", "environment"), few(CASES))
def test_a_reader_that_is_gone_is_no_error_and_a_full_disk_is_one_line(words: str, environment: dict[str, str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as gone, open("/dev/full", "wb") as full:
        for stdout, told in ((gone, []), (full, ["v010-adapter: stdout: No space left on device"])):
            command = [*WITH_VARIABLES, *words.split()]
            env = {"PATH": os.defpath, **MEASURED, **environment}
            done = subprocess.run(command, env=env, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)
            assert done.returncode == 1
            assert [line for line in done.stderr.splitlines() if "warning:" not in line] == told


@pytest.mark.parametrize("words", few(["status -wait 0.1", "check", "demo", "simulate -legacy true -container -"]))
def test_a_stream_that_the_caller_has_closed_changes_nothing_else(words: str, tmp_path: Path) -> None:
    def done(redirection: str, *by: str) -> subprocess.CompletedProcess[str]:
        shell = ["/bin/sh", "-c", f'exec "$0" "$@" {redirection}', *by, str(COMMAND), *words.split()]
        shell += ["-directory", str(tmp_path)] if words.startswith("status") else []
        return subprocess.run(shell, capture_output=True, text=True, check=False)

    bash = [path] if (path := shutil.which("bash")) else []  # what /bin/sh is on many systems
    whole, without_stdout, without_stderr = done("</dev/null"), done("<&- >&-"), done("2>&-", *bash)
    assert without_stdout.returncode == without_stderr.returncode == whole.returncode
    assert (without_stdout.stdout, without_stdout.stderr.count("\n")) == ("", whole.stderr.count("\n"))
    assert (without_stderr.stderr, without_stderr.stdout.count("\n")) == ("", whole.stdout.count("\n"))
