"""The identity of a plugin, and its connection with the runtime: through an inherited socket or the runtime's."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Mapping
from typing import NamedTuple

from nri.address import address
from nri.errors import RegistrationError

DEFAULT_SOCKET = "/var/run/nri/nri.sock"
"""The socket at which runtimes listen for plugins by default."""


class Identity(NamedTuple):
    """The name and the index under which a plugin registers."""

    name: str
    """Letters, digits and `_.+-`."""
    idx: str
    """Two digits; plugins with lower ones are called first."""


def identity(name: str = "", idx: str = "", environ: Mapping[str, str] | None = None, program: str = "") -> Identity:
    """Returns the plugin's identity: from the arguments, else from the runtime's environment, else from the file name.

    A file name `NN-NAME` gives both, as in a runtime's plugin directory. Raises RegistrationError for an index that
    runtimes refuse (pkg/api/plugin.go, CheckPluginIndex).
    """
    environ = os.environ if environ is None else environ  # not a default value: help() would print all variables
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
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trunk, address(path) as short:
            trunk.setblocking(False)  # a runtime that accepts no connection would block us
            trunk.connect(short)
            trunk.setblocking(True)
            return trunk.detach()
    except OSError as error:
        raise RegistrationError(f"no runtime at {path}: {error.strerror or error}") from None


def _inherited(number: str) -> int:
    try:
        fd = int(number)
        if not stat.S_ISSOCK(os.fstat(fd).st_mode):
            raise ValueError("not a socket")
        os.set_inheritable(fd, False)  # the programs of the plugin must not hold the socket open
    except (ValueError, OverflowError, OSError) as error:
        raise RegistrationError(f"NRI_PLUGIN_SOCKET={number}: {getattr(error, 'strerror', None) or error}") from None
    return fd
