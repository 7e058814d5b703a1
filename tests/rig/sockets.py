"""Sockets at the paths of tests, which may be longer than a socket's address: TMPDIR may be long."""

from __future__ import annotations

import socket
from pathlib import Path

from nri.address import address

from .waiting import LIMIT


def bind(made: socket.socket, path: Path | str) -> None:
    with address(str(path)) as short:
        made.bind(short)


def listening(path: Path) -> socket.socket:
    """A server's socket, as a runtime's NRI socket, in the place of one before."""
    path.unlink(missing_ok=True)
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(LIMIT)
    bind(made, path)
    made.listen()
    return made


def connect(made: socket.socket, path: Path | str) -> None:
    with address(str(path)) as short:
        made.connect(short)
