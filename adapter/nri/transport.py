"""Where a plugin meets its runtime: the inherited socket or the runtime's own, and the simplest loop over it."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Mapping
from typing import NamedTuple

from adapter.errors import RegistrationError
from adapter.nri.stub import Plugin, Stub

DEFAULT_SOCKET = "/var/run/nri/nri.sock"
READ_SIZE = 64 << 10


class Identity(NamedTuple):
    """What a plugin registers as: `name`, and `idx`, its index, of two digits."""

    name: str
    idx: str


def identity(name: str = "", idx: str = "", environ: Mapping[str, str] = os.environ, program: str = "") -> Identity:
    """Returns who the plugin is: as asked for, else as the runtime's environment says, else by its file's name.

    A file named `NN-NAME` gives both, as for the plugins in a runtime's plugin directory. Raises RegistrationError
    for an index that every runtime would refuse (pkg/api/plugin.go, CheckPluginIndex).
    """
    base = os.path.basename(program or sys.argv[0])
    of_file = re.fullmatch(r"(\d\d)-(.+)", base)
    name = name or environ.get("NRI_PLUGIN_NAME", "") or (of_file[2] if of_file else base)
    idx = idx or environ.get("NRI_PLUGIN_IDX", "") or (of_file[1] if of_file else "00")
    if not re.fullmatch(r"[0-9]{2}", idx):
        raise RegistrationError(f"plugin index {idx!r}: two digits, 00 to 99")
    return Identity(name, idx)


def launched(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a runtime launched this process and left it a connected socket."""
    return "NRI_PLUGIN_SOCKET" in environ


def connect(path: str = "", environ: Mapping[str, str] = os.environ) -> int:
    """Returns the descriptor of a socket connected to the runtime: the inherited one, unless `path` names another.

    Raises RegistrationError when there is none.
    """
    if not path and launched(environ):
        return _inherited(environ["NRI_PLUGIN_SOCKET"])
    import socket  # 4 ms that a launched plugin does not pay  # noqa: PLC0415

    path = path or DEFAULT_SOCKET
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trunk:
        try:
            trunk.connect(path)
        except OSError as error:
            raise RegistrationError(f"no runtime at {path}: {error.strerror or error}") from None
        return trunk.detach()


def _inherited(number: str) -> int:
    try:
        fd = int(number)
        if not stat.S_ISSOCK(os.fstat(fd).st_mode):
            raise ValueError("not a socket")
        os.set_inheritable(fd, False)  # it came inheritable; the programs we run must not hold it open
    except (ValueError, OverflowError, OSError) as error:
        raise RegistrationError(f"NRI_PLUGIN_SOCKET={number}: {getattr(error, 'strerror', None) or error}") from None
    return fd


def run(plugin: Plugin, name: str = "", idx: str = "", path: str = "") -> None:
    """Runs a plugin until the runtime closes the connection.

    Name, index and socket are found as `identity` and `connect` say. Raises RegistrationError and
    RemoteProtocolError.
    """
    who = identity(name, idx)
    trunk = connect(path)
    try:
        stub = Stub(plugin, who.name, who.idx, lambda data: _write(trunk, data))
        stub.register()
        while data := os.read(trunk, READ_SIZE):
            stub.receive_data(data)
    except ConnectionError:
        return
    finally:
        os.close(trunk)


def _write(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
