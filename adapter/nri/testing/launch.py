"""Starts plugins the way containerd does: with three environment variables and a connected socket.

Source of the rules: containerd/nri pkg/adaptation/plugin.go, newLaunchedPlugin and getPluginConfig.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import NamedTuple

from nri.scripts import start_error

SOCKET_FD = 3


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


@contextmanager
def undisturbed() -> Iterator[None]:
    """Blocks SIGINT and SIGTERM: Ctrl-C counts when the block ends."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def spawn(plugin: PluginFile, output: int | None = None, state: str = "") -> tuple[socket.socket, Popen[bytes]]:
    """Starts a plugin; returns the runtime's end of the trunk and the process. Raises OSError.

    As with containerd, the plugin gets three variables, /dev/null on the descriptors 0 to 2, the trunk on 3, and
    nothing else. The working directory is `/`, as a service's is: a plugin may import from it, so others must not be
    able to write there. The plugin has its own process group, so that Ctrl-C at a terminal reaches the runtime only.
    `output` is a descriptor for stdout and stderr; Python then must not buffer its output, because the plugin will be
    killed. `state` is a directory: RUNTIME_DIRECTORY names a directory in it, so that the plugin shares nothing with a
    plugin in service.
    """
    environment = {"NRI_PLUGIN_NAME": plugin.base, "NRI_PLUGIN_IDX": plugin.idx, "NRI_PLUGIN_SOCKET": str(SOCKET_FD)}
    if output is not None:
        environment["PYTHONUNBUFFERED"] = "1"
    if state:
        environment["RUNTIME_DIRECTORY"] = os.path.join(state, plugin.name)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)  # so number 3 is in use, as `pass_fds` needs
    shown = DEVNULL if output is None else output
    try:
        process = Popen(  # noqa: S603
            [os.path.abspath(plugin.path)],
            env=environment,
            cwd="/",
            stdin=DEVNULL,
            stdout=shown,
            stderr=shown,
            pass_fds=[SOCKET_FD],
            process_group=0,
            preexec_fn=partial(_take, theirs.fileno()),  # noqa: PLW1509 - it calls the kernel alone
        )
    except OSError as error:
        ours.close()
        raise start_error(str(plugin.path), error) from None
    finally:
        theirs.close()
    return ours, process


def kill_group(pid: int) -> None:
    """Ends what a launched plugin has started, and has left. Runtimes leave it, too, but a test must not."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _take(trunk: int) -> None:
    """In the child, gives the trunk its number, and lets it get all signals."""
    os.dup2(trunk, SOCKET_FD)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
