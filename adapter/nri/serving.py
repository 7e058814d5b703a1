"""Serves a plugin as a whole program, or on asyncio's loop; joins again when the connection is lost."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import current_thread, get_ident, main_thread
from typing import Any

from adapter.errors import AdapterError, CallError, RegistrationError
from adapter.nri import events, runtimes
from adapter.nri.plugin import Context, Plugin
from adapter.nri.stub import Stub, batches
from adapter.nri.transport import DEFAULT_SOCKET, Identity, connect, identity, launched
from adapter.nri.updating import Updating
from adapter.proto import nri_pb2 as api
from adapter.sanitize import printable
from adapter.wire import Request

log = logging.getLogger(__name__)

READ_SIZE = 64 << 10
FIRST_WAIT, LONGEST_WAIT = 0.1, 2.0
"""Seconds between two attempts to join: each wait is twice the one before."""
GONE = "the connection with the runtime is gone: nobody knows which updates it has made"
HANDLERS = (
    "configure",
    "synchronize",
    "shutdown",
    "on_join",
    "on_disconnect",
    *(call.handler for call in events.BY_EVENT.values()),
)
CO_COROUTINE = 0x80
"""The flag of an `async def` function's code; `inspect`, which names it, takes milliseconds to import."""


def run(
    plugin: Plugin,
    name: str = "",
    idx: str = "",
    path: str = "",
    words: Sequence[str] | None = None,
    *,
    reconnect: bool = False,
) -> None:
    """Runs a plugin as the whole program, until the runtime closes the connection.

    For `name`, `idx` and `path` see `identity` and `connect`. `words` are the program's arguments, by default those of
    the command line; in them, `-name NAME`, `-idx NN` and `-socket PATH` override the first three. A plugin with an
    `async def` handler or hook runs on asyncio's loop, as with `serve`.

    With `reconnect` it waits for a runtime that is not there, and joins again when the connection is lost, after 0.1 to
    2 s; it returns at SIGTERM. A plugin that a runtime has launched does not join again: the next runtime launches its
    own.

    Raises SystemExit: with a line of text when there is no runtime, or when the runtime refuses the plugin or breaks
    the protocol; with code 2 for other arguments; with code 130 for Ctrl-C.
    """
    words = sys.argv[1:] if words is None else words
    if words:
        name, idx, path = _flags(words, name, idx, path)
    try:
        if _has_coroutines(plugin):
            import asyncio  # only for those who use it  # noqa: PLC0415

            asyncio.run(serve(plugin, name, idx, path, reconnect=reconnect))
        else:
            _serve(plugin, identity(name, idx), Joining(path, reconnect))
    except AdapterError as error:
        sys.exit(printable(f"{os.path.basename(sys.argv[0])}: {error}"))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


async def serve(plugin: Plugin, name: str = "", idx: str = "", path: str = "", *, reconnect: bool = False) -> None:
    """Serves a runtime on asyncio's running loop, until it closes the connection; handlers may be `async def`.

    For `name`, `idx` and `path` see `identity` and `connect`, for `reconnect` see `run`. A coroutine that has not
    answered 0.1 s before the deadline of its call (`Plugin.reserve`) is answered for, with an error that names it, and
    goes on. At the end of `serve`, also when it is cancelled or SIGTERM comes, the coroutines under way are cancelled.
    SIGTERM makes it return, unless the program handles that signal itself.

    Raises RegistrationError when there is no runtime or when the runtime refuses the plugin, RemoteProtocolError when
    the runtime breaks the protocol.
    """
    from adapter.nri import asynchronous  # the module imports asyncio  # noqa: PLC0415

    await asynchronous.serve(plugin, identity(name, idx), Joining(path, reconnect))


class Joining:
    """How a plugin joins its runtime: once, or again and again."""

    def __init__(self, path: str, reconnect: bool) -> None:
        self._path = path
        self.again = reconnect and (bool(path) or not launched())
        """Whether the plugin joins again."""
        self._wait = FIRST_WAIT
        self._reason = ""
        """Why the plugin cannot join; the log has it once."""

    def connect(self) -> int | None:
        """Returns a connected descriptor, None if the runtime is to be waited for. Raises RegistrationError."""
        try:
            return connect(self._path)
        except RegistrationError as error:
            if not self.again:
                raise
            self._tell(str(error))
            return None

    def goes_on(self, had_joined: bool, error: AdapterError | None) -> bool:
        """Takes how a connection has ended; returns whether the plugin joins again. Raises the error if not."""
        if error is not None and (not self.again or isinstance(error, RegistrationError)):
            raise error
        if had_joined:
            self._wait, self._reason = FIRST_WAIT, ""
        if self.again:
            self._tell(str(error or "the runtime has closed the connection"))
        return self.again

    def pause(self) -> float:
        """Returns the seconds to wait before the next attempt."""
        wait, self._wait = self._wait, min(2 * self._wait, LONGEST_WAIT)
        return wait

    def _tell(self, reason: str) -> None:
        if not self._reason:
            self._reason = reason
            log.warning("%s: the plugin keeps trying to join", printable(reason))


