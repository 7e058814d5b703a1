"""Whatever the daemon inherits or is sent: signals, umask, children, a kernel that lacks something."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from v010_adapter.daemon import guard

from ..rig.daemon import COMMAND, IGNORING, WITH_VARIABLES, Daemon, spawn
from ..rig.machine import Machine, patched, start, stop
from ..rig.mounts import OWN_MOUNTS, require_mounts
from ..rig.waiting import running


def after(shell: str, command: Sequence[str | Path] = (COMMAND,)) -> list[str | Path]:
    """The command as it is started by a shell that has done something before."""
    return ["/bin/sh", "-c", f'{shell}; exec "$@"', "sh", *command]


def reload(daemon: Daemon) -> str:
    """Has it read its configuration again; returns what it says then."""
    daemon.signal(signal.SIGHUP)
    line = daemon.logged("SIGHUP: ")
    daemon.log.clear()
    return line.partition("SIGHUP: ")[2]


# ---- what it inherits


def test_programs_inherit_from_the_daemon_nothing_that_it_has_inherited_but_its_limit_of_descriptors(
    node: Machine, listener: socket.socket
) -> None:
    """The daemon is started with SIGCHLD ignored; with that, it would not know the exit codes of programs."""
    descriptors = "for n in 0 1 2 3 9; do test -e /proc/$$/fd/$n && echo $n; done"
    node.plugin("tells", f"(umask; ulimit -Sn; {descriptors}) >'{node.path}/told'; exit 3")
    node.configure("tells")
    own: list[str | Path] = [*IGNORING, *WITH_VARIABLES, "-config", node.file(), "-socket", node.path / "nri.sock"]
    words = after("umask 0177; ulimit -Sn 100; exec 3</dev/null 9</dev/null", own)
    daemon = node.keep(spawn(words, node.state(), {})).accept(listener)
    assert "exit code 3" in daemon.handshake().call(start("ctr")).message
    assert (node.path / "told").read_text().split() == ["0022", "100", "0", "1", "2"]
    assert os.readlink(f"/proc/{daemon.pid}/cwd") == "/"
    soft, hard = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
    assert soft == hard


COLLECTOR = """
import gc
from v010_adapter.daemon.adapter import Adapter
def tell(*_):
    numbers = gc.get_threshold()[0], gc.get_freeze_count(), gc.get_stats()[2]["collections"]
    logs.log.info("SIGHUP: %s %d %d %d", gc.isenabled(), *numbers)
