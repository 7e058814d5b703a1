"""Hook files for tests of directories, and what is in force of them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from adapter.hooks.directory import Directories
from adapter.hooks.facts import Facts
from adapter.hooks.match import Matcher

PROGRAM = "/bin/sh"
NOBODY = Facts({}, None, False)


def text(version: str | int = 1, program: str = PROGRAM) -> bytes:
    """A good hook file; its version is an argument of the hook."""
    hook = {"path": program, "args": [program, str(version)]}
    return json.dumps({"version": "1.0.0", "hook": hook, "when": {"always": True}, "stages": ["prestart"]}).encode()


def later() -> int:
    """A clock by which no file has changed within the last second."""
    return time.time_ns() + 2_000_000_000


def opened(*arguments: Any, **options: Any) -> Directories:
    """Directories that have been read."""
    directories = Directories(*arguments, **options)
    directories.current()
    return directories


def hooks(matcher: Matcher) -> dict[str, str]:
    """The versions of the hooks, by file."""
    return {decision.named.file: decision.named.hook.args[1] for decision in matcher.explain(NOBODY)}


def in_force(directories: Directories) -> dict[str, str]:
    return hooks(directories.current())


def problems(directories: Directories) -> dict[str, str]:
    """The reasons of what is bad, by base name."""
    directories.current()
    return {os.path.basename(path): reason for path, reason in directories.problems}


def replace(path: Path, content: bytes) -> None:
    """Puts a file in place in one step."""
    new = path.with_name(path.name + ".new")
    new.write_bytes(content)
    new.rename(path)


def relink(path: Path, target: str | Path) -> None:
    """Points a symbolic link elsewhere in one step."""
    new = path.with_name(path.name + ".new")
    new.symlink_to(target)
    new.rename(path)


class Reads:
    """Notes the files that are opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened: list[str] = []
        really = os.open

        def note(path: str, *arguments: Any, **options: Any) -> int:
            self.opened.append(os.path.basename(path))
            return really(path, *arguments, **options)

        monkeypatch.setattr(os, "open", note)
