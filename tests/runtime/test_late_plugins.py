"""Plugins that are late, die or break the protocol under the embedded runtime."""

from __future__ import annotations

import os
import signal

import pytest

from adapter.runtime import Flavour

from .fixtures import CREATE, START, WILLING, Plugins, dropped, gone

STUCK = """
def answer(plugin, request):
    return None if request.method == "StartContainer" else b""
raw.run(answer)
"""


def test_a_late_plugin_is_dropped_and_killed_and_the_event_goes_on(
    plugins: Plugins, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugins.write("00-stuck", STUCK)
    plugins.write("01-later", WILLING.format(events=0x7FF))
    runtime = plugins.start()
    late = runtime.plugins[0]
    monkeypatch.setattr(late, "_flavour", Flavour(request_timeout=0.05))
    outcome = runtime.event("StartContainer", START)
    assert outcome.error == ""
    assert [(answer.plugin, answer.reply is None) for answer in outcome.answers] == [
        ("00-stuck", True),
        ("01-later", False),
    ]
    assert outcome.answers[0].error == "plugin 00-stuck failed to handle StartContainer request: no answer in 0.05 s"
    assert dropped(runtime) == [late]
    assert gone(late)
    assert [answer.plugin for answer in runtime.event("StartContainer", START).answers] == ["01-later"]


DIES = """
def answer(plugin, request):
    if request.method == "StartContainer":
        os._exit(7)
    return b""
raw.run(answer)
"""


def test_a_plugin_that_dies_in_an_event_is_dropped_at_once(plugins: Plugins) -> None:
    plugins.write("00-dies", DIES)
    plugins.write("01-later", WILLING.format(events=0))
    runtime = plugins.start(Flavour(request_timeout=3600))
    outcome = runtime.event("StartContainer", START)
    assert outcome.error == ""
    assert "connection closed by the plugin" in outcome.answers[0].error
    (dead,) = dropped(runtime)
    assert dead.process is not None
    assert dead.process.exit_status == 7
    assert [answer.plugin for answer in runtime.event("StartContainer", START).answers] == ["01-later"]


def test_a_plugin_that_died_between_events_fails_none_of_them(plugins: Plugins) -> None:
    runtime, plugin = plugins.launch("00-dies", DIES)
    assert plugin.process is not None
    os.kill(plugin.process.pid, signal.SIGTERM)
    os.waitid(os.P_PID, plugin.process.pid, os.WEXITED | os.WNOWAIT)
    outcome = runtime.event("StartContainer", START)
    assert (outcome.answers, outcome.error) == ([], "")
    assert dropped(runtime) == [plugin]


def test_a_plugin_that_breaks_the_protocol_is_dropped(plugins: Plugins) -> None:
    source = """
    def answer(plugin, request):
        if request.method == "StartContainer":
            plugin.send(b"\\0\\0\\0\\1\\xff\\xff\\xff\\xff")
        return b""
    raw.run(answer)
    """
    runtime, plugin = plugins.launch("00-p", source)
    assert "a frame of 4294967295 bytes" in runtime.event("StartContainer", START).answers[0].error
    assert gone(plugin)


@pytest.mark.parametrize("method", ["StartContainer", "CreateContainer"])
def test_an_undecodable_answer_fails_its_event_and_the_plugin_stays(plugins: Plugins, method: str) -> None:
    source = """
    raw.run(lambda plugin, request: b"" if request.method in ("Configure", "Synchronize") else b"\\xff")
    """
    runtime, plugin = plugins.launch("00-p", source)
    outcome = runtime.event(method, START if method == "StartContainer" else CREATE)
    assert f"undecodable {method}Response" in outcome.error
    assert runtime.plugins == [plugin]
