"""The launched form outlives its server, its runtime's verdict and the launched process, but not its runtime."""

from __future__ import annotations

import os
import signal
import socket
import sys
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from google.protobuf.message import Message

from nri.errors import RegistrationError
from tests.rig.processes import gone, open_descriptors, reaped
from v010_adapter.daemon import guard
from v010_adapter.daemon.guard import FIRST_WAIT, Launch

from ..rig.daemon import COMMAND, IGNORING, Daemon, spawn, trunk_of_a_process
from ..rig.machine import Machine, start, stop
from ..rig.processes import children_of


def launch(node: Machine, *, by_process: bool = False) -> Daemon:
    """Launches an adapter that only the runtime's text tells of the node's plugins, and of the socket."""
    node.configure("good")
    return node.launch(runtime={"socket": str(node.path / "nri.sock")}, by_process=by_process)


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def test_a_killed_server_comes_back_as_an_external_plugin_each_time(node: Machine, listener: socket.socket) -> None:
    daemon = launch(node)
    first = daemon.server
    daemon.serves(start("ctr"))
    kill(first)
    daemon.dropped()
    request = daemon.accept(listener).registration()
    assert (request.plugin_idx, request.plugin_name) == ("00", "v010-adapter")
    daemon.configure()
    daemon.serves("Synchronize", stop("ctr"))
    assert node.runs() == [("create", "ctr"), ("delete", "ctr")]
    assert daemon.server != first
    kill(daemon.server)
    node.still_serves(daemon.accept(listener).handshake())
    killed = [line for line in daemon.log if "ERROR the process before this one was killed by signal 9" in line]
    assert len(killed) == 2


@pytest.mark.parametrize("killed_at", ["pwrite", "truncate"])
def test_a_kill_while_a_configuration_is_kept_leaves_the_last(monkeypatch: pytest.MonkeyPatch, killed_at: str) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    runtime, plugin = socket.socketpair()
    with runtime, plugin:
        launched = Launch(plugin.fileno())
        launched.keep("text", "/nri.sock")
        monkeypatch.setattr(os, killed_at, killed)
        with pytest.raises(KeyboardInterrupt):
            launched.keep("text", "/nri.sock")
    assert launched.text() == "text"
    os.close(launched.pidfd)


def test_a_server_joins_again_whose_launched_process_is_killed(node: Machine, listener: socket.socket) -> None:
    daemon = launch(node)
    server = daemon.server
    daemon.hang_up()
    kill(daemon.pid)
    node.still_serves(daemon.accept(listener).handshake())
    assert daemon.server == server
    kill(server)
    node.still_serves(daemon.accept(listener).handshake())


def test_with_the_runtime_everything_ends_and_what_is_still_owed_is_logged(node: Machine) -> None:
    daemon = launch(node, by_process=True)
    daemon.serves(start("ctr"))
    pids = daemon.pid, daemon.guard, daemon.server
    daemon.end_runtime()
    assert daemon.ended() == 0
    gone(*pids)
    assert daemon.log[-1].endswith("INFO still owed: the deletes of container default/web/ctr (ctr)")


def test_with_the_runtime_everything_ends_that_has_come_back_after_a_kill(node: Machine) -> None:
    daemon = launch(node, by_process=True)
    kill(daemon.pid)
    kill(daemon.server)
    daemon.logged("takes no external plugins", "keeps trying to join")
    pids = daemon.guard, daemon.server
    daemon.end_runtime()
    gone(*pids)


def test_only_the_runtime_that_launched_the_adapter_is_joined_again(node: Machine, listener: socket.socket) -> None:
    runtime, plugin, process = trunk_of_a_process()
    with runtime, plugin:
        launched = Launch(plugin.fileno())
        process.kill()
        process.wait()
        launched.keep("", f"{node.path}/nri.sock")
        before = open_descriptors()
        place = f"process {os.getpid()} listens at {node.path}/nri.sock"
        with pytest.raises(RegistrationError, match=rf"\(process {process.pid}\) takes no external plugins: {place}$"):
            launched.connect()
        assert open_descriptors() <= before
    os.close(launched.pidfd)


@pytest.mark.parametrize(
    ("whom", "number"),
    [("pid", signal.SIGTERM), ("pid", signal.SIGINT), ("guard", signal.SIGTERM), ("server", signal.SIGINT)],
)
def test_a_signal_to_any_of_the_three_ends_all(node: Machine, whom: str, number: signal.Signals) -> None:
    """The guard has a session of its own; the launched process stays in the runtime's."""
    daemon = launch(node)
    pids = daemon.pid, daemon.guard, daemon.server
    assert list(map(os.getsid, pids)) == [os.getsid(0), daemon.guard, daemon.guard]
    os.kill(getattr(daemon, whom), number)
    assert daemon.ended() == 0
    assert daemon.log[-1].endswith(f"INFO ending on {number.name}")
    gone(*pids)


