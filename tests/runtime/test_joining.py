"""How a plugin joins the embedded runtime: it is launched or connects, registers, is configured and synchronized."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

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
    links = {int(fd.name): os.readlink(fd) for fd in proc.joinpath("fd").iterdir()}
    assert {fd: link.partition("[")[0] for fd, link in links.items()} == dict.fromkeys(range(3), "/dev/null") | {
        3: "socket:"
    }
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


@pytest.mark.parametrize(
    ("drop_ins", "got"),
    [
        ({"06-p.conf": "for another"}, ""),
        ({"p.conf": "by name"}, "by name"),
        ({"p.conf": "by name", "05-p.conf": "by index and name"}, "by index and name"),
    ],
)
def test_configure_carries_the_drop_in_of_the_plugin(plugins: Plugins, drop_ins: dict[str, str], got: str) -> None:
    for name, text in drop_ins.items():
        (plugins.config / name).write_text(text)
    source = "raise RuntimeError(repr(request.config))"
    plugins.write("05-p", f"class Mine(Plugin):\n    def configure(self, request, context): {source}\nrun(Mine())")
    with pytest.raises(RegistrationError, match=f"^plugin 05-p failed to configure: '{got}'$"):
        plugins.start()
    assert [gone(plugin) for plugin in plugins.runtimes[0].connected] == [True]


def test_an_unreadable_drop_in_stops_the_runtime(plugins: Plugins) -> None:
    plugins.write("00-p", QUIET)
    (plugins.config / "p.conf").mkdir()
    with pytest.raises(ConfigError, match=r"p\.conf: cannot be read"):
        plugins.start()


def test_stopping_the_runtime_kills_what_it_launched(plugins: Plugins) -> None:
    runtime, plugin = plugins.launch("00-p", f"{QUIET}\nsignal.pause()")
    runtime.stop()
    assert plugin.process is not None
    assert (plugin.process.exit_status, plugin.closed) == (-signal.SIGKILL, "the runtime stopped")


# ---- registered


@pytest.mark.parametrize(
    ("does", "timeout", "error", "status"),
    [
        ("sys.stdin.close(); signal.pause()", 0.05, r"no answer in 0\.05 s", -signal.SIGKILL),
        ("sys.exit(3)", 3600, "connection closed by the plugin", 3),
    ],
)
def test_a_plugin_that_does_not_register_is_killed(
    plugins: Plugins, does: str, timeout: float, error: str, status: int
) -> None:
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


@pytest.mark.parametrize(
    ("nri", "timeouts", "version"),
    [("v0.6.1", (0, 0), ""), ("v0.8.0", (7000, 1500), ""), ("v0.12.0", (7000, 1500), "v0.12.0")],
)
def test_the_runtime_introduces_itself_as_its_nri_does(nri: str, timeouts: tuple[int, int], version: str) -> None:
    flavour = Flavour("cri-o", "1.2.3", nri, registration_timeout=7, request_timeout=1.5)
    request = flavour.configure_request("text")
    assert (request.runtime_name, request.runtime_version, request.config) == ("cri-o", "1.2.3", "text")
    assert (request.registration_timeout, request.request_timeout, request.NRI_version) == (*timeouts, version)


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
