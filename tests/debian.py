"""Finds programs of others that tests need: on PATH, else in Debian's package, which is not installed for that."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest


def missing(reason: str) -> NoReturn:
    """Skips the test, or fails it where every peer is asked for."""
    if os.environ.get("REQUIRE_PEERS") == "1":
        pytest.fail(f"REQUIRE_PEERS=1, but {reason}")
    pytest.skip(reason)


@cache
def find(command: str, package: str) -> Path | str:
    """Returns a program, or why there is none. One that had to be downloaded stays in the cache of built peers."""
    installed = shutil.which(command)
    if installed:
        return Path(installed)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cached = Path(base) / "nri-v010-adapter" / command
    if not cached.exists():
        try:
            _unpack(package, cached)
        except (OSError, subprocess.SubprocessError) as problem:
            return f"no {command} on PATH, and Debian's package cannot be had: {problem}"
    return cached


def _unpack(package: str, target: Path) -> None:
    """Downloads a package and takes one program out of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as directory:
        # Perhaps nobody has asked yet which packages there are.
        commands = (
            f"apt-get download {package} || {{ apt-get update && apt-get download {package}; }}; dpkg-deb -x *.deb ."
        )
        subprocess.run(["sh", "-ec", commands], cwd=directory, check=True, capture_output=True, timeout=240)
        (program,) = Path(directory).glob(f"**/bin/{target.name}")
        os.replace(program, target)
