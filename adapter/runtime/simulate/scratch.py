"""A temporary directory that Ctrl-C does not leave behind."""

from __future__ import annotations

import signal
from tempfile import TemporaryDirectory


class Scratch(TemporaryDirectory[str]):
    """A temporary directory. SIGINT waits while it is removed."""

    def __init__(self, prefix: str) -> None:
        """Takes what its name begins with."""
        super().__init__(prefix=prefix)

    def cleanup(self) -> None:
        """Removes the directory."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            super().cleanup()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
