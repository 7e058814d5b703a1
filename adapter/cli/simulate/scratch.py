"""A temporary directory that is removed even at Ctrl-C."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory


class Scratch(TemporaryDirectory[str]):
    """A temporary directory. SIGINT is blocked while the directory is made and while it is removed.

    It is never in the current directory, because programs in it are run. Python would use that if /tmp is full.
    """

    def __init__(self, prefix: str) -> None:
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
