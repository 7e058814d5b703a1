"""Messages about slow steps, for people at a terminal."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from adapter.base.sanitize import show

QUIET_TIME = 2.0
"""Seconds that a step may take without a message."""


@contextmanager
def announce_if_slow(doing: str) -> Iterator[None]:
    """Prints the step once, if it takes longer than QUIET_TIME and stderr is a terminal."""
    timer = threading.Timer(QUIET_TIME, show, (f"{doing} ...",), {"out": sys.stderr})
    timer.daemon = True
    if sys.stderr.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
