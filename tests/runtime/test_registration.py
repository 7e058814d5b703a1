from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from adapter.errors import RegistrationError
from adapter.nri import Plugin as StubPlugin
from adapter.nri import Stub, api
from adapter.runtime import Flavour, Late, Runtime

from .fixtures import CREATE, WILLING, Plugins, dropped, gone, patient

SILENT = "sys.stdin.close(); signal.pause()"


def test_a_plugin_that_never_registers_is_killed(plugins: Plugins) -> None:
    runtime = plugins.runtime(Flavour(registration_timeout=0.05))
    with pytest.raises(RegistrationError, match=r"00-silent failed to register: no answer in 0\.05 s"):
        runtime.launch(plugins.file(plugins.write("00-silent", SILENT)))
    assert runtime.plugins == []
    (plugin,) = dropped(runtime)
    assert plugin.process is not None
    assert plugin.process.exit_status == -signal.SIGKILL


def test_a_plugin_that_exits_instead_of_registering_is_not_waited_for(plugins: Plugins) -> None:
    runtime = plugins.runtime(Flavour(registration_timeout=3600))
    with pytest.raises(RegistrationError, match="connection closed by the plugin"):
        runtime.launch(plugins.file(plugins.write("00-exits", "sys.exit(3)")))


@pytest.mark.parametrize(
    ("nri", "events"), [("v0.8.0", 0x7FF), ("v0.9.1-pre", 0x1FFF), ("v0.10.0", 0x3FFF), ("v0.12.5", 0x3FFF)]
)
def test_a_plugin_that_asks_for_an_event_unknown_to_this_nri_is_refused(
    plugins: Plugins, nri: str, events: int
) -> None:
    runtime, plugin = plugins.launch("00-fine", WILLING.format(events=events), patient(nri=nri))
    assert plugin.events == events
    assert plugins.launch("02-all", WILLING.format(events=0), patient(nri=nri))[1].events == events, "all of them"
    with pytest.raises(RegistrationError, match=f"invalid plugin events: {events + 1:#x}"):
        runtime.launch(plugins.file(plugins.write("01-greedy", WILLING.format(events=events * 2 + 1))))
    with pytest.raises(RegistrationError, match="invalid plugin events: 0xffffc000"):
        plugins.launch("00-p", WILLING.format(events=-1))
    (refused,) = dropped(runtime)
    assert gone(refused)


@pytest.mark.parametrize(
    ("nri", "timeouts", "version"),
    [("v0.6.1", (0, 0), ""), ("v0.8.0", (7000, 1500), ""), ("v0.12.0", (7000, 1500), "v0.12.0")],
)
def test_the_runtime_introduces_itself_as_its_nri_does(nri: str, timeouts: tuple[int, int], version: str) -> None:
    flavour = Flavour("cri-o", "1.2.3", nri, registration_timeout=7, request_timeout=1.5)
    request = flavour.configure_request("text")
    assert (request.runtime_name, request.runtime_version, request.config) == ("cri-o", "1.2.3", "text")
    assert (request.registration_timeout, request.request_timeout) == timeouts
    assert request.NRI_version == version


def test_a_failed_configure_gets_the_plugin_killed(plugins: Plugins) -> None:
    source = """
    class Bad(Plugin):
        def configure(self, request, context):
            raise RuntimeError("no way")
    run(Bad())
    """
    runtime = plugins.runtime()
    with pytest.raises(RegistrationError, match="00-bad failed to configure: no way"):
        runtime.launch(plugins.file(plugins.write("00-bad", source)))
    (plugin,) = dropped(runtime)
    assert gone(plugin)


SYNCHRONIZED = """
class Mine(Plugin):
    def synchronize(self, request, context):
        ids = [one.id for one in (*request.pods, *request.containers)]
        return api.SynchronizeResponse(update=[api.ContainerUpdate(container_id=id) for id in ids])
    def start_container(self, request, context): ...
run(Mine())
"""


def test_the_state_of_the_node_is_sent_and_answered_by_updates(plugins: Plugins) -> None:
    runtime = plugins.runtime()
    runtime.pods, runtime.containers = [api.PodSandbox(id="p")], [api.Container(id="c")]
    runtime.launch(plugins.file(plugins.write("00-p", SYNCHRONIZED)))
    ((plugin, updates),) = runtime.updates
    assert (plugin, [update.container_id for update in updates]) == ("00-p", ["p", "c"])


def test_a_state_beyond_the_wires_limit_fails_the_registration(plugins: Plugins) -> None:
    runtime = plugins.runtime()
    runtime.pods = [api.PodSandbox(annotations={"x": "x" * (4 << 20)})]
    with pytest.raises(RegistrationError, match=r"00-p failed to synchronize: .*at most 4194304"):
        runtime.launch(plugins.file(plugins.write("00-p", SYNCHRONIZED)))


@pytest.mark.parametrize(
    ("name", "idx", "objection"),
    [("", "00", "invalid plugin name"), ("a/b", "00", "invalid plugin name"), ("p", "0", "invalid plugin index")],
)
def test_an_external_plugin_with_a_bad_name_gets_an_error_and_keeps_its_socket(
    tmp_path: Path, name: str, idx: str, objection: str
) -> None:
    with Runtime() as runtime, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trunk:
        runtime.listen(tmp_path / "nri.sock")
        trunk.connect(os.fspath(tmp_path / "nri.sock"))
        stub = Stub(StubPlugin(), name, idx, trunk.sendall)
        stub.register()
        with pytest.raises(RegistrationError, match=objection):
            runtime.accept(60)
        with pytest.raises(RegistrationError, match=objection):
            stub.receive_data(trunk.recv(1 << 16))
        trunk.setblocking(False)
        with pytest.raises(BlockingIOError):
            trunk.recv(1)
    assert not (tmp_path / "nri.sock").exists()
    with Runtime() as runtime:
        runtime.listen(tmp_path / "nri.sock")
        with pytest.raises(Late, match="no plugin connected"):
            runtime.accept(0.01)  # nobody comes, however long it waits


EXTERNAL = """
class Mine(Plugin):
    def create_container(self, request, context): ...
run(Mine(), "outside", "33")
"""


def test_an_external_plugin_is_let_in_and_called_in_the_order_of_indices(plugins: Plugins, tmp_path: Path) -> None:
    runtime = plugins.runtime()
    runtime.listen(tmp_path / "nri.sock")
    script = plugins.write("50-inside", EXTERNAL.replace('run(Mine(), "outside", "33")', "run(Mine())"))
    runtime.launch(plugins.file(script))
    outside = tmp_path / "outside"
    outside.write_text(script.read_text().replace("run(Mine())", 'run(Mine(), "outside", "33")'))
    outside.chmod(0o755)
    pid = os.posix_spawn(outside, [str(outside), "-socket", str(tmp_path / "nri.sock")], {})
    runtime.accept(60)
    outcome = runtime.event("CreateContainer", CREATE)
    assert [answer.plugin for answer in outcome.answers] == ["33-outside", "50-inside"]
    runtime.stop()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, "the runtime does not kill what it did not launch"
