"""The state of running adapters: each tells it on a socket in its state directory; the command `status` asks there."""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapter.errors import ConfigError
from adapter.listener import Listener
from adapter.loop import Loop
from adapter.sanitize import printable

if TYPE_CHECKING:
    from argparse import ArgumentParser

PREFIX = "status-"
PATIENCE = 2.0
"""Seconds in which an adapter must answer."""
LARGEST = 1 << 20
"""Bytes of an answer."""
INTERVAL = 2.0
"""Seconds between two looks with `-watch`."""
CLEAR = "\x1b[H\x1b[2J"
"""Makes a terminal show nothing but what follows."""
HEALTHY, FAULTS, NOBODY = 0, 1, 3


class StatusSocket:
    """Tells everybody who connects how the adapter is, as one JSON object."""

    def __init__(self, loop: Loop, directory: str, describe: Callable[[], dict[str, Any]]) -> None:
        """Takes the state directory, and what returns the state. Raises OSError."""
        self._describe = describe
        os.makedirs(directory, mode=0o700, exist_ok=True)
        with _sockets(directory) as paths:
            for path in paths:
                with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as other:
                    if other.connect_ex(os.fspath(path)) == errno.ECONNREFUSED:
                        path.unlink(missing_ok=True)  # its adapter was killed
        self._path = os.path.join(directory, f"{PREFIX}{os.urandom(4).hex()}")
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            with _short(directory) as short:
                listening.bind(f"{short}/{os.path.basename(self._path)}")
            os.chmod(self._path, 0o600)
            listening.listen()
        except OSError:
            listening.close()
            raise
        self._listener = Listener(loop, listening, self._answer)

    def _answer(self, asker: socket.socket) -> None:
        with asker, suppress(OSError):  # the asker has gone
            asker.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LARGEST)
            asker.setblocking(False)
            asker.send(json.dumps(self._describe()).encode())

    def close(self) -> None:
        """Removes the socket."""
        self._listener.close()
        with suppress(OSError):
            os.unlink(self._path)


def ask(directory: str) -> Iterator[dict[str, Any]]:
    """Yields what the adapters with a state directory tell; one that does not answer is `{"faults": [...]}`."""
    with _sockets(directory) as paths:
        for path in paths:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
                asked.settimeout(PATIENCE)
                try:
                    asked.connect(os.fspath(path))
                    yield json.loads(b"".join(iter(lambda: asked.recv(1 << 16), b"")))
                except (OSError, ValueError) as error:
                    if not isinstance(error, ConnectionRefusedError):  # else its adapter was killed
                        yield {"faults": [f"{directory}/{path.name}: the adapter does not answer: {error}"]}


@contextmanager
def _short(directory: str) -> Iterator[str]:
    """Gives a short name of a directory: the path of a socket has 107 bytes at most."""
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)


@contextmanager
def _sockets(directory: str) -> Iterator[list[Path]]:
    """Gives the paths of the sockets in a state directory; none without such a directory. Raises OSError."""
    if not os.path.isdir(directory):
        yield []
        return
    with _short(directory) as short:
        yield [Path(short, name) for name in sorted(os.listdir(short)) if name.startswith(PREFIX)]


def parser() -> ArgumentParser:
    """Returns the parser of the command's arguments."""
    from adapter import arguments  # noqa: PLC0415 - the daemon needs this module, and not argparse

    text = "Exit codes: 0 all is well, 1 faults, 2 unusable arguments or configuration, 3 no adapter runs."
    parser = arguments.parser("status", "Shows how the running adapters are.", text)
    option = parser.add_argument
    option("-name", "--name", default="v010-adapter", help="the name that the adapter registers (v010-adapter)")
    option("-directory", "--directory", metavar="DIR", default="", help="the state directory (/run/nri-NAME)")
    option("-watch", "--watch", action="store_true", help=f"look again every {INTERVAL:g} s, until Ctrl-C")
    arguments.add_config(parser)
    arguments.add_output(parser)
    return parser


