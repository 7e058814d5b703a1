"""Our plugin under the runtime side that containerd and CRI-O have: launched and external, on three versions of NRI."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from adapter.proto import ttrpc_pb2
from tests.daemon.process import children_of

from .build import NEWEST
from .harness import COMMAND, LEGACY_EVENTS, PATIENT, Call, Case, Chain, GoRuntime, Host, Oracle, Recorded, golden
from .test_oracle import expected

NAME = "00-v010-adapter"
MIB = 1 << 20
KNOWN_TO_ALL = (1 << 11) - 1  # RunPodSandbox to RemoveContainer; an older runtime refuses a plugin for any other bit
LEGACY_BITS = 1 << 0 | 1 << 1 | 1 << 5 | 1 << 9
HAS_CALLS = {"v0.8.0": False, "v0.10.0": False, "v0.12.0": True, "v0.12.5": True}
HAS_POLICIES = {"v0.8.0": False, "v0.10.0": False, "v0.12.0": False, "v0.12.5": True}
SIZES = (4086, 4087, 8182, 100_000)  # around Go's 4096-byte reads, with and without the header of 10

LIFE = golden("containerd-2.4.2")
POD = LIFE[0].pod
CONTAINER = next(recorded.container for recorded in LIFE if recorded.container)


@contextmanager
def launched(
    chain: Chain,
    directory: Path,
    version: str = NEWEST,
    settings: str = "",
    state: Mapping[str, int] | None = None,
    **fields: Any,
) -> Iterator[GoRuntime]:
    """A host that has launched the adapter from its plugin directory."""
    with GoRuntime(directory, version) as runtime:
        runtime.open(COMMAND, chain.settings + settings, **PATIENT, **fields)
        runtime.play("state", **(state or {}))
        started = runtime.play("start")
        assert (started.error, started.names) == ("", [NAME])
        yield runtime


@pytest.fixture(scope="module")
def shared(version: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    directory = tmp_path_factory.mktemp("host")
    chain = Chain(directory)
    settings = "  plugins: {lenient: {onFailure: ignore}}\nruntime: {reserve: 1}\n"
    with launched(chain, directory, version, settings) as runtime:
        yield Host(runtime, chain)


def test_an_external_adapter_serves_a_pods_life(chain: Chain, tmp_path: Path, version: str) -> None:
    config = tmp_path / "adapter.yaml"
    config.write_text(f"{chain.settings}state: {{directory: {tmp_path}/state}}\n")
    with GoRuntime(tmp_path, version) as runtime:
        runtime.open(**PATIENT)
        assert runtime.play("start").error == ""
        arguments = ["-idx", "00", "-name", "v010-adapter", "-socket", runtime.socket, "-config", config]
        with subprocess.Popen([str(COMMAND), *map(str, arguments)]) as adapter:
            try:
                assert runtime.play("wait", plugin=NAME).error == ""
                plays_a_life(runtime, chain)
            finally:
                adapter.terminate()
        assert adapter.returncode == 0


def play(runtime: GoRuntime, recorded: Recorded) -> None:
    resources = (recorded.extra or {}).get("linux_resources")
    reply = runtime.event(recorded.event, recorded.pod, recorded.container, resources=resources)
    assert (recorded.event, reply.error, reply.names) == (recorded.event, "", [NAME])


def calls(runtime: GoRuntime) -> list[Call]:
    return list(runtime.play("calls").calls)


def plays_a_life(runtime: GoRuntime, chain: Chain) -> None:
    """A pod's life runs every plugin once per create and delete."""
    chain.add("first", text="<&>").add("second")
    for recorded in LIFE:
        play(runtime, recorded)
    events = [recorded for recorded in LIFE if recorded.event in LEGACY_EVENTS]
    # The runtime leaves the pid out of StopPodSandbox: it is what it was at the create.
    cases = [Case(LEGACY_EVENTS[e.event], {**e.pod, "pid": POD["pid"]}, e.container) for e in events]
    with Oracle(chain.conf) as oracle:
        outcomes = [expected(case, outcome) for case, outcome in zip(cases, oracle.outcomes(cases), strict=True)]
    assert len(outcomes) == 4
    for n, name in enumerate(("first", "second")):
        assert chain.requests(name) == [outcome.requests[n] for outcome in outcomes]


def test_a_launched_adapter_serves_a_pods_life_in_both_generations_of_events(host: Host, version: str) -> None:
    plays_a_life(host.runtime, host.chain)
    methods = [call.method for call in calls(host.runtime)]
    assert ("StateChange" in methods) == (not HAS_CALLS[version])
    assert ("StartContainer" in methods) == HAS_CALLS[version]


def test_no_bit_is_asked_for_that_a_runtime_may_not_know(host: Host) -> None:
    (plugin,) = host.runtime.play("plugins").plugins
    assert plugin.events & ~KNOWN_TO_ALL == 0
    assert plugin.events & LEGACY_BITS == LEGACY_BITS


@pytest.mark.parametrize("mib", [3.9, 9])
def test_a_synchronize_of_any_size_is_taken(chain: Chain, tmp_path: Path, version: str, mib: float) -> None:
    chain.add("plugin")
    state = {"make_pods": 100, "make_containers": 2000, "bytes": int(mib * MIB)}
    with launched(chain, tmp_path, version, state=state) as runtime:
        parts = [call for call in calls(runtime) if call.method == "Synchronize"]
        if mib < 4:
            assert [3.8 * MIB < part.bytes < 4 * MIB for part in parts] == [True]
        else:
            assert parts[0].error  # the runtime's own client finds it too large
            assert len([part for part in parts if not part.error]) >= 3
        play(runtime, LIFE[0])
    assert len(chain.requests("plugin")) == 1


