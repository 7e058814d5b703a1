"""Addresses of unix sockets: the kernel takes 107 bytes (unix(7), sun_path), and a path may be longer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

MAX_ADDRESS = 107


@contextmanager
def address(path: str) -> Iterator[str]:
    """Yields an address for a path to bind or to connect: a longer one is named by its directory. Raises OSError."""
    if len(os.fsencode(path)) <= MAX_ADDRESS:
        yield path
        return
    above, name = os.path.split(path)
    fd = os.open(above, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{name}"
    finally:
        os.close(fd)
