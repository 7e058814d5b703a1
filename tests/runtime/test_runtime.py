"""The embedded runtime: how plugins join, which events they get, and what becomes of their answers."""

from __future__ import annotations

import os
import re
import signal
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from google.protobuf.message import Message

from nri import Plugin as StubPlugin
from nri import Stub, api, events
from nri.errors import RegistrationError
from nri.testing import Flavour, Late, Runtime
from nri.testing.launch import spawn
from nri.wire import Code
from tests.rig.sockets import connect
from v010_adapter.errors import ConfigError

from ..rig import processes
from ..rig.embedded import CONTAINER, CREATE, POD, START, WILLING, Plugins, dropped, gone, patient, serves
from ..rig.waiting import LIMIT

QUIET = "run(Plugin())"

# ---- launched


@pytest.mark.usefixtures("executing")
def test_a_plugin_gets_three_variables_its_socket_the_root_directory_and_nothing_else(plugins: Plugins) -> None:
    left_open = os.dup2(os.open(os.devnull, os.O_RDONLY), 47, inheritable=True)
    try:
        _, plugin = plugins.launch("07-some-name", QUIET)
    finally:
        os.close(left_open)
    assert plugin.process is not None
    proc = Path(f"/proc/{plugin.process.pid}")
    environment = proc.joinpath("environ").read_bytes().split(b"\0")
    assert sorted(environment) == [b"", b"NRI_PLUGIN_IDX=07", b"NRI_PLUGIN_NAME=some-name", b"NRI_PLUGIN_SOCKET=3"]
    links = {fd.name: os.readlink(fd).partition("[")[0] for fd in proc.joinpath("fd").iterdir()}
    assert links == {"0": "/dev/null", "1": "/dev/null", "2": "/dev/null", "3": "socket:"}
    assert proc.joinpath("cwd").readlink() == Path("/")
    assert os.getpgid(plugin.process.pid) == plugin.process.pid, "signals of the runtime's terminal are not for it"
    status = dict(line.split(":\t") for line in proc.joinpath("status").read_text().splitlines())
    assert int(status["SigBlk"], 16) == 0, "the runtime blocks SIGINT at a launch"


def test_configure_carries_the_timeouts_and_the_drop_in_of_the_plugin_if_it_can_be_read(plugins: Plugins) -> None:
    source = "raise NRIError(f'{request.config} {request.registration_timeout} {request.request_timeout}')"
    plugins.write("05-p", f"class Mine(Plugin):\n    def configure(self, request, context): {source}\nrun(Mine())")
    for drop_in, got in (("06-p.conf", ""), ("p.conf", "p.conf"), ("05-p.conf", "05-p.conf")):
        (plugins.config / drop_in).write_text(drop_in)
        with pytest.raises(RegistrationError, match=f"^plugin 05-p failed to configure: {got} 70000 80000$"):
            plugins.start(Flavour(registration_timeout=70, request_timeout=80))
        assert [gone(plugin) for plugin in plugins.runtimes[-1].connected] == [True]
    (plugins.config / "05-p.conf").unlink()
    (plugins.config / "05-p.conf").mkdir()
    with pytest.raises(ConfigError, match=r"05-p\.conf: not a regular file"):
        plugins.start()


def test_stopping_the_runtime_kills_what_it_launched(plugins: Plugins) -> None:
    runtime, plugin = plugins.launch("00-p", f"{QUIET}\nsignal.pause()")
    runtime.stop()
    assert plugin.process is not None
    assert (plugin.process.returncode, plugin.closed) == (-signal.SIGKILL, "the runtime stopped")


# ---- registered


def test_ctrl_c_at_a_launch_leaves_no_unknown_process(plugins: Plugins, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*of: Any) -> Any:
        spawned = spawn(*of)
        signal.raise_signal(signal.SIGINT)
        return spawned

    monkeypatch.setattr("nri.testing.runtime.spawn", interrupted)
    runtime = plugins.runtime()
    with pytest.raises(KeyboardInterrupt):  # conftest.py has set its handler
        runtime.launch(plugins.file(plugins.write("00-p", QUIET)))
    assert len(runtime.connected) == 1


