"""`check -probe NAME`: whether a legacy plugin may stand by. Nothing is run that was not confirmed."""

from __future__ import annotations

import io
import os
from contextlib import closing
from unittest.mock import Mock

import pytest

from tests.rig.command import Terminal
from tests.rig.programs import Fifo
from tests.rig.waiting import LIMIT, limit
from v010_adapter.cli.check import probe

from .conftest import Checked

RUNS = "it runs plugin twice, without a request"
WAITS = 'read -r line; [ "$line" ] || exit 1; echo "{}"'


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "become_daemon", lambda: None)  # it would change this process
    monkeypatch.setattr(probe, "WAIT", LIMIT)
    monkeypatch.setattr(probe, "END", LIMIT)


def verdict(node: Checked, script: str, *words: str) -> list[str]:
    node.program("plugin", f"#!/bin/sh\necho run >> {node.folder}/runs\n{script}\n")
    node.write("own.yaml", node.settings)
    lines = node("-config", str(node.folder / "own.yaml"), "-probe", "plugin", *(words or ("-yes",)))
    return lines[lines.index("stand-by") + 1 : -1] if "stand-by" in lines else []


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """For plugins that wait anyway."""
    monkeypatch.setattr(probe, "WAIT", 0.01)


@pytest.mark.usefixtures("brief")
def test_a_plugin_that_waits_and_fails_without_a_request_may_stand_by(node: Checked) -> None:
    """So may one whose result is an error, and one that ends by a signal."""
    for script in (WAITS, 'read -r line; echo \'{"error": "no request"}\'', "read -r line; kill -9 $$"):
        said = "ok plugin: may stand by: it waits for its request, and fails without one"
        assert verdict(node, script) == [said]
    # With an open stdin, a program may be killed before its first line.
    assert (node.folder / "runs").read_text().count("run") in range(3, 7)


EMPTY = "it takes an empty stdin for a request: exit code 0, no error in its result"
EARLY = "it writes before its request"
AGAINST = {
    "exec cat >&2": [EMPTY],
    "read -r line; echo '{}'": [EMPTY],
    "read -r line; exit 0": [EMPTY],
    "read -r line; echo '{}'; exit 1": [EMPTY.replace("code 0", "code 1")],
    f"echo hello; {WAITS}": [EARLY],
    f"echo hello >&2; {WAITS}": [EARLY],
    "exit 3": ["it ends before its request (exit code 3)"],
    "echo '{}'": [EARLY, EMPTY],
}


def test_each_reason_against_it_is_a_problem(node: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    for script, faults in AGAINST.items():
        monkeypatch.setattr(probe, "WAIT", 0.01 if "before" not in faults[0] else LIMIT)
        assert verdict(node, script) == [f"PROBLEM plugin: {fault}: it must not stand by" for fault in faults]
        assert node.code == 1
    bad = node.program("bad", "#!/nowhere\n")
    for name, reason in (("absent", "not found in"), ("bad", f"{bad}: its interpreter '/nowhere': No such file")):
        node("-config", str(node.folder / "own.yaml"), "-probe", name, "-yes", "-o", "json")
        [of_probe] = [check for check in node.told()["checks"] if check["part"] == "stand-by"]
        assert (of_probe["status"], of_probe["message"].startswith(f"{name}: {reason}")) == ("problem", True), of_probe


@pytest.mark.usefixtures("brief")
def test_a_plugin_that_does_not_end_is_killed_with_its_children(node: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "END", 0.1)
    held, last = node.folder / "held", Fifo(node.folder / "last")
    os.mkfifo(held)
    with closing(last), open(os.open(held, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        [line] = verdict(node, f"read -r line; exec 3>{held}; cat {last} & exec sleep 1000")
        assert line == "PROBLEM plugin: it does not end when its stdin is empty, within 0.1 s: it must not stand by"
        os.set_blocking(reader.fileno(), True)
        with limit("a child of the plugin still has its pipe"):
            assert reader.read() == b""


@pytest.mark.usefixtures("brief")
def test_it_must_be_confirmed_at_a_terminal_or_by_a_flag(node: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    question = "This runs plugin twice, without a request. Continue? [y/N] "
    stdins = [*((Terminal(answer), question) for answer in ("\n", "n\n", "")), (io.StringIO("y\n"), ""), (None, "")]
    for stdin, asked in stdins:
        monkeypatch.setattr("sys.stdin", stdin)
        assert verdict(node, WAITS, "-o", "text") == []
        assert node.code == 2
        reason = "not confirmed; nothing was run" if asked else f"{RUNS}: confirm that with -yes"
        assert node.err == f"{asked}v010-adapter: -probe: {reason}\n"
        assert not (node.folder / "runs").exists()
    for answer in ("y\n", "Yes\n"):
        monkeypatch.setattr("sys.stdin", Terminal(answer))
        assert verdict(node, WAITS, "-o", "text")
        assert (node.code, node.err) == (0, question)
    with io.TextIOWrapper(seen := io.BytesIO()) as stderr:
        answers = Mock(isatty=lambda: True, readline=lambda: "y\n" if question.encode() in seen.getvalue() else "n\n")
        monkeypatch.setattr("sys.stdin", answers)
        monkeypatch.setattr("sys.stderr", stderr)
        assert verdict(node, WAITS, "-o", "text"), "who answers sees the question"
