"""Our plugin under the runtime side that containerd and CRI-O have, in its versions."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nri.proto import ttrpc_pb2
from tests.rig.brief import few
from tests.rig.processes import children_of
from tests.rig.waiting import LIMIT, limit
from v010_adapter.events.work import MAX_ERROR

from ..rig.processes import ended
from ..rig.waiting import running
from .build import VERSIONS
from .harness import COMMAND, CONTAINER, LIFE, NAME, PATIENT, POD, Chain, GoRuntime, Host, golden, launched, play
from .test_oracle import in_a_life

MIB = 1 << 20
KNOWN_TO_ALL = (1 << 11) - 1  # RunPodSandbox to RemoveContainer; an older runtime refuses a plugin for any other bit
LEGACY_BITS = 1 << 0 | 1 << 1 | 1 << 5 | 1 << 9
NEW, NEWER = ("v0.12.0", "v0.12.5"), ("v0.12.5",)
"""The versions that have calls for each event; those that keep a late plugin, and take updates at any time."""
ASKING = "  plugins: {asking: {events: [StartContainer]}}\n"
SIZES = (4086, 4087, 8182, 100_000)  # around Go's 4096-byte reads, with and without the header of 10


def test_an_external_adapter_serves_a_pods_life(chain: Chain, tmp_path: Path, version: str) -> None:
    config = tmp_path / "adapter.yaml"
    config.write_text(f"{chain.settings}state: {{directory: {tmp_path}/state}}\n")
    with GoRuntime(tmp_path, version) as runtime:
        runtime.open(**PATIENT)
        assert runtime.play("start").error == ""
        arguments = ["-idx", "00", "-name", "v010-adapter", "-socket", runtime.socket, "-config", config]
        with running([str(COMMAND), *map(str, arguments)]) as adapter:
            assert runtime.play("wait", plugin=NAME).error == ""
            plays_a_life(runtime, chain)
            adapter.terminate()
            assert adapter.wait(LIMIT) == 0


WITHOUT_NAME = b'{"plugin":"","version":"","error":"","metadata":null}'  # as a plugin of another project answers


def plays_a_life(runtime: GoRuntime, chain: Chain) -> None:
    """A pod's life runs every plugin once per create and delete, with the requests of the original client."""
    chain.add("first", conf={"text": "<&>"}).add("second", conf='{"logFile": "/log"}')
    chain.add("third", f"echo '{WITHOUT_NAME.decode()}'").add("fourth")
    for recorded in LIFE:
        play(runtime, recorded)
    outcomes = in_a_life(chain.conf, {"third": WITHOUT_NAME})
    for n, name in enumerate(("first", "second", "third", "fourth")):
        assert chain.requests(name) == [outcome.requests[n] for outcome in outcomes]


def test_a_launched_adapter_serves_a_pods_life_in_both_generations_of_events(host: Host, version: str) -> None:
    plays_a_life(host.runtime, host.chain)
    methods = [call.method for call in host.runtime.play("calls").calls]
    assert ("StateChange" in methods, "StartContainer" in methods) == (version not in NEW, version in NEW)
    (plugin,) = host.runtime.play("plugins").plugins
    assert (plugin.events & ~KNOWN_TO_ALL, plugin.events & LEGACY_BITS) == (0, LEGACY_BITS)


@pytest.mark.parametrize("mib", few([3.9, 9], 1))
def test_a_synchronize_of_any_size_is_taken(chain: Chain, tmp_path: Path, version: str, mib: float) -> None:
    chain.add("plugin")
    state = {"make_pods": 100, "make_containers": 2000, "bytes": int(mib * MIB)}
    with launched(chain, tmp_path, version, state=state) as runtime:
        parts = [call for call in runtime.play("calls").calls if call.method == "Synchronize"]
        if mib < 4:
            assert [3.8 * MIB < part.bytes < 4 * MIB for part in parts] == [True]
        else:
            assert parts[0].error  # the runtime's own client finds it too large
            assert len([part for part in parts if not part.error]) >= 3
        play(runtime, LIFE[0])
    assert len(chain.requests("plugin")) == 1


def test_messages_and_answers_of_all_lengths_around_a_frames_border_arrive_whole(host: Host, tmp_path: Path) -> None:
    host.chain.add("plugin")
    for size in SIZES:
        # The host reckons with a timeout of a second; PATIENT's takes a byte more.
        reply = host.runtime.event("RunPodSandbox", POD, bytes=size - 1)
        assert (size, reply.error, reply.names) == (size, "", [NAME])
        assert host.runtime.play("calls").calls[-1].bytes == size
    for size, request in zip(SIZES, host.chain.requests("plugin"), strict=True):
        padding = json.loads(request)["spec"]["annotations"]["padding"]
        assert (len(padding) > size - 2000, set(padding)) == (True, {"x"})
    host.chain.clear()
    text = tmp_path / "text"
    host.chain.add("plugin", f"""printf '{{"error":"'; cat '{text}'; printf '"}}'""")
    for length in (*map(length_of_error, SIZES[:2]), MAX_ERROR, MAX_ERROR + 1, 900_000):  # a longer one is cut
        text.write_text("x" * length)
        reply = host.runtime.event("StartContainer", POD, CONTAINER)
        said = "x" * min(length, MAX_ERROR) + " …" * (length > MAX_ERROR)
        assert (reply.error, reply.names) == (f"rpc error: code = Unknown desc = plugin: plugin: {said}", [NAME])
    host.chain.clear()
    for event in ("StopContainer", "StopPodSandbox"):  # the next test's life of them is a new one
        assert host.runtime.event(event, POD, CONTAINER).error == ""