def test_a_server_that_was_asked_to_end_and_is_killed_does_not_come_back(node: Machine) -> None:
    gate = node.slow()
    daemon = launch(node)
    node.configure("slow")
    daemon.send(start("ctr"))
    gate.arrival()
    daemon.terminate()
    kill(daemon.server)
    assert daemon.ended() == 128 + signal.SIGKILL


def guarding_nothing(node: Machine, waits: str) -> Daemon:
    """Launches an adapter whose servers are all killed at once, and whose guard waits otherwise."""
    code = f"""
import os, sys
from v010_adapter.cli import command_line as cli
from v010_adapter.cli import entry
from v010_adapter.daemon import guard
cli.main = lambda launch: (os.write(2, b"here\\n"), os.kill(os.getpid(), 9))
{waits}
sys.exit(entry.main())"""
    return node.spawn([sys.executable, "-c", code], by_process=True)


def test_with_the_runtime_a_guard_ends_whose_servers_are_all_killed_at_once(node: Machine) -> None:
    daemon = guarding_nothing(node, "guard.FIRST_WAIT = guard.LONGEST_WAIT = 0.01")
    daemon.logged("here")
    daemon.end_runtime()
    assert daemon.ended() == 0


def test_a_signal_ends_a_guard_whose_server_was_killed(node: Machine) -> None:
    wait = "guard.wait_for_end = lambda wait, real=guard.wait_for_end: (os.write(2, b'waits\\n'), real(60))[1]"
    daemon = guarding_nothing(node, wait)
    daemon.logged("waits")
    daemon.end()


def test_a_guard_that_was_stopped_while_it_waits_starts_the_server_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython's sigtimedwait then returns numbers that it has not set (3.11 and 3.13 on a real stop and continue)."""
    arbitrary = signal.struct_siginfo((21845, 0, 0, 0, 0, 0, 0))
    monkeypatch.setattr(signal, "sigtimedwait", lambda signals, wait: arbitrary)
    assert not guard.wait_for_end(FIRST_WAIT)


def test_a_runtime_that_ignores_sigchld_gets_a_guard_and_exit_codes(node: Machine, listener: socket.socket) -> None:
    """The kernel would reap the plugins itself, and their exit codes would be lost."""
    node.plugin("fails", "exit 3")
    node.configure("fails")
    daemon = node.spawn([*IGNORING, COMMAND])
    daemon.handshake(node.settings(runtime={"socket": str(node.path / "nri.sock")}))
    assert "exit code 3" in daemon.call(start("ctr")).message
    assert not any("bug" in line for line in daemon.log)
    kill(daemon.server)
    node.still_serves(daemon.accept(listener).handshake())


# ---- a stopped server is replaced by its guard; one without a guard runs nothing for a runtime that has gone

SUBREAPER = "import ctypes, sys; ctypes.CDLL(None).prctl(36, 1)"
CONTAINED = f"{SUBREAPER}; from v010_adapter.cli.entry import main; sys.exit(main(in_container=True))"
"""What the image's command does; orphans become the guard's children, as those of a container do."""


def test_in_a_container_a_killed_server_comes_back_and_orphans_are_reaped(
    node: Machine, listener: socket.socket
) -> None:
    gate = node.slow()
    node.configure("slow")
    own = ["-config", str(node.file()), "-socket", f"{node.path}/nri.sock"]
    daemon = node.keep(spawn([sys.executable, "-c", CONTAINED, *own], {"PATH": os.defpath, **node.state()}, {}))
    daemon.accept(listener).handshake().send(start("c1"))
    orphan = gate.arrival()
    (server,) = children_of(daemon.pid)
    kill(server)
    daemon.logged("v010-adapter: the server was killed by signal 9")
    daemon.accept(listener).handshake()
    gate.let_on()
    reaped(orphan)
    node.configure("good")
    node.still_serves(daemon)
    assert len(children_of(daemon.pid)) == 1
    daemon.end()


def test_in_a_container_a_server_that_ends_by_itself_ends_its_guard(node: Machine) -> None:
    words = [sys.executable, "-c", CONTAINED, "-config", str(node.path / "absent")]
    assert node.keep(spawn(words, {"PATH": os.defpath}, {})).ended() == 2


