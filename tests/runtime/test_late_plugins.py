"""Plugins that are late, die, break the protocol, or call the runtime in events and between them."""

from __future__ import annotations

import os
import re
import signal

import pytest

from adapter.nri import api

from .fixtures import CREATE, START, WILLING, Plugins, dropped, gone, patient

SERVES = """
def answer(plugin, request):
    if request.method == {method!r}:
        {does}
    return b""
raw.run(answer)
"""
WANTED = """
def wanted(*ids):
    update = [api.ContainerUpdate(container_id=id) for id in ids]
    return "UpdateContainers", api.UpdateContainersRequest(update=update).SerializeToString()
"""


def serves(does: str, method: str = "StartContainer") -> str:
    return WANTED + SERVES.format(method=method, does=does)


def test_a_late_plugin_is_dropped_and_killed_and_the_event_goes_on(plugins: Plugins) -> None:
    flavour = patient()
    runtime, late = plugins.launch("00-stuck", serves("return None"), flavour)
    runtime.flavour = patient()
    runtime.launch(plugins.file(plugins.write("01-later", WILLING.format(events=0x7FF))))
    object.__setattr__(flavour, "request_timeout", 0.05)  # it does not answer, however long the runtime waits
    outcome = runtime.event("StartContainer", START)
    assert outcome.error == ""
    answers = [(answer.plugin, answer.reply is None) for answer in outcome.answers]
    assert answers == [("00-stuck", True), ("01-later", False)]
    assert outcome.answers[0].error == "plugin 00-stuck failed to handle StartContainer request: no answer in 0.05 s"
    assert dropped(runtime) == [late]
    assert gone(late)
    assert [answer.plugin for answer in runtime.event("StartContainer", START).answers] == ["01-later"]


def test_a_plugin_that_dies_in_an_event_is_dropped_at_once(plugins: Plugins) -> None:
    plugins.write("00-dies", serves("os._exit(7)"))
    plugins.write("01-later", WILLING.format(events=0))
    runtime = plugins.start()
    outcome = runtime.event("StartContainer", START)
    assert outcome.error == ""
    assert "connection closed by the plugin" in outcome.answers[0].error
    (dead,) = dropped(runtime)
    assert dead.process is not None
    assert dead.process.exit_status == 7
    assert [answer.plugin for answer in runtime.event("StartContainer", START).answers] == ["01-later"]


def test_a_plugin_that_died_between_events_fails_none_of_them_and_holds_nobody_up(plugins: Plugins) -> None:
    runtime, plugin = plugins.launch("00-dies", serves("pass"))
    assert plugin.process is not None
    os.kill(plugin.process.pid, signal.SIGTERM)
    os.waitid(os.P_PID, plugin.process.pid, os.WEXITED | os.WNOWAIT)
    outcome = runtime.event("StartContainer", START)
    assert (outcome.answers, outcome.error) == ([], "")
    assert dropped(runtime) == [plugin]
    other = runtime.launch(plugins.file(plugins.write("01-dies", serves("pass"))))
    assert other.process is not None
    os.kill(other.process.pid, signal.SIGKILL)
    assert runtime.serve(lambda: bool(other.closed), 60)
    assert not runtime.serve(lambda: False, 0.01)


def test_a_plugin_that_breaks_the_protocol_is_dropped(plugins: Plugins) -> None:
    runtime, plugin = plugins.launch("00-p", serves(r'plugin.send(b"\0\0\0\1\xff\xff\xff\xff")'))
    assert "a frame of 4294967295 bytes" in runtime.event("StartContainer", START).answers[0].error
    assert gone(plugin)


@pytest.mark.parametrize("method", ["StartContainer", "CreateContainer"])
def test_an_undecodable_answer_fails_its_event_and_the_plugin_stays(plugins: Plugins, method: str) -> None:
    runtime, plugin = plugins.launch("00-p", serves(r'return b"\xff"', method))
    outcome = runtime.event(method, START if method == "StartContainer" else CREATE)
    assert f"undecodable {method}Response" in outcome.error
    assert runtime.plugins == [plugin]


# ---- what plugins call


def test_a_plugin_is_served_while_it_handles_an_event(plugins: Plugins) -> None:
    source = serves('assert plugin.call(*wanted("a", "b")).payload == b""', "CreateContainer")
    runtime, _ = plugins.launch("00-p", source)
    assert runtime.event("CreateContainer", CREATE).error == ""
    ((plugin, updates),) = runtime.updates
    assert (plugin, [update.container_id for update in updates]) == ("00-p", ["a", "b"])


@pytest.mark.parametrize(
    ("call", "error"),
    [('"Nonsense", b""', "no method .*/Nonsense"), (r'"UpdateContainers", b"\xff"', "undecodable UpdateContainers")],
)
def test_what_a_plugin_may_not_call_is_an_error_to_it(plugins: Plugins, call: str, error: str) -> None:
    runtime, _ = plugins.launch("00-p", serves(f"raise CallError(2, plugin.call({call}).message)"))
    assert re.search(error, runtime.event("StartContainer", START).error)


def test_a_plugin_is_served_between_events_and_while_nothing_happens(plugins: Plugins) -> None:
    """It asks at Synchronize, and once the test says so: the runtime has nothing else to do then."""
    gate = plugins.path.parent / "gate"
    os.mkfifo(gate)
    later = f"""
        plugin.respond(request.stream_id, b"")
        plugin.flush()
        open({str(gate)!r}).read()
        plugin.ask(*wanted("later"))
        return None
    if request.method == "Synchronize":
        plugin.ask(*wanted("early"))"""
    runtime, _ = plugins.launch("00-p", serves(later.lstrip()))
    assert runtime.serve(lambda: bool(runtime.updates), 60)
    assert runtime.event("StartContainer", START).error == ""
    gate.write_text("go")
    assert runtime.serve(lambda: len(runtime.updates) == 2, 60)
    assert runtime.updates == [("00-p", [api.ContainerUpdate(container_id=one)]) for one in ("early", "later")]
    assert not runtime.serve(lambda: False, 0.01)
