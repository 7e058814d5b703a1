"""Serves a plugin as a whole program, or on asyncio's loop; joins again when the connection is lost."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import current_thread, main_thread
from typing import TYPE_CHECKING

from nri import events
from nri.errors import NRIError
from nri.output import output_to_syslog
from nri.plugin import Plugin
from nri.session import Joining, Session
from nri.text import printable
from nri.transport import DEFAULT_SOCKET, Identity, identity

if TYPE_CHECKING:
    from nri.holding.holds import Holds
    from nri.metrics import Metrics

READ_SIZE = 64 << 10
HANDLERS = (*(call.handler for call in events.CALLS.values()), "on_join", "on_disconnect")
CO_COROUTINE = 0x80
"""The flag of an `async def` function's code. Importing `inspect`, which has it too, takes milliseconds."""


def run(
    plugin: Plugin,
    name: str = "",
    idx: str = "",
    path: str = "",
    words: Sequence[str] | None = None,
    *,
    reconnect: bool = False,
    metrics: str = "",
) -> None:
    """Runs a plugin as the whole program, until the runtime closes the connection.

    For `name`, `idx` and `path` see `identity` and `connect`. `words` are the program's arguments, by default those of
    the command line; in them, `-name NAME`, `-idx NN` and `-socket PATH` override the first three. A plugin with an
    `async def` handler or hook runs on asyncio's loop, as with `serve`.

    With `reconnect`, it waits for a missing runtime, joins again 0.1 to 2 s after the connection is lost, and returns
    at SIGTERM. A plugin that a runtime has launched does not join again, because the next runtime launches its own
    process. What such a plugin prints goes to syslog: see `output_to_syslog`.

    `metrics` is `ADDRESS:PORT`: a thread serves /metrics, /healthz and /readyz there. That needs the package
    prometheus-client, the extra `metrics`.

    Raises SystemExit: with a line of text if there is no runtime, if the runtime refuses the plugin or breaks the
    protocol, or if there can be no metrics; with code 2 for unknown arguments; with code 130 at Ctrl-C.
    """
    words = sys.argv[1:] if words is None else words
    if words:
        name, idx, path = _flags(words, name, idx, path)
    try:
        output_to_syslog(name, idx)
        if _has_coroutines(plugin):
            import asyncio  # only for those who use it  # noqa: PLC0415

            asyncio.run(serve(plugin, name, idx, path, reconnect=reconnect, metrics=metrics))
        else:
            own = identity(name, idx)
            with _served(metrics, own) as counted, _holding(plugin, own) as holds:
                _serve(plugin, own, Joining(path, reconnect, counted, holds))
    except NRIError as error:
        sys.exit(printable(f"{os.path.basename(sys.argv[0])}: {error}"))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


async def serve(
    plugin: Plugin,
    name: str = "",
    idx: str = "",
    path: str = "",
    *,
    reconnect: bool = False,
    metrics: str = "",
) -> None:
    """Serves a runtime on asyncio's running loop, until it closes the connection; handlers may be `async def`.

    For `name`, `idx` and `path` see `identity` and `connect`, for `reconnect` and `metrics` see `run`. If a coroutine
    has not answered 0.1 s before the deadline of its call (`Plugin.reserve`), the runtime gets an error that names the
    handler, and the coroutine continues. When `serve` ends, is cancelled, or gets SIGTERM, all coroutines are
    cancelled. `serve` returns at SIGTERM, and raises SystemExit with code 130 at Ctrl-C, unless the program handles
    these signals itself.

    Raises RegistrationError if there is no runtime or if the runtime refuses the plugin, RemoteProtocolError if the
    runtime breaks the protocol, NRIError if there can be no metrics.
    """
    from nri import asynchronous  # the module imports asyncio  # noqa: PLC0415

    own = identity(name, idx)
    with _served(metrics, own) as counted, _holding(plugin, own) as holds:
        await asynchronous.serve(plugin, own, Joining(path, reconnect, counted, holds))


@contextmanager
def _served(listen: str, own: Identity) -> Iterator[Metrics | None]:
    """Serves the metrics of a plugin inside, if an address is given."""
    if not listen:
        yield None
        return
    from nri.metrics import Metrics  # 20 ms, and a package that others do not need  # noqa: PLC0415

    metrics = Metrics(listen, f"{own.idx}-{own.name}")
    try:
        yield metrics
    finally:
        metrics.close()


@contextmanager
def _holding(plugin: Plugin, own: Identity) -> Iterator[Holds | None]:
    """Ends the holds that are left of a plugin that was killed, and those of this one at the end of the block."""
    if not plugin.holds:
        yield None
        return
    from nri.holding.holds import Holds, directory_of  # only for those who hold  # noqa: PLC0415

    holds = Holds(plugin.hold_directory or directory_of(own.name, own.idx))
    try:
        holds.end_left()
        yield holds
    finally:
        holds.close()


def _serve(plugin: Plugin, own: Identity, joining: Joining) -> None:
    with _until_sigterm(joining):
        while True:
            trunk = joining.connect()
            if trunk is not None and not joining.goes_on(_serve_connection(plugin, own, trunk, joining)):
                return
            time.sleep(joining.pause())


def _serve_connection(plugin: Plugin, own: Identity, fd: int, joining: Joining) -> Session:
    import socket  # 4 ms, not for a launched plugin that has not connected yet  # noqa: PLC0415

    with socket.socket(fileno=fd) as trunk:

        def write(data: bytes) -> None:
            with suppress(OSError):  # reading notices the end of the connection
                trunk.sendall(data)

        session = Session(plugin, own, write, joining.metrics, joining.holds)
        with session.until_lost():
            while data := trunk.recv(READ_SIZE):
                session.receive_data(data)
    return session


class _Ended(BaseException):
    """SIGTERM has come."""


@contextmanager
def _until_sigterm(joining: Joining) -> Iterator[None]:
    """Inside, SIGTERM ends the block of a plugin that joins again. A program's own handler of SIGTERM is kept."""
    import signal  # noqa: PLC0415

    is_free = current_thread() is main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if not joining.again or not is_free:
        yield
        return

    def end(*_: object) -> None:
        raise _Ended("SIGTERM")

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    except _Ended:
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _has_coroutines(plugin: Plugin) -> bool:
    codes = (getattr(getattr(plugin, name, None), "__code__", None) for name in HANDLERS)
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
