from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from adapter.errors import MessageTooLarge, RegistrationError
from adapter.nri import Plugin as StubPlugin
from adapter.nri import Stub, api
from adapter.runtime import FLAVOURS, Flavour, Late, Runtime
from adapter.runtime.synchronize import parts

from .fixtures import CREATE, Plugins

SILENT = "sys.stdin.close(); signal.pause()"


def test_a_plugin_that_never_registers_is_killed(plugins: Plugins) -> None:
    runtime = plugins.runtime(Flavour(registration_timeout=0.05))
    with pytest.raises(RegistrationError, match=r"00-silent did not register: no answer in 0\.05 s"):
        runtime.launch(plugins.write("00-silent", SILENT))
    assert runtime.plugins == []
    (plugin,) = runtime.dropped
    assert plugin.process is not None
    assert plugin.process.exit_status == -signal.SIGKILL


def test_a_plugin_that_exits_instead_of_registering_is_not_waited_for(plugins: Plugins) -> None:
    runtime = plugins.runtime(Flavour(registration_timeout=3600))
    with pytest.raises(RegistrationError, match="connection closed by the plugin"):
        runtime.launch(plugins.write("00-exits", "sys.exit(3)"))


def test_a_plugin_that_fails_does_not_keep_the_others_out(plugins: Plugins) -> None:
    plugins.write("00-fails", "sys.exit(3)")
    plugins.write("01-p", "run(Plugin())")
    runtime = plugins.runtime()
    runtime.start()
    assert [plugin.name for plugin in runtime.plugins] == ["01-p"]
    assert [plugin.name for plugin in runtime.dropped] == ["00-fails"]


ASKS = """
raw.run(lambda plugin, request:
    api.ConfigureResponse(events={events}).SerializeToString() if request.method == "Configure" else b"")
"""


@pytest.mark.parametrize(
    ("nri", "events"), [("v0.8.0", 0x7FF), ("v0.9.1-pre", 0x1FFF), ("v0.10.0", 0x3FFF), ("v0.12.5", 0x3FFF)]
)
def test_a_plugin_that_asks_for_an_event_unknown_to_this_nri_is_refused(
    plugins: Plugins, nri: str, events: int
) -> None:
    runtime, plugin = plugins.launch("00-fine", ASKS.format(events=events), Flavour(nri=nri))
    assert plugin.events == events
    with pytest.raises(RegistrationError, match=f"invalid plugin events: {events + 1:#x}"):
        runtime.launch(plugins.write("01-greedy", ASKS.format(events=events * 2 + 1)))
    (refused,) = runtime.dropped
    assert refused.process is not None
    assert refused.process.exit_status == -signal.SIGKILL


def test_a_negative_mask_is_refused(plugins: Plugins) -> None:
    with pytest.raises(RegistrationError, match="invalid plugin events: 0xffffc000"):
        plugins.launch("00-p", ASKS.format(events=-1))


@pytest.mark.parametrize(("nri", "events"), [("v0.8.0", 0x7FF), ("v0.12.3", 0x3FFF)])
def test_a_mask_of_zero_means_every_event(plugins: Plugins, nri: str, events: int) -> None:
    _, plugin = plugins.launch("00-all", ASKS.format(events=0), Flavour(nri=nri))
    assert plugin.events == events


@pytest.mark.parametrize(
    ("nri", "timeouts", "version"),
    [("v0.6.1", (0, 0), ""), ("v0.8.0", (7000, 1500), ""), ("v0.12.0", (7000, 1500), "v0.12.0")],
)
def test_the_runtime_introduces_itself_as_its_nri_does(nri: str, timeouts: tuple[int, int], version: str) -> None:
    flavour = Flavour("cri-o", "1.2.3", nri, registration_timeout=7, request_timeout=1.5)
    request = flavour.introduction("text")
    assert (request.runtime_name, request.runtime_version, request.config) == ("cri-o", "1.2.3", "text")
    assert (request.registration_timeout, request.request_timeout) == timeouts
    assert request.NRI_version == version


def test_flavours_are_known_by_name_and_version() -> None:
    assert FLAVOURS["containerd-2.2.1"].dedicated is False
    assert FLAVOURS["containerd-2.3.4"].dedicated is True
    assert FLAVOURS["cri-o-1.34.0"].valid_events == 0x1FFF


def test_a_flavour_needs_a_version_of_nri() -> None:
    with pytest.raises(ValueError, match="no version of NRI: 'latest'"):
        Flavour(nri="latest")


def test_a_failed_configure_gets_the_plugin_killed(plugins: Plugins) -> None:
    source = """
    class Bad(Plugin):
        def configure(self, request, context):
            raise RuntimeError("no way")
    run(Bad())
    """
    runtime = plugins.runtime()
    with pytest.raises(RegistrationError, match="00-bad failed to configure: no way"):
        runtime.launch(plugins.write("00-bad", source))
    assert runtime.dropped[0].process is not None
    assert runtime.dropped[0].process.exit_status == -signal.SIGKILL