def test_messages_of_all_lengths_around_a_frames_border_arrive_whole(host: Host) -> None:
    host.chain.add("plugin")
    for size in SIZES:
        # The host reckons with a timeout of a second; PATIENT's takes a byte more.
        reply = host.runtime.event("RunPodSandbox", POD, bytes=size - 1)
        assert (size, reply.error, reply.names) == (size, "", [NAME])
        assert calls(host.runtime)[-1].bytes == size
    for size, request in zip(SIZES, host.chain.requests("plugin"), strict=True):
        padding = json.loads(request)["spec"]["annotations"]["padding"]
        assert len(padding) > size - 2000
        assert set(padding) == {"x"}


def test_answers_of_all_lengths_around_a_frames_border_arrive_whole(host: Host, tmp_path: Path) -> None:
    text = tmp_path / "text"
    host.chain.add("plugin", f"""printf '{{"error":"'; cat '{text}'; printf '"}}'""")
    for size in (*SIZES[:3], 60_000):
        text.write_text("x" * length_of_error(size))
        reply = host.runtime.event("StartContainer", POD, CONTAINER)
        assert reply.error == f"rpc error: code = Unknown desc = plugin: plugin: {text.read_text()}"
        assert reply.names == [NAME]


def length_of_error(size: int) -> int:
    """How long a plugin's error must be to make the ttRPC response that long."""
    for length in range(size, 0, -1):
        status = ttrpc_pb2.Status(code=2, message="plugin: plugin: " + "x" * length)
        if ttrpc_pb2.Response(status=status).ByteSize() == size:
            return length
    raise ValueError(size)


def test_an_endless_error_is_cut_and_costs_no_connection(host: Host) -> None:
    host.chain.add("verbose", """printf '{"error":"no'; head -c 900000 /dev/zero | tr '\\0' x; printf '"}'""")
    reply = host.runtime.event("StartContainer", POD, CONTAINER)
    assert reply.error.startswith("rpc error: code = Unknown desc = plugin: verbose: noxxx")
    assert len(reply.error) < 900_000
    assert reply.names == [NAME]


@pytest.mark.deadline
def test_a_late_plugin_costs_its_own_event_and_nothing_else(host: Host, tmp_path: Path) -> None:
    """The answer has left a second, half of the time that this runtime waits; the plugins are left to finish."""
    for name, fails in (("late", True), ("lenient", False)):
        host.chain.clear()
        gate = tmp_path / name
        os.mkfifo(gate)
        host.chain.add(name, f"""read _ < '{gate}'; printf '%s' '{{}}'""")
        with host.runtime.impatient(2_000):
            reply = host.runtime.event("StartContainer", POD, {**CONTAINER, "id": name})
        assert (name in reply.error, bool(reply.error), reply.names) == (fails, fails, [NAME])
        assert "code = Unknown" in reply.error or not fails  # our answer, not the runtime's verdict
        release(gate)


def release(gate: Path) -> None:
    """Let the plugin go on that reads from the gate; without one, which was not left to finish, this fails."""
    opened = os.open(gate, os.O_WRONLY | os.O_NONBLOCK)
    os.write(opened, b"go\n")
    os.close(opened)


@pytest.mark.parametrize("fails", [False, True])
def test_who_does_not_answer_at_all_is_kept_where_policies_are_known_and_dropped_elsewhere(
    chain: Chain, tmp_path: Path, version: str, fails: bool
) -> None:
    settings = f"runtime: {{failRequest: {str(fails).lower()}}}\n"
    with launched(chain, tmp_path, version, settings) as runtime:
        (plugin,) = runtime.play("plugins").plugins
        assert (plugin.keep_connected, plugin.fail_request) == (HAS_POLICIES[version], HAS_POLICIES[version] and fails)
        (guard,) = children_of(plugin.pid)
        process = os.pidfd_open(plugin.pid)
        with stopped(guard, *children_of(guard)), runtime.impatient(300):
            reply = runtime.event("StartContainer", POD, CONTAINER)
            if HAS_POLICIES[version]:
                assert reply.names == [NAME]
                assert bool(reply.error) == fails
            else:
                assert (reply.error, reply.names) == ("", [])
                assert ended(process)
        os.close(process)
        if HAS_POLICIES[version]:
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


def ended(process: int) -> bool:
    return bool(select.select([process], [], [], 60)[0])


def test_concurrent_events_are_all_served(host: Host) -> None:
    host.chain.add("plugin")
    reply = host.runtime.event("StartContainer", POD, CONTAINER, parallel=8, repeat=10)
    assert (list(reply.errors), reply.names) == ([], [NAME])
    states = [json.loads(request)["state"] for request in host.chain.requests("plugin")]
    assert states.count("create") == 80  # beside deletes that tests before have left


def test_every_recorded_life_can_be_played(tmp_path: Path, chain: Chain) -> None:
    chain.add("plugin")
    with launched(chain, tmp_path) as runtime:
        for recorded in golden():
            play(runtime, recorded)
    states = [json.loads(request)["state"] for request in chain.requests("plugin")]
    assert states == ["create", "create", "delete", "delete"] * 7