IMPORTS = """
import os, sys

class Told:
    guard = os.getpid()

    def find_spec(self, name, *_):
        if os.getpid() != self.guard:
            os.write(2, f"imports {name}\\n".encode())

sys.meta_path.insert(0, Told())
"""
"""Tells of each module that a server imports, and its guard has not."""


def test_a_server_in_a_container_has_all_modules_before_it_joins(node: Machine, listener: socket.socket) -> None:
    """To import them takes longer than all else between a kill and the next server's joining."""
    metrics = {"listen": f"unix:{node.path}/metrics"}
    own = ["-idx", "00", "-config", str(node.file(metrics=metrics)), "-socket", f"{node.path}/nri.sock"]
    words = [sys.executable, "-c", f"{IMPORTS}\n{CONTAINED}", *own]
    daemon = node.keep(spawn(words, {"PATH": os.defpath, **node.state()}, {}, fresh=True))
    daemon.accept(listener).handshake()
    daemon.logged("registered with")
    daemon.logged("metrics and probes at")
    assert [line for line in daemon.log if line.startswith("imports") and "encodings." not in line] == []
    daemon.end()


def test_a_server_that_has_lived_is_started_again_without_a_longer_wait_and_one_that_could_not_be_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float] = []
    lives = [0.1, 0.1, guard.LIFE + 0.1, 0.1, 0.1]
    times = iter([moment for life in lives for moment in (0.0, life)])

    def is_last(wait: float) -> bool:
        waits.append(wait)
        return len(waits) == len(lives)

    fork, write = Mock(side_effect=[1, BlockingIOError, 1, 1, 1]), Mock()
    system = SimpleNamespace(fork=fork, write=write, _exit=lambda _: None, WNOHANG=0, WUNTRACED=0)
    monkeypatch.setattr(guard, "os", system)
    monkeypatch.setattr(guard, "time", SimpleNamespace(monotonic=lambda: next(times)))
    monkeypatch.setattr(guard, "_end_of", lambda *_: (128 + signal.SIGKILL, False))
    monkeypatch.setattr(guard, "wait_for_end", is_last)
    guard._serve(None)
    assert waits == [0.1, 0.2, 0.1, 0.2, 0.4]
    assert write.call_count == 4, "one was not started"


MANY = 500
"""Events of more bytes than the adapter reads at once."""


def test_the_guard_kills_a_stopped_server_and_starts_another(node: Machine, listener: socket.socket) -> None:
    node.configure("good")
    daemon = node.launch(runtime={"socket": str(node.path / "nri.sock")})
    daemon.serves(start("c1"))
    stopped = daemon.server
    os.kill(stopped, signal.SIGSTOP)
    daemon.accept(listener).handshake()
    assert stopped not in children_of(daemon.guard)
    daemon.serves(stop("c1"))
    assert node.runs() == [("create", "c1"), ("delete", "c1")]


def test_the_launched_process_does_not_kill_a_stopped_guard(node: Machine) -> None:
    daemon = node.launch()
    os.kill(daemon.guard, signal.SIGSTOP)
    node.still_serves(daemon)
    os.kill(daemon.guard, signal.SIGCONT)
    daemon.end()


def stopped_while(node: Machine, listener: socket.socket, *calls: Message) -> Daemon:
    """An adapter without a guard, which has run a create, and was stopped while calls came and the runtime went."""
    node.configure("good")
    daemon = node.external(listener=listener, fresh=True).handshake()  # a child of ours, to wait for its stop
    daemon.serves(start("c1"))
    daemon.signal(signal.SIGSTOP)
    os.waitpid(daemon.pid, os.WUNTRACED)
    daemon.send_together(*calls)
    daemon.hang_up()
    daemon.signal(signal.SIGCONT)
    return daemon


def test_creates_from_a_runtime_that_has_gone_do_not_run(node: Machine, listener: socket.socket) -> None:
    daemon = stopped_while(node, listener, *(start(f"late{number}") for number in range(MANY)))
    daemon.accept(listener).handshake().serves(stop("c1"))
    assert node.runs() == [("create", "c1"), ("delete", "c1")]


def test_a_stop_that_waits_there_runs(node: Machine, listener: socket.socket) -> None:
    daemon = stopped_while(node, listener, stop("c1"))
    daemon.logged("the runtime has closed the connection")
    daemon.end()
    assert node.runs() == [("create", "c1"), ("delete", "c1")]
