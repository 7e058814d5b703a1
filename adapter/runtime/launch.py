"""Starts plugins the way containerd does: with three environment variables and a connected socket.

Source of the rules: containerd/nri pkg/adaptation/plugin.go, newLaunchedPlugin and getPluginConfig.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from adapter.host import paths

SOCKET_FD = 3
UNUSED_FD = 10
"""A number above all descriptors that the child gets."""


class PluginFile(NamedTuple):
    """A plugin to launch: its program, its index of two digits, its name, and the text of its configuration."""

    path: Path
    idx: str
    base: str
    config: str = ""

    @property
    def name(self) -> str:
        """The runtime's name for the plugin, `NN-NAME`."""
        return f"{self.idx}-{self.base}"


@dataclass
class PluginProcess:
    """A launched process, until it is reaped."""

    pid: int
    exit_status: int | None = None
    """Set by `kill`: the exit code, or minus the signal that ended the process."""

    def end(self, timeout: float) -> None:
        """Sends SIGTERM, and waits at most `timeout` seconds for the end of the process."""
        if self.exit_status is None:
            os.kill(self.pid, signal.SIGTERM)
            pidfd = os.pidfd_open(self.pid)
            select.select([pidfd], [], [], timeout)
            os.close(pidfd)

    def kill(self) -> None:
        """Ends the process as containerd does, by SIGKILL to its pid alone, and reaps it."""
        if self.exit_status is None:
            os.kill(self.pid, signal.SIGKILL)
            _, status = os.waitpid(self.pid, 0)
            self.exit_status = os.waitstatus_to_exitcode(status)


def drop_in(config: Path, idx: str, base: str) -> str:
    """Returns a plugin's configuration in the drop-in directory, empty if there is none. Raises ConfigError."""
    texts = (paths.read_text(str(config / name)) for name in drop_ins(idx, base))
    return next((text for text in texts if text is not None), "")


def drop_ins(idx: str, base: str) -> tuple[str, str]:
    """Returns the possible names of a plugin's file in the drop-in directory. The first file that exists counts."""
    return f"{idx}-{base}.conf", f"{base}.conf"


@contextmanager
def undisturbed() -> Iterator[None]:
    """Blocks SIGINT: Ctrl-C counts when the block ends."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def spawn(plugin: PluginFile, output: int | None = None, state: str = "") -> tuple[socket.socket, PluginProcess]:
    """Starts a plugin; returns the runtime's end of the trunk and the process. Raises OSError.

    As with containerd, the plugin gets three variables, /dev/null on the descriptors 0 to 2, the trunk on 3, and
    nothing else. The working directory is `/`, as a service's is. The plugin has its own process group, so that Ctrl-C
    at a terminal reaches the runtime only. `output` is a descriptor for stdout and stderr; Python then must not buffer
    its output, because the plugin will be killed. `state` is a directory: RUNTIME_DIRECTORY names a directory in it, so
    that the plugin shares nothing with a plugin in service.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    trunk = fcntl.fcntl(theirs.fileno(), fcntl.F_DUPFD_CLOEXEC, UNUSED_FD)
    environment = {"NRI_PLUGIN_NAME": plugin.base, "NRI_PLUGIN_IDX": plugin.idx, "NRI_PLUGIN_SOCKET": str(SOCKET_FD)}
    if output is not None:
        environment["PYTHONUNBUFFERED"] = "1"
    if state:
        environment["RUNTIME_DIRECTORY"] = os.path.join(state, plugin.name)
    path = os.path.abspath(plugin.path)
    try:
        with _at_root():
            pid = os.posix_spawn(
                path,
                [path],
                environment,
                file_actions=_file_actions(trunk, output),
                setpgroup=0,
                setsigmask=[],
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # Python ignores these, and a child inherits that
            )
    except OSError as error:
        ours.close()
        raise paths.start_error(str(plugin.path), error) from None
    finally:
        os.close(trunk)
        theirs.close()
    return ours, PluginProcess(pid)


@contextmanager
def _at_root() -> Iterator[None]:
    """Inside, the working directory is `/`: a plugin may import from it, so others must not be able to write there."""
    before = os.open(".", os.O_PATH | os.O_CLOEXEC)
    try:
        os.chdir("/")
        yield
    finally:
        os.fchdir(before)
        os.close(before)


def _file_actions(trunk: int, output: int | None) -> list[Any]:
    shown, null = ((), (0, 1, 2)) if output is None else ((1, 2), (0,))
    actions: list[Any] = [(os.POSIX_SPAWN_DUP2, output, fd) for fd in shown]
    actions += [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in null]
    others = {int(fd) for fd in os.listdir("/proc/self/fd")} - {0, 1, 2, trunk}
    actions += [(os.POSIX_SPAWN_CLOSE, fd) for fd in others]
    return [*actions, (os.POSIX_SPAWN_DUP2, trunk, SOCKET_FD)]
