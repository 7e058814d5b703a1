from __future__ import annotations

import os
import select
import signal
from pathlib import Path

import pytest

from adapter.errors import ConfigError
from adapter.runtime import Plugin
from adapter.runtime.launch import PluginFile, spawn

from .fixtures import Plugins

QUIET = "run(Plugin())"


def proc(plugin: Plugin) -> Path:
    assert plugin.process is not None
    return Path(f"/proc/{plugin.process.pid}")


@pytest.mark.usefixtures("executing")
def test_a_plugin_gets_three_variables_and_nothing_else(plugins: Plugins) -> None:
    _, plugin = plugins.launch("07-some-name", QUIET)
    environment = proc(plugin).joinpath("environ").read_bytes().split(b"\0")
    assert sorted(environment) == [b"", b"NRI_PLUGIN_IDX=07", b"NRI_PLUGIN_NAME=some-name", b"NRI_PLUGIN_SOCKET=3"]


@pytest.mark.usefixtures("executing")
def test_a_plugin_gets_dev_null_and_its_socket_and_no_other_descriptor(plugins: Plugins) -> None:
    left_open = os.dup2(os.open(os.devnull, os.O_RDONLY), 47, inheritable=True)
    try:
        _, plugin = plugins.launch("00-p", QUIET)
    finally:
        os.close(left_open)
    links = {int(fd.name): os.readlink(fd) for fd in proc(plugin).joinpath("fd").iterdir()}
    assert sorted(links) == [0, 1, 2, 3]
    assert {links[fd] for fd in (0, 1, 2)} == {"/dev/null"}
    assert links[3].startswith("socket:")


@pytest.mark.usefixtures("executing")
def test_a_plugin_works_at_the_root_and_gets_no_signals_of_the_runtimes_terminal(plugins: Plugins) -> None:
    _, plugin = plugins.launch("00-p", QUIET)
    assert proc(plugin).joinpath("cwd").readlink() == Path("/")
    assert plugin.process is not None
    assert os.getpgid(plugin.process.pid) == plugin.process.pid


@pytest.mark.usefixtures("executing")
def test_a_caller_may_listen_to_its_plugins(plugins: Plugins) -> None:
    reader, writer = os.pipe()
    runtime = plugins.runtime(output=writer)
    program = plugins.write("00-p", "os.write(2, b'heard ')\nprint('and not kept')\n" + QUIET)
    program.write_text(program.read_text().replace(" -I", "", 1))  # which would ignore PYTHONUNBUFFERED
    runtime.launch(plugins.file(program))
    os.close(writer)
    heard = b""
    while heard != b"heard and not kept\n" and select.select([reader], [], [], 60)[0]:
        heard += os.read(reader, 100)
    os.close(reader)
    assert heard == b"heard and not kept\n"


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


def test_the_files_name_is_the_plugins_whatever_it_registers_as(plugins: Plugins) -> None:
    _, plugin = plugins.launch("42-a-b", "raw.run(lambda plugin, request: b'')")
    assert plugin.name == "42-a-b"
    assert plugin.registration is not None
    assert plugin.registration.plugin_name == "whatever"


@pytest.mark.parametrize(
    ("drop_ins", "got"),
    [
        ({}, ""),
        ({"p.conf": "by name"}, "by name"),
        ({"p.conf": "by name", "05-p.conf": "by index and name"}, "by index and name"),
        ({"06-p.conf": "for another"}, ""),
    ],
)
def test_configure_carries_the_drop_in_of_the_plugin(plugins: Plugins, drop_ins: dict[str, str], got: str) -> None:
    for name, text in drop_ins.items():
        (plugins.config / name).write_text(text)
    plugins.launch(
        "05-p",
        """
        class Mine(Plugin):
            def configure(self, request, context):
                open(sys.argv[0] + ".config", "w").write(request.config)
        run(Mine())
        """,
    )
    assert (plugins.path / "05-p.config").read_text() == got


def test_an_unreadable_drop_in_stops_the_runtime(plugins: Plugins) -> None:
    plugins.write("00-p", QUIET)
    (plugins.config / "p.conf").mkdir()
    with pytest.raises(ConfigError, match=r"p\.conf: cannot be read"):
        plugins.start()


def test_stopping_the_runtime_kills_what_it_launched(plugins: Plugins) -> None:
    runtime, plugin = plugins.launch("00-p", f"{QUIET}\nsignal.pause()")
    runtime.stop()
    assert plugin.process is not None
    assert plugin.process.exit_status == -signal.SIGKILL
    assert plugin.closed == "the runtime stopped"
