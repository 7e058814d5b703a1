"""How a plugin joins the embedded runtime: it is launched or connects, registers, is configured and synchronized."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest
from google.protobuf.json_format import MessageToDict

from adapter.errors import ConfigError, RegistrationError
from adapter.nri import Plugin as StubPlugin
from adapter.nri import Stub, api
from adapter.runtime import Flavour, Late, Runtime
from adapter.runtime.launch import PluginFile, spawn

from .fixtures import WILLING, Plugins, dropped, gone, patient

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


def test_signals_that_python_ignores_are_not_ignored_in_a_plugin(plugins: Plugins) -> None:
    script = plugins.path / "00-shell"
    script.write_text("#!/bin/sh\nread line <&3\n")
    script.chmod(0o755)
    trunk, process = spawn(PluginFile(script, "00", "shell"))
    status = Path(f"/proc/{process.pid}/status").read_text()
    trunk.close()
    process.kill()
    ignored = int(next(line.split()[1] for line in status.splitlines() if line.startswith("SigIgn")), 16)
    assert not ignored & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1)


def test_configure_carries_the_drop_in_of_the_plugin_if_it_can_be_read(plugins: Plugins) -> None:
    source = "raise RuntimeError(request.config)"
    plugins.write("05-p", f"class Mine(Plugin):\n    def configure(self, request, context): {source}\nrun(Mine())")
    for drop_in, got in (("06-p.conf", "RuntimeError"), ("p.conf", "p.conf"), ("05-p.conf", "05-p.conf")):
        (plugins.config / drop_in).write_text(drop_in)
        with pytest.raises(RegistrationError, match=f"^plugin 05-p failed to configure: {got}$"):
            plugins.start()
        assert [gone(plugin) for plugin in plugins.runtimes[-1].connected] == [True]
    (plugins.config / "05-p.conf").unlink()
    (plugins.config / "05-p.conf").mkdir()
    with pytest.raises(ConfigError, match=r"05-p\.conf: cannot be read"):
        plugins.start()


def test_stopping_the_runtime_kills_what_it_launched(plugins: Plugins) -> None:
    runtime, plugin = plugins.launch("00-p", f"{QUIET}\nsignal.pause()")
    runtime.stop()
    assert plugin.process is not None
    assert (plugin.process.exit_status, plugin.closed) == (-signal.SIGKILL, "the runtime stopped")


# ---- registered


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
        assert (runtime.plugins, plugin.process.exit_status) == ([], status)


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


def test_the_runtime_introduces_itself_as_its_nri_does() -> None:
    timeouts = {"registration_timeout": "7000", "request_timeout": "1500"}
    for nri, told in (("v0.6.1", {}), ("v0.8.0", timeouts), ("v0.12.0", timeouts | {"NRI_version": "v0.12.0"})):
        flavour = Flavour("cri-o", "1.2.3", nri, registration_timeout=7, request_timeout=1.5)
        always = {"runtime_name": "cri-o", "runtime_version": "1.2.3", "config": "text"}
        assert MessageToDict(flavour.configure_request("text"), preserving_proto_field_name=True) == always | told


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
        runtime.listen(tmp_path / "nri.sock")
        with pytest.raises(Late, match="no plugin connected"):
            runtime.accept(0.01)  # nobody comes, however long it waits
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