def test_a_plugin_that_does_not_register_is_killed(plugins: Plugins) -> None:
    for does, timeout, error, status in (
        ("sys.stdin.close(); signal.pause()", 0.05, r"no answer in 0\.05 s", -signal.SIGKILL),
        ("sys.exit(3)", 3600, "connection closed by the plugin", 3),
    ):
        runtime = plugins.runtime(Flavour(registration_timeout=timeout))
        with pytest.raises(RegistrationError, match=f"^plugin 00-p failed to register: {error}$"):
            runtime.launch(plugins.file(plugins.write("00-p", does)))
        (plugin,) = dropped(runtime)
        assert plugin.process is not None
        assert (runtime.plugins, plugin.process.returncode) == ([], status)
        assert re.fullmatch(error, plugin.closed.removeprefix("it failed to register: "))


@pytest.mark.parametrize(
    ("nri", "events"), [("v0.8.0", 0x7FF), ("v0.9.1-pre", 0x1FFF), ("v0.10.0", 0x3FFF), ("v0.12.5", 0x3FFF)]
)
def test_a_plugin_that_asks_for_an_unknown_event_is_refused(plugins: Plugins, nri: str, events: int) -> None:
    for asked in (events, 0):  # all of them, either way
        assert plugins.launch("00-fine", WILLING.format(events=asked), patient(nri=nri))[1].events == events
    for asked, unknown in ((events * 2 + 1, f"{events + 1:#x}"), (-1, f"{0xFFFFFFFF - events:#x}")):
        with pytest.raises(RegistrationError, match=f"invalid plugin events: {unknown}$"):
            plugins.launch("01-greedy", WILLING.format(events=asked), patient(nri=nri))
        (refused,) = dropped(plugins.runtimes[-1])
        assert gone(refused)


SYNCHRONIZED = """
class Mine(Plugin):
    def synchronize(self, request, context):
        ids = [one.id for one in (*request.pods, *request.containers)]
        return api.SynchronizeResponse(update=[api.ContainerUpdate(container_id=id) for id in ids])
    def start_container(self, request, context): ...
run(Mine())
"""


def test_the_state_of_the_node_is_sent_and_answered_by_updates_unless_the_wire_cannot_take_it(plugins: Plugins) -> None:
    runtime, file = plugins.runtime(), plugins.file(plugins.write("00-p", SYNCHRONIZED))
    runtime.pods, runtime.containers = [api.PodSandbox(id="p")], [api.Container(id="c")]
    runtime.launch(file)
    assert runtime.updates == [("00-p", [api.ContainerUpdate(container_id=one) for one in "pc"])]
    runtime.pods = [api.PodSandbox(annotations={"x": "x" * (4 << 20)})]
    with pytest.raises(RegistrationError, match=r"00-p failed to synchronize: .*at most 4194304"):
        runtime.launch(file)


# ---- external


@pytest.mark.parametrize(
    ("name", "idx", "objection"),
    [("", "00", "invalid plugin name"), ("a/b", "00", "invalid plugin name"), ("p", "0", "invalid plugin index")],
)
def test_an_external_plugin_with_a_bad_name_gets_an_error(tmp_path: Path, name: str, idx: str, objection: str) -> None:
    with Runtime() as runtime, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trunk:
        with pytest.raises(RegistrationError, match="the runtime does not listen"):
            runtime.accept()
        runtime.listen(tmp_path / "nri.sock")
        with pytest.raises(Late, match="no plugin connected"):
            runtime.accept(0.01)  # nobody comes, however long it waits
        connect(trunk, tmp_path / "nri.sock")
        stub = Stub(StubPlugin(), name, idx, trunk.sendall)
        stub.register()
        with pytest.raises(RegistrationError, match=objection):
            runtime.accept(LIMIT)
        assert runtime.plugins == []
        with pytest.raises(RegistrationError, match=objection):
            stub.receive_data(trunk.recv(1 << 16))
        trunk.setblocking(False)
        with pytest.raises(BlockingIOError):
            trunk.recv(1)
    assert not (tmp_path / "nri.sock").exists()
    with pytest.raises(RegistrationError, match="the runtime does not listen"):
        runtime.accept()


def test_plugins_are_called_in_the_order_of_both_digits_and_then_as_they_came() -> None:
    names = ["12-b", "11-b", "02-b", "12-a", "11-a", "02-a"]
    with Runtime() as runtime:
        joined: list[Any] = [SimpleNamespace(name=name, events=1, closed="") for name in names]
        with patch.object(runtime, "connected", joined):
            assert [one.name for one in runtime.plugins] == ["02-b", "02-a", "11-b", "11-a", "12-b", "12-a"]