Adapter.reload = tell"""


def test_the_collector_is_off_until_the_runtime_has_the_adapter_and_rare_after_that(node: Machine) -> None:
    daemon = node.spawn(patched(COLLECTOR))
    daemon.registration()
    is_enabled, _, *before = reload(daemon).split()
    assert is_enabled == "False"
    daemon.configure()
    daemon.serves("Synchronize")
    daemon.call("Nothing")
    is_enabled, threshold, *after = reload(daemon).split()
    assert (is_enabled, threshold) == ("True", "5000")
    assert all(int(late) > int(early) for early, late in zip(before, after, strict=True)), (
        "the collector has run, and what there was then is frozen"
    )


def test_a_kernel_that_lacks_what_programs_need_is_named_at_the_start(node: Machine) -> None:
    daemon = node.launch(patch="import os; del os.pidfd_open")
    why = "is missing or forbidden here: module 'os' has no attribute 'pidfd_open'"
    daemon.logged(f"ERROR no program can be run: pidfd_open (Linux 5.3) {why}")


# ---- what it is sent


@pytest.mark.parametrize("number", guard.IGNORED)
def test_a_signal_that_means_nothing_to_it_ends_neither_form(
    node: Machine, listener: socket.socket, number: int
) -> None:
    for daemon in (node.launch(), node.external(listener=listener).handshake()):
        server = daemon.server
        for pid in {daemon.pid, daemon.guard or daemon.pid, server}:
            os.kill(pid, number)
        node.still_serves(daemon)
        assert daemon.is_running()
        assert daemon.server == server


def test_sighup_has_the_configuration_read_again_names_what_needs_a_restart_and_what_is_wrong(node: Machine) -> None:
    config = node.file()
    daemon = node.spawn(patched(f"settings.DEFAULT_PATH = {str(config)!r}")).handshake()
    config.write_text("log: {level: debug}\nunheardOf: 1\n")
    said = reload(daemon)
    assert said.startswith(f"{config}:2: unheardOf: unknown key")
    assert said.endswith("(the configuration stays as it was)")
    node.still_serves(daemon)
    assert not any("DEBUG" in line for line in daemon.log)
    node.file({"timeout": 1}, hostRoot="/host", runtime={"failRequest": True}, log={"level": "debug"})
    for _ in range(2):
        assert reload(daemon) == (
            "the configuration has been read again, the settings of the log are in force; "
            "a restart is needed for hostRoot, legacy, runtime.failRequest"
        )
    node.still_serves(daemon)
    daemon.logged("DEBUG create of container default/web/proof-2 (proof-2): good: done")
    node.file()
    assert reload(daemon).endswith("in force")


HUNG_UP = """
import os, sys
from v010_adapter.cli import command_line, entry
command_line.main = lambda launch, main=command_line.main: (os.kill(os.getpid(), 1), main(launch=launch))[1]
sys.exit(entry.main())"""


def test_a_sighup_that_comes_while_the_daemon_starts_waits_until_it_has_started(
    node: Machine, listener: socket.socket
) -> None:
    line: list[str | Path] = [sys.executable, "-c", HUNG_UP, "-config", node.file(), "-socket", node.path / "nri.sock"]
    daemon = node.keep(spawn(line, node.state(), {})).accept(listener)
    daemon.logged("SIGHUP: the configuration has been read again")
    node.still_serves(daemon.handshake())


def test_sighup_says_so_where_the_runtime_has_sent_the_configuration(node: Machine) -> None:
    daemon = node.launch()
    assert reload(daemon).startswith("the runtime has sent the configuration, and sends it again only when")
    node.still_serves(daemon)


# ---- the adapter in a container: programs of the node run among the node's files, the adapter keeps its own

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="entering a mount namespace needs root")


def test_a_plugin_of_the_node_runs_among_the_nodes_files(node: Machine, listener: socket.socket) -> None:
    """The node has a plugin and its interpreter, the adapter's container neither.

    Each of the two needs modules and a conf.json, which the adapter finds where it is itself.
    """
    require_mounts()
    node.plugin("of-the-node", node.record("of-the-node"), f"{node.bin}/interpreter")
    script = f"""
        cp {node.bin}/of-the-node {node.path}/kept
        mount -t tmpfs -o mode=755 tmpfs {node.bin}
        cp /bin/sh {node.bin}/interpreter
        mv {node.path}/kept {node.bin}/of-the-node
        echo ready
        exec sleep infinity"""
    line = [*OWN_MOUNTS, "sh", "-ec", script]
    with running(line, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        (node.bin / "of-the-node").unlink()
        node.configure("of-the-node")
        config = node.file(mountNamespace=f"/proc/{process.pid}/ns/mnt")
        daemon = node.external("-config", config, listener=listener).handshake()
        daemon.serves(start("c1"), stop("c1"))
    assert node.runs("of-the-node") == [("create", "c1"), ("delete", "c1")], daemon.log
    assert Path(f"/proc/{daemon.pid}/ns/mnt").readlink() == Path("/proc/self/ns/mnt").readlink()


@needs_root
@pytest.mark.parametrize(
    ("name", "reason"), [("absent", "No such file or directory"), ("adapter.yaml", "Invalid argument")]
)
def test_a_namespace_that_cannot_be_used_ends_the_adapter_with_its_name(node: Machine, name: str, reason: str) -> None:
    daemon = node.external("-config", node.file(mountNamespace=f"{node.path}/{name}"))
    assert daemon.ended() == 2
    assert daemon.log == [f"v010-adapter: mountNamespace: {node.path}/{name}: {reason}"]
