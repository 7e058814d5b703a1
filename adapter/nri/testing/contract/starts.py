"""Starts a plugin afresh for each situation, as a runtime or as a service does, and ends it."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any, NamedTuple, Protocol

from google.protobuf.message import Message

from nri import api
from nri.address import address
from nri.testing.contract.watched import Record, Watched
from nri.testing.flavour import Flavour
from nri.testing.launch import PluginFile, kill_group, spawn, undisturbed
from nri.testing.plugin import Late, Lost

GRACE = 12.0
"""Seconds for a plugin to end after SIGTERM. The adapter takes up to 10."""


class Running(Protocol):
    """The part of Popen that a running plugin needs."""

    def poll(self) -> int | None:
        """Returns None while the plugin runs."""

    def wait(self, timeout: float | None = None) -> Any:
        """Waits for its end, at most so many seconds. May raise TimeoutExpired if it has not ended."""

    def terminate(self) -> None:
        """Asks the plugin to end."""

    def kill(self) -> None:
        """Ends the plugin."""


class Launched(NamedTuple):
    """A plugin that the runtime launches."""

    file: PluginFile
    output: int | None = None
    state: str = ""

    @property
    def config(self) -> str:
        """The text that Configure passes."""
        return self.file.config


class External(NamedTuple):
    """A plugin that connects to a socket. `run` starts it; the plugin finds the socket by itself."""

    socket: Path
    run: Callable[[], Running]
    config: str = ""
    """Runtimes pass no text to such a plugin."""


Source = Launched | External


@dataclass
class Start:
    """One fresh start of the plugin."""

    plugin: Watched
    process: Running
    listener: socket.socket | None = None
    """Where a plugin that connects by itself may connect again."""


@dataclass
class Bench(Record):
    """What the situations share: the plugin, the runtime that is played, the container, and the times."""

    source: Source = field(kw_only=True)
    flavour: Flavour = field(kw_only=True)
    life: list[tuple[str, Message]] = field(kw_only=True)
    """The events of a pod with one container, in order."""
    timer: float = field(kw_only=True, default=0.0)
    """Seconds that a timer of the plugin gets for an update while a container runs."""

    @property
    def name(self) -> str:
        """The plugin's name, `NN-NAME` if the runtime launches it."""
        return self.source.file.name if isinstance(self.source, Launched) else "external"

    @contextmanager
    def start(self) -> Iterator[Start]:
        """Starts the plugin; it has only connected. Ends it, too.

        Raises Late or Lost if the plugin does not connect, and OSError if it cannot be started.
        """
        with ExitStack() as stack:
            if isinstance(self.source, Launched):
                with undisturbed():  # Ctrl-C finds no process that is not ended
                    trunk, launched = spawn(self.source.file, self.source.output, self.source.state)
                    start = Start(Watched(self, self.flavour, trunk, launched, self.name), launched)
                    stack.callback(self._end, start)
            else:
                start = self._external(stack, self.source)
                stack.callback(self._end, start)
            yield start

    def _end(self, start: Start) -> None:
        """Ends a plugin with SIGTERM first: one that is only killed or disconnected may try to join again."""
        try:
            if start.process.poll() is None:
                start.process.terminate()
                self.ignores_sigterm = not ends(start.process, 0 if self.ignores_sigterm else GRACE)
        finally:  # also at Ctrl-C
            start.plugin.close("the situation is over")
            kill(start.process)
            if start.plugin.process is not None:
                kill_group(start.plugin.process.pid)

    def _external(self, stack: ExitStack, source: External) -> Start:
        listener = stack.enter_context(listening(source.socket))
        process = source.run()
        try:
            trunk = accepted(listener, process, self.flavour.registration_timeout * self.patience)
            if trunk is None:
                raise Lost(f"the plugin has ended with exit code {process.poll()}, without a connection")
        except BaseException:
            kill(process)
            raise
        return Start(Watched(self, self.flavour, trunk, None, ""), process, listener)

    @contextmanager
    def joined_start(self) -> Iterator[Start]:
        """Starts the plugin and takes it into service."""
        with self.start() as start:
            start.plugin.register()
            start.plugin.configure(self.source.config)
            start.plugin.synchronize([api.SynchronizeRequest()])
            yield start

    @contextmanager
    def joined(self) -> Iterator[Watched]:
        """Starts the plugin and takes it into service; yields the plugin."""
        with self.joined_start() as start:
            yield start.plugin


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """Listens on a path; removes the socket at the end. Raises OSError."""
    with socket.socket(socket.AF_UNIX) as listener:
        with address(str(path)) as short:
            listener.bind(short)
        listener.listen()
        try:
            yield listener
        finally:
            path.unlink(missing_ok=True)


def accepted(listener: socket.socket, process: Running, timeout: float) -> socket.socket | None:
    """Returns the next connection, None if the process ends before. Raises Late."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if select.select([listener], [], [], 0.05)[0]:
            return listener.accept()[0]
        if process.poll() is not None:
            return None
    raise Late(f"no connection in {timeout:g} s")


def kill(process: Running) -> None:
    """Ends a process at once."""
    process.kill()
    process.wait()


def ends(process: Running, timeout: float) -> bool:
    """Waits for the end of a process; returns whether it has ended."""
    with suppress(TimeoutExpired):
        process.wait(timeout)
    return process.poll() is not None