DEDICATED, STATE_CHANGE = "v0.12.3", "v0.11.0"
"""Versions of NRI with a call for each event, and with StateChange."""
EVENTS = [call.method for call in events.BY_EVENT.values() if call.method != "ValidateContainerAdjustment"]
OWN_CALL_EVER_SINCE = {"CreateContainer", "UpdateContainer", "StopContainer", "UpdatePodSandbox"}

OLD = """
def answer(plugin, request):
    if request.method == "StateChange":
        change = api.StateChangeEvent.FromString(request.payload)
        with open(sys.argv[0] + ".changes", "a") as changes:
            print(change.event, change.pod.id, change.container.id, file=changes)
    elif request.method not in ("Configure", "Synchronize"):
        raise CallError(12, "never heard of it")
    return b""
raw.run(answer)
"""


def request_of(method: str) -> Message:
    request = events.CALLS[method].request()
    for name, value in (("pod", POD), ("container", CONTAINER)):
        if name in request.DESCRIPTOR.fields_by_name:
            getattr(request, name).CopyFrom(value)
    return request


# ---- who gets which


@pytest.mark.parametrize("nri", [DEDICATED, STATE_CHANGE])
def test_a_plugin_gets_the_events_it_asked_for_in_either_generation(plugins: Plugins, nri: str) -> None:
    asked = ["StartContainer", "StopPodSandbox", "UpdateContainer"]
    runtime, _ = plugins.launch("00-p", WILLING.format(events=events.mask(asked)), patient(nri=nri))
    assert {method for method in EVENTS if runtime.event(method, request_of(method)).answers} == {*asked}
    runtime, plugin = plugins.launch("01-all", WILLING.format(events=events.mask(EVENTS)), patient(nri=nri))
    assert plugin.state_change is (nri == STATE_CHANGE)
    assert not [method for method in EVENTS if runtime.event(method, request_of(method)).error]
    own_calls = {*EVENTS} if nri == DEDICATED else OWN_CALL_EVER_SINCE
    calls = [method if method in own_calls else "StateChange" for method in EVENTS]
    assert plugins.calls("01-all") == ["Configure", "Synchronize", *calls]


def test_a_plugin_that_turns_out_to_be_old_gets_state_changes_from_then_on(plugins: Plugins) -> None:
    runtime, plugin = plugins.launch("00-old", OLD)
    assert runtime.event("CreateContainer", CREATE).error == "never heard of it", "it always was a call of its own"
    assert not plugin.state_change
    for method in ("RunPodSandbox", "StartContainer", "RemoveContainer"):
        assert runtime.event(method, request_of(method)).error == ""
    assert plugin.state_change
    assert plugins.calls("00-old")[3:] == ["RunPodSandbox", "StateChange", "StateChange", "StateChange"]
    assert (plugins.path / "00-old.changes").read_text() == "1 pod \n6 pod ctr\n11 pod ctr\n"


@pytest.mark.parametrize("code", [Code.UNKNOWN, Code.DEADLINE_EXCEEDED])
def test_an_error_ends_any_event_and_is_no_reason_to_drop(plugins: Plugins, code: Code) -> None:
    plugins.write("00-fails", serves(f"raise CallError({code:d}, 'refused')", *EVENTS))
    plugins.write("01-later", WILLING.format(events=0))
    runtime = plugins.start()
    for method in EVENTS:
        outcome = runtime.event(method, request_of(method))
        assert (outcome.error, [answer.plugin for answer in outcome.answers]) == ("refused", ["00-fails"])
    assert [plugin.name for plugin in runtime.plugins] == ["00-fails", "01-later"]


# ---- plugins that are late, die, or break the protocol


@pytest.mark.parametrize(
    ("does", "timeout", "reason"),
    [
        ("return None", 0.05, "no answer in 0.05 s"),  # none comes, however long the runtime waits
        ("os._exit(7)", 60, "connection closed by the plugin"),
        (r'plugin.trunk.send(b"\0\0\0\1\xff\xff\xff\xff")', 60, "a frame of 4294967295 bytes"),
    ],
)
def test_a_plugin_that_is_late_dies_or_breaks_the_protocol_is_dropped_and_the_event_goes_on(
    plugins: Plugins, does: str, timeout: float, reason: str
) -> None:
    plugins.write("00-bad", serves(does))
    plugins.write("01-later", WILLING.format(events=0))
    runtime = plugins.start()
    outcome = runtime.event("StartContainer", START, timeout=timeout)
    assert [answer.plugin for answer in outcome.answers] == ["00-bad", "01-later"]
    assert (outcome.error, outcome.answers[0].reply) == ("", None)
    assert outcome.answers[0].error.startswith("plugin 00-bad failed to handle StartContainer request: ")
    assert reason in outcome.answers[0].error
    (bad,) = dropped(runtime)
    assert gone(bad)
    assert [answer.plugin for answer in runtime.event("StartContainer", START).answers] == ["01-later"]


