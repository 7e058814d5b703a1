"""What plugins may call while the runtime runs: updates, in events and between them."""

from __future__ import annotations

import os
import re
import signal

import pytest

from adapter.nri import api

from .fixtures import CREATE, START, Plugins

UPDATES = """
def answer(plugin, request):
    if request.method == "CreateContainer":
        wanted = api.UpdateContainersRequest(update=[api.ContainerUpdate(container_id=id) for id in ("a", "b")])
        assert plugin.call("UpdateContainers", wanted.SerializeToString()).payload == b""
    return b""
raw.run(answer)
"""


def test_a_plugin_is_served_while_it_handles_an_event(plugins: Plugins) -> None:
    runtime, _ = plugins.launch("00-p", UPDATES)
    assert runtime.event("CreateContainer", CREATE).error == ""
    ((plugin, updates),) = runtime.updates
    assert (plugin, [update.container_id for update in updates]) == ("00-p", ["a", "b"])


@pytest.mark.parametrize(
    ("method", "payload", "error"),
    [("Nonsense", b"", "no method .*/Nonsense"), ("UpdateContainers", b"\xff", "undecodable UpdateContainers")],
)
def test_what_a_plugin_may_not_call_is_an_error_to_it(
    plugins: Plugins, method: str, payload: bytes, error: str
) -> None:
    source = f"""
    def answer(plugin, request):
        if request.method in ("Configure", "Synchronize"):
            return b""
        raise CallError(2, plugin.call({method!r}, {payload!r}).message)
    raw.run(answer)
    """
    runtime, _ = plugins.launch("00-p", source)
    assert re.search(error, runtime.event("StartContainer", START).error)


def test_a_plugin_is_served_between_events(plugins: Plugins) -> None:
    source = """
    def answer(plugin, request):
        if request.method == "Synchronize":
            wanted = api.UpdateContainersRequest(update=[api.ContainerUpdate(container_id="later")])
            plugin._connection.call(events.RUNTIME, "UpdateContainers", wanted.SerializeToString())
        return b""
    raw.run(answer)
    """
    runtime, _ = plugins.launch("00-p", source)
    assert runtime.serve(lambda: bool(runtime.updates), 30)
    assert runtime.updates == [("00-p", [api.ContainerUpdate(container_id="later")])]
    assert not runtime.serve(lambda: False, 0.01)


def test_a_plugin_that_asks_for_something_while_nothing_happens_is_served(plugins: Plugins) -> None:
    """It asks only when the test says so: the runtime has nothing else to do then."""
    gate = plugins.path.parent / "gate"
    os.mkfifo(gate)
    source = f"""
    def answer(plugin, request):
        if request.method == "StartContainer":
            plugin.respond(request.stream_id, b"")
            plugin._flush()
            open({str(gate)!r}).read()
            wanted = api.UpdateContainersRequest(update=[api.ContainerUpdate(container_id="later")])
            plugin.call("UpdateContainers", wanted.SerializeToString())
            return None
        return b""
    raw.run(answer)
    """
    runtime, _ = plugins.launch("00-p", source)
    assert runtime.event("StartContainer", START).error == ""
    assert runtime.updates == []
    gate.write_text("go")
    assert runtime.serve(lambda: bool(runtime.updates), 30)


def test_a_plugin_that_dies_while_nothing_happens_holds_nobody_up(plugins: Plugins) -> None:
    runtime, plugin = plugins.launch("00-p", 'raw.run(lambda plugin, request: b"")')
    assert plugin.process is not None
    os.kill(plugin.process.pid, signal.SIGKILL)
    assert runtime.serve(lambda: bool(plugin.closed), 30)
    assert not runtime.serve(lambda: False, 0.01)
