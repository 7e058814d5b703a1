"""Hook files for tests of directories, and what is in force of them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import inotify_simple  # type: ignore[import-untyped]
import pytest

from adapter.hooks.directory import Directories
from adapter.hooks.match import Facts, Matcher

PROGRAM = "/bin/sh"
NOBODY = Facts({}, None, False)


def text(version: str | int = 1, program: str = PROGRAM) -> bytes:
    """A good hook file; its version is an argument of the hook."""
    hook = {"path": program, "args": [program, str(version)]}
    return json.dumps({"version": "1.0.0", "hook": hook, "when": {"always": True}, "stages": ["prestart"]}).encode()


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
    """Counts the files that are opened, and can forbid to look at any."""

    LOOKS: Sequence[str] = ("stat", "lstat", "listdir", "scandir", "readlink", "open")

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.opened: list[str] = []
        really = os.open

        def note(path: str, *arguments: Any, **options: Any) -> int:
            self.opened.append(os.path.basename(path))
            return really(path, *arguments, **options)

        monkeypatch.setattr(os, "open", note)

    def forbid(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in self.LOOKS:
            monkeypatch.setattr(os, name, self._forbidden(name))

    @staticmethod
    def _forbidden(name: str) -> Callable[..., Any]:
        def look(*arguments: Any, **_: Any) -> Any:
            raise AssertionError(f"{name}{arguments}")

        return look


def without_inotify(monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    """No inotify descriptor can be had any more."""

    def refuse(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(inotify_simple, "INotify", refuse)