def main(words: Sequence[str]) -> int:
    """Runs the command; returns 0 if all is well, 1 with faults, 3 if there is no adapter. Raises ConfigError."""
    from adapter import settings  # noqa: PLC0415 - the daemon needs this module, and not settings

    options = parser().parse_args(words)
    configured, errors = settings.read(options.config)
    if errors and options.config:
        raise errors[0]
    directory = options.directory or settings.state_directory(configured, options.name)
    if not options.watch:
        return _show(directory, options.output)
    code = HEALTHY
    with suppress(KeyboardInterrupt):
        while True:
            if sys.stdout.isatty():
                print(CLEAR, end="")
            code = _show(directory, options.output)
            time.sleep(INTERVAL)
    return code


def _show(directory: str, output: str) -> int:
    """Prints how the adapters are; returns the exit code. Raises ConfigError."""
    try:
        adapters = list(ask(directory))
    except OSError as error:
        raise ConfigError(directory, error.strerror or str(error)) from None
    if output == "json":
        text = json.dumps({"directory": directory, "adapters": adapters}, indent=2)
    else:
        text = "\n\n".join(map(_text, adapters))
    if text:
        print(text, flush=True)
    if not adapters:
        _say_where_to_look(directory)
        return NOBODY
    return FAULTS if any(adapter["faults"] for adapter in adapters) else HEALTHY


def _say_where_to_look(directory: str) -> None:
    print(
        f"no adapter runs with the state directory {directory}. Where to look:",
        "  the link in /opt/nri/plugins, or the service that starts the adapter",
        "  the adapter's log, in syslog or the journal:  journalctl -t v010-adapter",
        "  the runtime's log: does it list the plugin?",
        "  v010-adapter check",
        sep="\n",
        file=sys.stderr,
    )


def _text(adapter: dict[str, Any]) -> str:
    """Returns the lines of one adapter. After an upgrade of the command, an older adapter may still run."""
    try:
        return "\n".join(_lines(adapter))
    except (KeyError, TypeError):
        running = printable(f"v010-adapter {adapter.get('version')}, pid {adapter.get('pid')}")
        return f"{running}: another version than this command's; `-o json` shows its answer"


def _lines(adapter: dict[str, Any]) -> Iterator[str]:
    """Yields the lines of one adapter."""
    if "pid" in adapter:
        runtime = adapter["runtime"]
        part = "serves the events" if adapter["owner"] else "waits: another adapter serves the events"
        if adapter["state"] != "joined":
            part = "serves no events"
        yield f"v010-adapter {adapter['version']}, pid {adapter['pid']}, since {_shown(adapter['started'])}: {part}"
        if runtime["name"]:
            yield f"  runtime  {runtime['name']} {runtime['version']} (NRI {runtime['nri']}), {adapter['state']}"
        if adapter["joins"]:
            yield f"  joined   {_shown(adapter['joined'])}, joins so far: {adapter['joins']}"
        yield f"  owed     {adapter['owed']} deletes"
        stalls = adapter["stalls"]
        yield f"  loop     {stalls['count']} stalls, longest turn {stalls['longest'] * 1000:.0f} ms"
        if adapter["events"]:
            yield _row("EVENT", "ANSWERS", "", "LATE", "", "P50 ms", "P99 ms")
        for name, event in adapter["events"].items():
            yield _row(name, sum(event["times"]["counts"]), "", event["late"], "", *_quantiles(event))
        if adapter["programs"]:
            yield _row("PROGRAM", "RUNS", "FAILED", "LATE", "KILLED", "P50 ms", "P99 ms")
        for name, account in adapter["programs"].items():
            counts = (account[key] for key in ("runs", "failures", "late", "killed"))
            yield _row(name, *counts, *_quantiles(account))
            if account["last_error"]:
                yield f"      {_shown(account['failed_at'])}  {printable(account['last_error'])}"
        if adapter["hooks"]:
            yield _row("HOOK", "CONTAINERS")
        yield from (_row(file, number) for file, number in adapter["hooks"].items())
    yield from (f"  FAULT    {printable(fault)}" for fault in adapter["faults"])


def _row(name: str, *columns: object) -> str:
    return f"  {name:40}" + "".join(f" {column!s:>8}" for column in columns)


def _quantiles(times: dict[str, Any]) -> list[str]:
    """Returns p50 and p99 in milliseconds."""
    return ["-" if times[key] is None else f"{times[key] * 1000:.2f}" for key in ("p50", "p99")]


def _shown(moment: float) -> str:
    """Returns a moment in seconds since the epoch as RFC 3339 has it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))