def length_of_error(size: int) -> int:
    """How long a plugin's error must be to make the ttRPC response that long."""
    for length in range(size, 0, -1):
        status = ttrpc_pb2.Status(code=2, message="plugin: plugin: " + "x" * length)
        if ttrpc_pb2.Response(status=status).ByteSize() == size:
            return length
    raise ValueError(size)


@pytest.mark.parametrize("fails", few([False, True], 1))
def test_a_silent_plugin_is_kept_if_policies_are_known(chain: Chain, tmp_path: Path, version: str, fails: bool) -> None:
    settings = f"runtime: {{failRequest: {str(fails).lower()}}}\n"
    with launched(chain, tmp_path, version, settings) as runtime:
        (plugin,) = runtime.play("plugins").plugins
        kept = version in NEWER
        assert (plugin.keep_connected, plugin.fail_request) == (kept, kept and fails)
        (guard,) = children_of(plugin.pid)
        with pidfd(plugin.pid) as process, stopped(guard, *children_of(guard)), runtime.impatient(300):
            reply = runtime.event("StartContainer", POD, CONTAINER)
            assert (reply.names, bool(reply.error)) == ([NAME] if kept else [], kept and fails)
            if not kept:
                ended(process)
        if kept:
            play(runtime, LIFE[0])


@contextmanager
def stopped(guard: int, server: int) -> Iterator[None]:
    """Holds a server still, and its guard, which would kill it."""
    for pid in (guard, server):
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in (server, guard):
            os.kill(pid, signal.SIGCONT)


@contextmanager
def pidfd(pid: int) -> Iterator[int]:
    opened = os.pidfd_open(pid)
    try:
        yield opened
    finally:
        os.close(opened)


def test_concurrent_events_and_every_recorded_life_are_served(host: Host) -> None:
    host.chain.add("plugin")
    reply = host.runtime.event("StartContainer", POD, CONTAINER, parallel=8, repeat=10)
    assert (list(reply.errors), reply.names) == ([], [NAME])
    states = [json.loads(request)["state"] for request in host.chain.requests("plugin")]
    assert states.count("create") == 80  # beside deletes that tests before have left
    for recorded in golden():
        play(host.runtime, recorded)
    states = [json.loads(request)["state"] for request in host.chain.requests("plugin")]
    assert states[-28:] == ["create", "create", "delete", "delete"] * 7


# ---- what runtimes make of adjustments and updates


def test_many_concurrent_events_with_updates_deadlock_no_runtime(chain: Chain, tmp_path: Path, version: str) -> None:
    """With NRI up to 0.12.0 twenty concurrent events with unsolicited updates may be enough."""
    wish = {"updates": [{"id": "container0", "resources": {"cpu": {"shares": 512}}}]}
    chain.add("asking")
    (chain.bin / "asking").write_text(f"#!/bin/sed 1d\n{json.dumps(wish)}\n")  # the fastest without a compiler
    with launched(chain, tmp_path, version, ASKING, {"make_pods": 1, "make_containers": 1}) as runtime:
        with limit("the runtime is stuck"):
            reply = runtime.event("StartContainer", POD, CONTAINER, parallel=24, repeat=4)
            stopped = runtime.event("StopContainer", POD, {**CONTAINER, "id": "another"})
        assert (list(reply.errors), reply.names) == ([], [NAME])
        assert bool(runtime.play("updates").updates) is (version in NEWER)
        assert stopped.update or version in NEWER, "an answer carries them, too, while a call waits for its own"


def test_what_a_runtime_is_too_old_for_is_refused_by_name(host: Host, version: str) -> None:
    """It would drop it without a word."""
    host.chain.add("adjusting", """echo '{"spec": {"process": {"args": ["true"]}}}'""")
    reply = host.runtime.event("CreateContainer", POD, CONTAINER)
    if version in NEW:
        assert (reply.error, (reply.adjust or {})["args"][-1]) == ("", "true")
    else:
        assert "process.args: needs NRI 0.10.0, the runtime has 0.8.0: older runtimes drop it" in reply.error


# ---- dropped, a launched adapter is back


@pytest.mark.parametrize("version", few([version for version in reversed(VERSIONS) if version not in NEWER], 1))
def test_an_adapter_that_is_dropped_for_being_late_joins_again(chain: Chain, tmp_path: Path, version: str) -> None:
    socket = tmp_path / "nri.sock"  # for external plugins, too
    with launched(chain, tmp_path, version, f"runtime: {{socket: {socket}}}\n", socket=socket) as runtime:
        (plugin,) = runtime.play("plugins").plugins
        (guard,) = children_of(plugin.pid)
        (server,) = children_of(guard)
        with pidfd(plugin.pid) as process, stopped(guard, server), runtime.impatient(300):
            assert runtime.event("RunPodSandbox", POD).names == []
            ended(process, "the runtime does not kill the process that it launched")
        there = runtime.play("wait", plugin=NAME, **{"not": [plugin.pid]})
        assert (there.error, {one.pid for one in there.plugins} - {plugin.pid}) == ("", {server})
        for recorded in LIFE:
            play(runtime, recorded)
