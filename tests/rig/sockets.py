"""Sockets at the paths of tests, which may be longer than a socket's address: TMPDIR may be long."""

from __future__ import annotations

import socket
from pathlib import Path

from nri.address import address


def bind(made: socket.socket, path: Path | str) -> None:
    with address(str(path)) as short:
        made.bind(short)


def connect(made: socket.socket, path: Path | str) -> None:
    with address(str(path)) as short:
        made.connect(short)
