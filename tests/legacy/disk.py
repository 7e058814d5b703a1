"""A disk for tests of conf.json: a file whose times and status a test decides."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

import adapter.host.paths
import adapter.legacy.config
from adapter.legacy.config import ConfigFile

TYPES = '{"version":"0.1","plugins":[%s]}'
SECOND = 1_000_000_000
WRITTEN = 1_700_000_000 * SECOND
"""When files in these tests were written, for they are given that time."""


def naming(*types: str) -> str:
    """A conf.json with these plugins."""
    return TYPES % ",".join(f'{{"type":"{type_}"}}' for type_ in types)


class Disk(NamedTuple):
    """A conf.json, the clock that it is looked at by, and the reads there were."""

    path: Path
    conf: ConfigFile
    now: list[int]
    reads: list[str]

    def write(self, text: str | bytes) -> None:
        """Rewrites it in place."""
        self.path.write_bytes(text.encode() if isinstance(text, str) else text)

    def types(self) -> list[str]:
        return [entry.type for entry in self.conf.current().entries]

    def later(self, nanoseconds: int = SECOND) -> None:
        """Lets time pass, beginning from the file's own time."""
        status = self.path.stat()
        self.now[0] = max(self.now[0], status.st_mtime_ns, status.st_ctime_ns) + nanoseconds


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Disk:
    """A disk on which the clock stands still unless a test moves it: everything happens within one tick."""
    caplog.set_level(logging.INFO)
    now = [0]
    reads: list[str] = []
    real = adapter.legacy.config.read

    def read(path: str) -> tuple[bytes, os.stat_result]:
        reads.append(path)
        return real(path)

    monkeypatch.setattr(adapter.legacy.config, "read", read)
    path = tmp_path / "conf.json"
    return Disk(path, ConfigFile(str(path), lambda: now[0]), now, reads)


def pretend(monkeypatch: pytest.MonkeyPatch, **functions: Any) -> None:
    """Gives the modules that look at the file other functions of `os`, and nobody else."""
    for module in (adapter.legacy.config, adapter.host.paths):
        monkeypatch.setattr(module, "os", SimpleNamespace(**{**vars(os), **functions}))


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def infos(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
