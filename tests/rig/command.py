"""The command `v010-adapter`, run in this process on files of a folder."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from v010_adapter.cli import command_line as cli

from .processes import restored


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


class Command:
    """A folder, and what the command has printed there last."""

    code = 0
    out = err = ""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def write(self, name: str, text: str | bytes | object) -> Path:
        """Writes a text, or an object as JSON."""
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        given = text if isinstance(text, str | bytes) else json.dumps(text)
        file.write_bytes(given if isinstance(given, bytes) else given.encode())
        return file

    def run(self, *words: object) -> int:
        """Returns the exit code; `out` and `err` are what it prints."""
        with restored():
            self.code = cli.main([str(word) for word in words])
        self.out, self.err = self._capsys.readouterr()
        return self.code

    def told(self) -> Any:
        """What it has printed as JSON."""
        return json.loads(self.out)