SYNCHRONIZED = """
class Mine(Plugin):
    def synchronize(self, request, context):
        ids = [one.id for one in (*request.pods, *request.containers)]
        return api.SynchronizeResponse(update=[api.ContainerUpdate(container_id=id) for id in ids])
    def start_container(self, request, context): ...
run(Mine())
"""


def test_a_large_state_is_told_in_parts_and_arrives_whole(plugins: Plugins) -> None:
    runtime = plugins.runtime()
    runtime.pods = [api.PodSandbox(id=f"pod{n}", annotations={"x": "x" * 10_000}) for n in range(500)]
    runtime.containers = [api.Container(id=f"ctr{n}", pod_sandbox_id=f"pod{n % 500}") for n in range(700)]
    assert len(parts(runtime.pods, runtime.containers)) > 1
    runtime.launch(plugins.write("00-p", SYNCHRONIZED))
    assert [update.container_id for _, update in runtime.updates] == [
        *(f"pod{n}" for n in range(500)),
        *(f"ctr{n}" for n in range(700)),
    ]


def test_a_plugin_that_does_not_understand_parts_is_closed(plugins: Plugins) -> None:
    runtime = plugins.runtime()
    runtime.pods = [api.PodSandbox(id=f"pod{n}", annotations={"x": "x" * 100_000}) for n in range(50)]
    with pytest.raises(RegistrationError, match="does not handle split sync requests"):
        runtime.launch(plugins.write("00-old", "raw.run(lambda plugin, request: b'')"))
    assert plugins.calls("00-old") == ["Configure", "Synchronize"]


def test_parts_are_as_few_as_needed_and_lose_nothing() -> None:
    pods = [api.PodSandbox(id=str(n)) for n in range(10)]
    containers = [api.Container(id=str(n)) for n in range(3)]
    assert parts(pods, containers) == [api.SynchronizeRequest(pods=pods, containers=containers)]
    split = parts(pods, containers, limit=20)
    assert [part.more for part in split] == [True] * (len(split) - 1) + [False]
    assert max(part.ByteSize() for part in split) <= 20
    assert [pod for part in split for pod in part.pods] == pods
    assert [container for part in split for container in part.containers] == containers


def test_an_object_beyond_the_limit_cannot_be_told(plugins: Plugins) -> None:
    with pytest.raises(MessageTooLarge, match="an object of"):
        parts([api.PodSandbox(id="x" * 30), api.PodSandbox()], [], limit=20)


def external(runtime_socket: Path, register: api.RegisterPluginRequest) -> tuple[socket.socket, Stub]:
    trunk = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    trunk.connect(os.fspath(runtime_socket))
    stub = Stub(StubPlugin(), register.plugin_name, register.plugin_idx, trunk.sendall)
    stub.register()
    return trunk, stub


@pytest.mark.parametrize(
    ("name", "idx", "objection"),
    [("", "00", "invalid plugin name"), ("a/b", "00", "invalid plugin name"), ("p", "0", "invalid plugin index")],
)
def test_an_external_plugin_with_a_bad_name_gets_an_error_and_keeps_its_socket(
    tmp_path: Path, name: str, idx: str, objection: str
) -> None:
    with Runtime(socket_path=tmp_path / "run" / "nri.sock") as runtime:
        request = api.RegisterPluginRequest(plugin_name=name, plugin_idx=idx)
        trunk, stub = external(tmp_path / "run" / "nri.sock", request)
        with pytest.raises(RegistrationError, match=objection):
            runtime.accept(5)
        with trunk:
            with pytest.raises(RegistrationError, match=objection):
                stub.receive_data(trunk.recv(1 << 16))
            trunk.setblocking(False)
            with pytest.raises(BlockingIOError):
                trunk.recv(1)
    assert not (tmp_path / "run" / "nri.sock").exists()


EXTERNAL = """
class Mine(Plugin):
    def create_container(self, request, context): ...
run(Mine(), "outside", "33", sys.argv[1])
"""


def test_an_external_plugin_is_let_in_and_called_in_the_order_of_indices(plugins: Plugins, tmp_path: Path) -> None:
    runtime = Runtime(plugins.path, None, tmp_path / "nri.sock", Flavour())
    plugins.runtimes.append(runtime)
    script = plugins.write("50-inside", EXTERNAL.replace('run(Mine(), "outside", "33", sys.argv[1])', "run(Mine())"))
    runtime.start()
    outside = tmp_path / "outside"
    outside.write_text(script.read_text().replace("run(Mine())", 'run(Mine(), "outside", "33", sys.argv[1])'))
    outside.chmod(0o755)
    pid = os.posix_spawn(outside, [str(outside), str(tmp_path / "nri.sock")], {})
    assert runtime.serve(lambda: len(runtime.plugins) > 1, 30)
    outcome = runtime.event("CreateContainer", CREATE)
    assert [answer.plugin for answer in outcome.answers] == ["33-outside", "50-inside"]
    runtime.stop()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, "the runtime does not kill what it did not launch"


def test_waiting_for_an_external_plugin_ends(tmp_path: Path) -> None:
    with Runtime(socket_path=tmp_path / "nri.sock") as runtime, pytest.raises(Late, match="no plugin connected"):
        runtime.accept(0.01)
