"""Connects a plugin with its runtime through the inherited socket or the runtime's socket, and runs simple plugins."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from adapter.errors import AdapterError, RegistrationError
from adapter.nri.stub import Plugin, Stub
from adapter.sanitize import printable

DEFAULT_SOCKET = "/var/run/nri/nri.sock"
READ_SIZE = 64 << 10


class Identity(NamedTuple):
    """The name and the index (`idx`, two digits) under which a plugin registers."""

    name: str
    idx: str


def identity(name: str = "", idx: str = "", environ: Mapping[str, str] | None = None, program: str = "") -> Identity:
    """Returns the plugin's identity: from the arguments, else from the runtime's environment, else from the file name.

    A file name `NN-NAME` gives both, as in a runtime's plugin directory. Raises RegistrationError for an index that
    runtimes refuse (pkg/api/plugin.go, CheckPluginIndex).
    """
    environ = os.environ if environ is None else environ  # as a default, help() would print all variables
    base = os.path.basename(program or sys.argv[0])
    file_name = re.fullmatch(r"(\d\d)-(.+)", base)
    name = name or environ.get("NRI_PLUGIN_NAME", "") or (file_name[2] if file_name else base)
    idx = idx or environ.get("NRI_PLUGIN_IDX", "") or (file_name[1] if file_name else "00")
    if not re.fullmatch(r"[0-9]{2}", idx):
        raise RegistrationError(f"plugin index {idx!r}: two digits, 00 to 99")
    return Identity(name, idx)


def launched(environ: Mapping[str, str] | None = None) -> bool:
    """Whether a runtime launched this process with a connected socket."""
    return "NRI_PLUGIN_SOCKET" in (os.environ if environ is None else environ)


def connect(path: str = "", environ: Mapping[str, str] | None = None) -> int:
    """Returns a descriptor connected to the runtime: the inherited socket, or the socket at `path`.

    Raises RegistrationError when there is no runtime.
    """
    environ = os.environ if environ is None else environ
    if not path and launched(environ):
        return _inherited(environ["NRI_PLUGIN_SOCKET"])
    import socket  # 4 ms, not for a launched plugin  # noqa: PLC0415

    path = path or DEFAULT_SOCKET
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trunk:
            trunk.setblocking(False)  # a runtime that accepts nobody would let us wait
            trunk.connect(path)
            trunk.setblocking(True)
            return trunk.detach()
    except OSError as error:
        raise RegistrationError(f"no runtime at {path}: {error.strerror or error}") from None


def _inherited(number: str) -> int:
    try:
        fd = int(number)
        if not stat.S_ISSOCK(os.fstat(fd).st_mode):
            raise ValueError("not a socket")
        os.set_inheritable(fd, False)  # the programs that we run must not hold the socket open
    except (ValueError, OverflowError, OSError) as error:
        raise RegistrationError(f"NRI_PLUGIN_SOCKET={number}: {getattr(error, 'strerror', None) or error}") from None
    return fd


def run(plugin: Plugin, name: str = "", idx: str = "", path: str = "", words: Sequence[str] | None = None) -> None:
    """Runs a plugin as the whole program, until the runtime closes the connection.

    For `name`, `idx` and `path` see `identity` and `connect`. `words` are the program's arguments, by default those of
    the command line; in them, `-name NAME`, `-idx NN` and `-socket PATH` override the first three. Raises SystemExit:
    with a line of text when there is no runtime, or when the runtime refuses the plugin or breaks the protocol; with
    code 2 for other arguments; with code 130 for Ctrl-C.
    """
    words = sys.argv[1:] if words is None else words
    if words:
        name, idx, path = _flags(words, name, idx, path)
    try:
        _serve(plugin, identity(name, idx), connect(path))
    except AdapterError as error:
        sys.exit(printable(f"{os.path.basename(sys.argv[0])}: {error}"))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


def _flags(words: Sequence[str], name: str, idx: str, path: str) -> tuple[str, str, str]:
    import argparse  # not for a launched plugin  # noqa: PLC0415

    parser = argparse.ArgumentParser(allow_abbrev=False)
    option = parser.add_argument
    option("-name", "--name", default=name, help="name to register with")
    option("-idx", "--idx", metavar="NN", default=idx, help="index to register with, two digits")
    option("-socket", "--socket", metavar="PATH", default=path, help=f"the runtime's NRI socket ({DEFAULT_SOCKET})")
    options = parser.parse_args(words)
    return options.name, options.idx, options.socket


def _serve(plugin: Plugin, own: Identity, fd: int) -> None:
    import socket  # as above  # noqa: PLC0415

    with socket.socket(fileno=fd) as trunk, suppress(ConnectionError):
        stub = Stub(plugin, own.name, own.idx, trunk.sendall)
        stub.register()
        while data := trunk.recv(READ_SIZE):
            stub.receive_data(data)
