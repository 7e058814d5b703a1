"""A temporary directory that Ctrl-C does not leave behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory


class Scratch(TemporaryDirectory[str]):
    """A temporary directory. SIGINT waits while it is made and while it is removed.

    It is never in the current directory, which is Python's choice when /tmp is full: programs in it are run.
    """

    def __init__(self, prefix: str) -> None:
        """Takes what its name begins with. Raises OSError if it cannot be made."""
        with _undisturbed():
            super().__init__(prefix=prefix, dir=os.environ.get("TMPDIR") or "/tmp")  # noqa: S108 - sticky

    def cleanup(self) -> None:
        """Removes the directory."""
        with _undisturbed():
            super().cleanup()


@contextmanager
def _undisturbed() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
