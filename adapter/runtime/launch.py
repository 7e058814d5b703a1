"""Starts plugins the way containerd does: found in a directory, with three variables and a connected socket.

Source of the rules: containerd/nri pkg/adaptation/adaptation.go, discoverPlugins, and plugin.go, newLaunchedPlugin.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import socket
import stat
from pathlib import Path
from typing import Any, NamedTuple

from adapter.errors import ConfigError

SOCKET_FD = 3
HIGH_FD = 10  # above every descriptor that the child is given by number


class PluginFile(NamedTuple):
    """A plugin's executable, what its name says, and the configuration that belongs to it."""

    path: Path
    idx: str
    base: str
    config: str


class Process:
    """A process that was launched, until it is reaped."""

    def __init__(self, pid: int) -> None:
        """Takes the pid of a child."""
        self.pid = pid
        self.exit_status: int | None = None
        """How it ended, once `kill` was called: its exit code, or minus the signal that killed it."""

    def kill(self) -> None:
        """Ends the process as containerd does, by SIGKILL to its pid alone, and reaps it."""
        if self.exit_status is None:
            os.kill(self.pid, signal.SIGKILL)
            _, status = os.waitpid(self.pid, 0)
            self.exit_status = os.waitstatus_to_exitcode(status)


def discover(plugins: Path, config: Path | None) -> list[PluginFile]:
    """Returns the plugins of a directory, in the order of their names; none if it does not exist.

    One misnamed executable spoils them all, as it does for containerd. Raises ConfigError.
    """
    if not plugins.exists():
        return []
    return [plugin_file(path, config) for path in sorted(plugins.iterdir()) if _executable(path)]


def _executable(path: Path) -> bool:
    mode = path.lstat().st_mode  # not followed: every symlink counts, even one to nowhere
    return not stat.S_ISDIR(mode) and bool(mode & 0o111)


def plugin_file(path: Path, config: Path | None) -> PluginFile:
    """Returns what the name of an executable, `NN-NAME`, says, and its text in the drop-in directory `config`.

    Raises ConfigError for another name and for a drop-in that cannot be read.
    """
    match = re.fullmatch(r"([0-9]{2})-(.*)", path.name)
    if match is None:
        raise ConfigError(str(path), "an executable in the plugin directory whose name is not NN-NAME")
    idx, base = match.groups()
    return PluginFile(path, idx, base, drop_in(config, idx, base) if config else "")


def drop_in(config: Path, idx: str, base: str) -> str:
    """Returns a plugin's text in the drop-in directory, empty if it has none. Raises ConfigError."""
    for name in (f"{idx}-{base}.conf", f"{base}.conf"):
        try:
            return (config / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(str(config / name), f"cannot be read: {error}") from None
    return ""


def spawn(plugin: PluginFile, stderr: int | None = None) -> tuple[socket.socket, Process]:
    """Starts a plugin; returns our end of its trunk and its process. Raises OSError.

    It gets exactly what containerd gives: three variables, /dev/null on descriptors 0 to 2 (`stderr` may replace the
    last one), the trunk on 3, nothing else; working directory and process group are ours.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    high = fcntl.fcntl(theirs.fileno(), fcntl.F_DUPFD_CLOEXEC, HIGH_FD)
    try:
        pid = os.posix_spawn(
            plugin.path,
            [str(plugin.path)],
            {
                "NRI_PLUGIN_NAME": plugin.base,
                "NRI_PLUGIN_IDX": plugin.idx,
                "NRI_PLUGIN_SOCKET": str(SOCKET_FD),
            },
            file_actions=_file_actions(high, stderr),
            setsigmask=[],
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # which Python ignores, and a child would inherit that
        )
    except OSError:
        ours.close()
        raise
    finally:
        os.close(high)
        theirs.close()
    return ours, Process(pid)


def _file_actions(trunk: int, stderr: int | None) -> list[Any]:
    actions: list[Any] = [] if stderr is None else [(os.POSIX_SPAWN_DUP2, stderr, 2)]
    null = (0, 1, 2) if stderr is None else (0, 1)
    actions += [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in null]
    actions += [(os.POSIX_SPAWN_CLOSE, fd) for fd in _inheritable()]
    return [*actions, (os.POSIX_SPAWN_DUP2, trunk, SOCKET_FD)]


def _inheritable() -> list[int]:
    """Returns descriptors that whoever started us left open for our children, beyond the standard ones."""
    found = []
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            if fd > 2 and os.get_inheritable(fd):  # noqa: PLR2004
                found.append(fd)
        except OSError:
            continue  # the descriptor of the listing itself
    return found