class Session(Stub):
    """A connection of `run` or `serve`: it names handlers that are late, and asks for updates."""

    def __init__(self, plugin: Plugin, own: Identity, write: Callable[[bytes], object]) -> None:
        """Takes the plugin, its name and index, and what writes to the trunk. Made in the thread that serves."""
        super().__init__(plugin, own.name, own.idx, write)
        self.has_joined = False
        """Whether `on_join` was called."""
        self._runtime = runtimes.Runtime()
        self._is_gone = False
        self._server = get_ident()
        self._updating: set[Updating] = set()

    def hook(self, name: str, *arguments: Any) -> Any:
        """Calls a hook of the plugin; logs its error."""
        try:
            return self._run(name, *arguments)
        except Exception:
            log.exception("%s has failed", name)

    def lost(self, error: BaseException | None) -> None:
        """Ends the session: the connection is gone, for this error if it was not the runtime that closed it."""
        self._plugin.ask_for_updates = None
        self._is_gone = True
        for updating in tuple(self._updating):
            updating.fail(AdapterError(GONE))
        reason = "" if error is None else str(error) or type(error).__name__
        if self.has_joined:
            self.hook("on_disconnect", reason)

    def _run(self, handler: str, *arguments: Any) -> Any:
        try:
            return super()._run(handler, *arguments)
        finally:
            context = arguments[-1] if arguments else None
            if isinstance(context, Context) and context.remaining() < 0:
                text = "%s has taken %.1f s, longer than the runtime waits, which may drop the plugin"
                log.warning(text, handler, context.elapsed())

    def _configure(self, request: api.ConfigureRequest, context: Context) -> Any:
        self._runtime = runtimes.of(request)
        return super()._configure(request, context)

    def _answer(self, request: Request, context: Context, reply: Any, error: Exception | None = None) -> bool:
        is_reply = super()._answer(request, context, reply, error)
        begins = is_reply and context.method == "Synchronize" and self.synchronized and not self.has_joined
        if begins and not self._is_gone:  # a late answer must not take the place of the next connection
            self.has_joined = True
            self._plugin.ask_for_updates = self._ask
            self.hook("on_join")
        return is_reply

    def _ask(self, updates: Iterable[api.ContainerUpdate]) -> Updating:
        if reason := self._runtime.refuses_updates:
            raise AdapterError(reason)
        calls = list(batches(updates))
        updating = Updating(len(calls), self._server)

        def answered(failed: list[api.ContainerUpdate], error: CallError | None) -> None:
            updating.answered(failed, error)
            if updating.done:
                self._updating.discard(updating)

        if calls:
            self._updating.add(updating)
        for batch in calls:
            self.update_containers(batch, answered)
        if self._is_gone:  # since the beginning of this method
            updating.fail(AdapterError(GONE))
        return updating


def _serve(plugin: Plugin, own: Identity, joining: Joining) -> None:
    """Serves a runtime in this thread, one connection after the other."""
    with _until_sigterm(joining):
        while True:
            trunk = joining.connect()
            if trunk is not None and not joining.goes_on(*_serve_connection(plugin, own, trunk)):
                return
            time.sleep(joining.pause())


def _serve_connection(plugin: Plugin, own: Identity, fd: int) -> tuple[bool, AdapterError | None]:
    """Serves one connection until it is gone; returns whether the plugin had joined, and the error that ended it."""
    import socket  # 4 ms, not for a launched plugin that has not connected yet  # noqa: PLC0415

    with socket.socket(fileno=fd) as trunk:

        def write(data: bytes) -> None:
            with suppress(OSError):  # the end of the connection is noticed by reading
                trunk.sendall(data)

        session = Session(plugin, own, write)
        error: AdapterError | None = None
        try:
            session.register()
            while data := trunk.recv(READ_SIZE):
                session.receive_data(data)
        except ConnectionError:
            pass
        except AdapterError as reason:
            error = reason
        except BaseException as end:
            session.lost(end)
            raise
        session.lost(error)
    return session.has_joined, error


class _Ended(BaseException):
    """SIGTERM has come."""


@contextmanager
def _until_sigterm(joining: Joining) -> Iterator[None]:
    """A block that SIGTERM ends if the plugin would join for ever, unless the program handles that signal itself."""
    if not joining.again or not is_sigterm_free():
        yield
        return
    import signal  # noqa: PLC0415

    def end(*_: object) -> None:
        raise _Ended("SIGTERM")

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    except _Ended:
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def is_sigterm_free() -> bool:
    """Whether SIGTERM is for us to handle: this is the main thread, and the program does not handle the signal."""
    import signal  # noqa: PLC0415

    return current_thread() is main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def _has_coroutines(plugin: Plugin) -> bool:
    """Whether a handler or hook is `async def`."""
    codes = (getattr(getattr(plugin, name), "__code__", None) for name in HANDLERS)
    return any(code is not None and code.co_flags & CO_COROUTINE for code in codes)


def _flags(words: Sequence[str], name: str, idx: str, path: str) -> tuple[str, str, str]:
    import argparse  # not for a launched plugin  # noqa: PLC0415

    parser = argparse.ArgumentParser(allow_abbrev=False)
    option = parser.add_argument
    option("-name", "--name", default=name, help="name to register with")
    option("-idx", "--idx", metavar="NN", default=idx, help="index to register with, two digits")
    option("-socket", "--socket", metavar="PATH", default=path, help=f"the runtime's NRI socket ({DEFAULT_SOCKET})")
    options = parser.parse_args(words)
    return options.name, options.idx, options.socket
