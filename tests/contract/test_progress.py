"""What is seen of a contract while it is played, and what plugins with a timer are asked."""

from __future__ import annotations

import asyncio
import io
import os
import pty
import sys
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL

import pytest

from nri import Context, Plugin, Update, api
from nri.errors import CallError, NRIError
from nri.testing.contract import RULES, SITUATIONS, Launched, Result, judge
from nri.testing.node import Node
from tests.rig.command import Terminal
from tests.rig.embedded import Plugins, patient
from tests.rig.simulation import Simulate
from tests.rig.waiting import LIMIT, running

from .broken import of, sound


def test_each_situation_is_told_before_it_is_played(plugins: Plugins) -> None:
    told: list[tuple[int, str]] = []

    def judged(source: str) -> None:
        judge(Launched(plugins.file(plugins.write("10-a", source))), patient(), progress=lambda *one: told.append(one))

    judged(sound())
    assert [number for number, _ in told] == [*range(1, SITUATIONS + 1)]
    assert {rule for _, rule in told} <= set(RULES)
    told.clear()
    judged("sys.exit(1)")
    assert told == [(1, "registers")], "the others are not played to a plugin that does not join"


@pytest.mark.ci
def test_a_terminal_sees_how_far_the_command_is_and_that_the_plugin_is_started_for_real(
    plugins: Plugins, simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = plugins.write("10-a", sound())
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", stream)
        simulate.text("-contract", "-plugin", path)
        shown = stream.getvalue()
        is_terminal = stream.isatty()
        assert ("10-a is started about twenty times" in shown) == is_terminal
        for number in (1, SITUATIONS):
            assert (f"\r\033[K10-a under containerd v2.4.2: {number} of {SITUATIONS}: " in shown) == is_terminal


TEST = """
import dataclasses, nri

class Mine(nri.Plugin):
    def create_container(self, request, context):
        return None

def test_mine(nri_runtime):
    nri_runtime.played = dataclasses.replace(nri_runtime.flavour, registration_timeout=60, request_timeout=60)
    nri_runtime.contract(Mine).check()
"""


def pytest_prints(folder: Path, *, on_terminal: bool) -> str:
    """Runs pytest on TEST, and returns what it prints."""
    (folder / "test_mine.py").write_text(TEST)
    words = [sys.executable, "-P", "-m", "pytest", "-p", "pytest_nri", "-p", "no:cacheprovider", str(folder)]
    ours, theirs = pty.openpty() if on_terminal else os.pipe()
    try:
        environment = {**os.environ, "TERM": "xterm"}
        with running(words, stdin=DEVNULL, stdout=theirs, stderr=theirs, cwd=folder, env=environment) as process:
            os.close(theirs)
            printed = b""
            with suppress(OSError):  # how a terminal says that the other end is closed
                while chunk := os.read(ours, 65536):
                    printed += chunk
            assert process.wait(LIMIT) == 0, printed
    finally:
        os.close(ours)
    return printed.decode()


@pytest.mark.ci
def test_pytest_shows_how_far_a_contract_is_on_a_terminal_only(tmp_path: Path) -> None:
    shown = pytest_prints(tmp_path, on_terminal=True)
    assert f"\r\n\rcontract: 1 of {SITUATIONS}: registers" in shown
    assert f"\rcontract: {SITUATIONS} of {SITUATIONS}: " in shown
    assert "1 passed" in shown.rpartition("contract:")[2]
    assert "contract:" not in pytest_prints(tmp_path, on_terminal=False)


class Timed(Plugin):
    """Updates each container some time after its start."""

    answers: list[Exception | None]

    def start_container(self, request: api.StartContainerRequest, context: Context) -> None:
        update = Update(request.container.id)
        update.cpu.shares = 512
        asyncio.get_running_loop().call_later(0.05, self._update, update)

    def _update(self, update: Update) -> None:
        with suppress(NRIError):  # the situation has ended before
            self.update_containers([update.message]).then(lambda _, error: self.answers.append(error))


def test_a_timer_is_waited_for_if_that_is_asked_and_meets_a_refusal_once(nri_runtime: Node) -> None:
    nri_runtime.played = patient()
    Timed.answers = []
    report = nri_runtime.contract(Timed, timer=LIMIT)
    assert report.failures == []
    assert of(report, "updates-do-not-block").result is of(report, "refused-updates").result is Result.HOLDS
    refusals = [error for error in Timed.answers if isinstance(error, CallError)]
    assert [refusal.message for refusal in refusals] == ["NRI update of some containers failed"]


def test_a_rule_about_updates_says_how_a_timer_is_waited_for(nri_runtime: Node) -> None:
    nri_runtime.played = patient()
    for timer, says in ((0.0, "; a timer of it is waited for with -timer"), (0.01, " in 0.01 s")):
        verdict = of(nri_runtime.contract(Plugin, timer=timer), "refused-updates")
        assert verdict.result is Result.DOES_NOT_APPLY
        assert verdict.came.startswith(f"the plugin has not called UpdateContainers{says}")
