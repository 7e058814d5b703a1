"""The unit: systemd takes it, and the adapter works under its settings.

Without systemd as PID 1, the tests play its part: the socket that it listens on, the bounding set of capabilities
(`setpriv`), the commands of the unit. The OOM score and LockPersonality= are systemd-analyze's to judge.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from nri.wire import Code
from tests.rig import machine
from tests.rig.daemon import COMMAND, Daemon, spawn
from tests.rig.debian import missing
from tests.rig.listeners import Systemd
from tests.rig.sockets import listening
from tests.rig.waiting import LIMIT, running
from v010_adapter.cli.install import forms
from v010_adapter.cli.install.forms import Node
from v010_adapter.cli.systems import SYSTEMS

NAMESPACES = re.compile("Private|Protect|.*Paths$|Mount|.*Namespace|Root|ProcSubset|TemporaryFileSystem|DynamicUser")
"""The settings of systemd.exec(5) that give a service, and so legacy plugins, namespaces other than the node's."""


def unit(program: str = str(COMMAND)) -> str:
    return forms.external(Node("/", program))[0].content


def settings(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in text.splitlines():
        if line and line[0] not in "#[":
            key, _, value = line.partition("=")
            assert key not in found or key == "Before"
            found[key] = f"{found[key]} {value}" if key in found else value
    return found


# ---- the text


def test_it_is_a_supervised_service_that_leaves_plugins_the_nodes_namespaces() -> None:
    found = settings(unit())
    wanted = {"Type": "notify", "Restart": "always", "KillMode": "control-group", "TimeoutStopSec": "15"}
    wanted |= {"SyslogLevelPrefix": "no", "WantedBy": "multi-user.target"}
    assert {name: found.get(name) for name in wanted} == wanted
    assert not list(filter(NAMESPACES.match, found))
    assert not found.keys() & {"User", "Group", "NoNewPrivileges"}  # plugins run as root, and may be any program


def test_it_starts_after_the_runtime_and_before_what_starts_pods_also_if_one_unit_is_both() -> None:
    found = settings(unit())
    after, before = ({one.removesuffix(".service") for one in found[key].split()} for key in ("After", "Before"))
    assert "kubelet" in before
    assert not after & before
    for system in SYSTEMS:
        assert set(system.units) <= after or set(system.units) <= before, system.name


@pytest.mark.parametrize("folder", ["plain", "with a blank", "100%f"])
def test_systemd_takes_it(tmp_path: Path, folder: str) -> None:
    if shutil.which("systemd-analyze") is None:
        missing("systemd-analyze is not installed")
    program = tmp_path / folder / "v010-adapter"
    program.parent.mkdir()
    program.touch(0o755)
    file = tmp_path / "v010-adapter.service"
    file.write_text(unit(str(program)))
    done = subprocess.run(["systemd-analyze", "verify", file], capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "v010-adapter" in line]) == (0, [])


# ---- under its settings


def started(node: machine.Machine, systemd: Systemd) -> Daemon:
    """Returns the adapter, started by the unit's command with what its settings leave it, joined with a runtime."""
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        missing("setpriv is not installed")
    if os.geteuid() != 0:
        missing("only root can take capabilities from a service")
    found = settings(unit())
    taken = found["CapabilityBoundingSet"].removeprefix("~").lower().replace("cap_", "-").replace(" ", ",")
    config = node.path / "adapter.yaml"
    config.write_text(node.settings())
    here = [f"-config={config}", f"-socket={node.path}/nri.sock"]
    argv = [setpriv, f"--bounding-set={taken}", *shlex.split(found["ExecStart"]), *here]
    environ = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", **node.state(), **systemd.environ}
    environ["WATCHDOG_USEC"] = str(int(found["WatchdogSec"]) * 1_000_000)
    with listening(node.path / "nri.sock") as runtime:
        return node.keep(spawn(argv, environ, {})).accept(runtime).handshake()


def test_plugins_run_under_its_settings_and_a_stop_tells_the_adapter_alone_which_finishes_them(
    tmp_path: Path, short_path: Path
) -> None:
    node, systemd = machine.Machine(tmp_path), Systemd(short_path / "notify")
    with closing(node), systemd.socket:
        service = started(node, systemd)
        systemd.until("READY=1")
        status, gate = node.path / "status", node.slow()
        script = f"cat /proc/self/status; readlink /proc/self/ns/mnt; env) >'{status}'; echo '{{}}'"
        node.plugin("tell", f"({script}")
        node.configure("tell", "slow")
        create = service.send(machine.start("ctr"))
        gate.arrival()
        told, own = status.read_text(), Path("/proc/self/status").read_text()
        assert next(line for line in own.splitlines() if line.startswith("Uid:")) in told
        kept, all_ = (int(text.partition("CapBnd:\t")[2].split()[0], 16) for text in (told, own))
        dropped = sum(1 << number for number in (20, 22, 25, 35, 36))  # include/uapi/linux/capability.h
        assert all_ & ~kept == all_ & dropped
        assert str(Path("/proc/self/ns/mnt").readlink()) in told
        assert "NOTIFY_SOCKET" not in told
        stop = shlex.split(settings(unit())["ExecStop"])
        with running(stop, env={"PATH": "/usr/bin:/bin", "MAINPID": str(service.pid)}) as stopping:
            systemd.until("STOPPING=1")
            assert stopping.poll() is None  # it waits, so that systemd kills nobody yet
            gate.let_on()
            assert service.reply(create).code == Code.OK
            assert service.ended() == 0
            assert stopping.wait(LIMIT) == 0


def test_a_stop_after_the_adapters_own_end_does_nothing() -> None:
    stop = shlex.split(settings(unit())["ExecStop"])
    done = subprocess.run(stop, env={"PATH": "/usr/bin:/bin"}, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
