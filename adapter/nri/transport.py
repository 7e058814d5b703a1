"""Where a plugin meets its runtime: the inherited socket or the runtime's own, and the simplest loop over it."""

from __future__ import annotations

import os
import re
import socket
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
    for what every runtime would refuse (pkg/api/plugin.go, CheckPluginName and CheckPluginIndex).
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


def connect(path: str = "", environ: Mapping[str, str] = os.environ) -> socket.socket:
    """Returns a socket connected to the runtime: the inherited one, unless `path` names another.

    Raises RegistrationError when there is none.
    """
    if not path and launched(environ):
        return _inherited(environ["NRI_PLUGIN_SOCKET"])
    path = path or DEFAULT_SOCKET
    trunk = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        trunk.connect(path)
    except OSError as error:
        trunk.close()
        raise RegistrationError(f"no runtime at {path}: {error.strerror or error}") from None
    return trunk


def _inherited(number: str) -> socket.socket:
    try:
        trunk = socket.socket(fileno=int(number))
        trunk.set_inheritable(False)  # it came inheritable; the programs we run must not hold it open
    except (ValueError, OSError) as error:
        raise RegistrationError(f"NRI_PLUGIN_SOCKET={number} is no socket: {error}") from None
    return trunk


def run(plugin: Plugin, name: str = "", idx: str = "", path: str = "") -> None:
    """Runs a plugin until the runtime closes the connection.

    Name, index and socket are found as `identity` and `connect` say. Raises RegistrationError and
    RemoteProtocolError.
    """
    who = identity(name, idx)
    with connect(path) as trunk:
        stub = Stub(plugin, who.name, who.idx, trunk.sendall)
        stub.register()
        while data := trunk.recv(READ_SIZE):
            stub.receive_data(data)
