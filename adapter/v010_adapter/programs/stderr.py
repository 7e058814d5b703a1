"""The lines of a program's stderr, bounded for the log."""

from __future__ import annotations

from collections.abc import Callable

MAX_SIZE = 64 << 10
"""Maximum bytes that are logged for one run."""
MAX_LINES = 500
"""Maximum lines that are logged for one run: no event is answered while lines are written."""
MAX_LINE = 4 << 10
"""Maximum bytes of a line; a longer line is broken."""


class Lines:
    """Passes lines on to `on_line`, as far as the limits allow."""

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self.on_line = on_line
        self.size = 0
        """The bytes so far, logged or not."""
        self._rest = b""
        self._count = 0

    def add(self, chunk: bytes) -> None:
        """Takes bytes; logs the lines that are complete with them."""
        room = MAX_SIZE - self.size
        self.size += len(chunk)
        if room < 0 or self._count > MAX_LINES:
            return
        *lines, self._rest = (self._rest + chunk[:room]).split(b"\n")
        if len(self._rest) > MAX_LINE:
            lines.append(self._rest)
            self._rest = b""
        for line in lines:
            if self._count <= MAX_LINES:
                self._log(line)
        if self.size > MAX_SIZE and self._count <= MAX_LINES:
            self.on_line(f"(more than {MAX_SIZE} bytes on stderr: the rest is not logged)")

    def end(self) -> None:
        """Logs a last line without an end."""
        self._log(self._rest)

    def _log(self, line: bytes) -> None:
        for start in range(0, len(line), MAX_LINE):
            text = line[start : start + MAX_LINE].decode("utf-8", "backslashreplace").rstrip()
            if not text:
                continue
            self._count += 1
            if self._count <= MAX_LINES:
                self.on_line(text)
            elif self._count == MAX_LINES + 1:
                self.on_line(f"(more than {MAX_LINES} lines on stderr: the rest is not logged)")
