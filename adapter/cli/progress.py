"""Tells people what takes long."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from adapter.base.sanitize import show

QUIET_TIME = 2.0
"""Seconds after which people want to know."""


@contextmanager
def announce_if_slow(doing: str) -> Iterator[None]:
    """Prints what is done inside, once, if it takes longer than QUIET_TIME and a terminal shows stderr."""
    timer = threading.Timer(QUIET_TIME, show, (f"{doing} ...",), {"out": sys.stderr})
    timer.daemon = True
    if sys.stderr.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