def test_a_plugin_that_died_between_events_fails_none_of_them_and_holds_nobody_up(plugins: Plugins) -> None:
    runtime, plugin = plugins.launch("00-dies", serves("pass"))
    other = runtime.launch(plugins.file(plugins.write("01-dies", serves("pass"))))
    assert plugin.process
    assert other.process
    os.kill(plugin.process.pid, signal.SIGTERM)
    processes.gone(plugin.process.pid)  # it is not reaped yet
    outcome = runtime.event("StartContainer", START)
    assert ([answer.plugin for answer in outcome.answers], outcome.error) == (["01-dies"], "")
    assert dropped(runtime) == [plugin]
    os.kill(other.process.pid, signal.SIGKILL)
    assert runtime.serve(lambda: bool(other.closed), LIMIT)
    assert not runtime.serve(lambda: False, 0.01)


def test_an_undecodable_answer_fails_its_event_and_the_plugin_stays(plugins: Plugins) -> None:
    methods = ("StartContainer", "CreateContainer")
    runtime, plugin = plugins.launch("00-p", serves(r'return b"\xff"', *methods))
    for method in methods:
        assert f"undecodable {method}Response" in runtime.event(method, request_of(method)).error
    assert runtime.plugins == [plugin]


# ---- what plugins call


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ('*wanted("a", "b")', "^$"),
        ('"Nonsense", b""', "no method .*/Nonsense"),
        (r'"UpdateContainers", b"\xff"', "undecodable UpdateContainers"),
    ],
)
def test_a_plugin_is_served_while_it_handles_an_event(plugins: Plugins, call: str, error: str) -> None:
    runtime, _ = plugins.launch("00-p", serves(f"raise CallError(2, plugin.call({call}).message)"))
    assert re.search(error, runtime.event("StartContainer", START).error)
    if error == "^$":
        assert runtime.updates == [("00-p", [api.ContainerUpdate(container_id=one) for one in "ab"])]


# ---- through the runtime

# Sets an annotation and a variable of a name, says in the annotation which variables it sees, and asks for an update.
ADJUSTS = """
class Mine(Plugin):
    def create_container(self, request, context):
        adjust = api.ContainerAdjustment(annotations={{{key!r}: " ".join(request.container.env)}})
        adjust.env.add(key={key!r}, value={name!r})
        return api.CreateContainerResponse(adjust=adjust, update=[api.ContainerUpdate(container_id={name!r})])
run(Mine())
"""
VALIDATES = """
class Judge(Plugin):
    def configure(self, request, context):
        return api.ConfigureResponse(events=events.mask(["ValidateContainerAdjustment"]))
    def validate_container_adjustment(self, request, context):
        seen = [one.index + one.name for one in request.plugins], dict(request.adjust.annotations), len(request.update)
        owner = request.owners.owners["ctr"].compound[api.Annotations].owners["by"]
        {verdict}
run(Judge())
"""
SEEN = "(['10a', '20judge'], {'by': ''}, 1) 10-a"
RETURNS = 'return api.ValidateContainerAdjustmentResponse(reject={}, reason=f"{{seen}} {{owner}}")'
REJECTED = "validator 20-judge rejected container adjustment, reason: "


VERDICTS = [
    (RETURNS.format(False), ""),
    (RETURNS.format(True), REJECTED + SEEN),
    ("return api.ValidateContainerAdjustmentResponse(reject=True)", f"{REJECTED}unknown rejection reason"),
    ('raise NRIError("confused")', "validator plugin 20-judge failed: confused"),
]


@pytest.mark.parametrize(("verdict", "error"), VERDICTS)
def test_a_validator_judges_what_the_others_want(plugins: Plugins, verdict: str, error: str) -> None:
    plugins.write("10-a", ADJUSTS.format(name="10-a", key="by"))
    plugins.write("20-judge", VALIDATES.format(verdict=verdict))
    assert plugins.start().event("CreateContainer", CREATE).error == error
