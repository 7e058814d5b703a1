"""Finds a busybox, the smallest system a shell plugin may meet: on PATH, else from Debian's package."""

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


def applets(directory: Path) -> Path:
    """Fills a directory with links to busybox, one for each of its programs."""
    binary = find()
    if isinstance(binary, str):
        missing(binary)
    for name in subprocess.run([binary, "--list"], capture_output=True, check=True, text=True).stdout.split():
        (directory / name).symlink_to(binary)
    return directory


@cache
def find() -> Path | str:
    """Returns a busybox, or why there is none. One that had to be downloaded stays in the cache of built peers."""
    installed = shutil.which("busybox")
    if installed:
        return Path(installed)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cached = Path(base) / "nri-v010-adapter/busybox"
    if not cached.exists():
        try:
            unpack(cached)
        except (OSError, subprocess.SubprocessError) as problem:
            return f"no busybox on PATH, and Debian's package cannot be had: {problem}"
    return cached


def unpack(target: Path) -> None:
    """Downloads the package and takes the one binary out of it; nothing is installed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as directory:
        quietly("apt-get", "download", "busybox-static", cwd=directory)
        (package,) = Path(directory).glob("*.deb")
        quietly("dpkg-deb", "-x", package.name, ".", cwd=directory)
        os.replace(Path(directory) / "bin/busybox", target)


def quietly(*command: str, cwd: str) -> None:
    """Runs a command that has to succeed, and tells nobody what it said."""
    subprocess.run(command, cwd=cwd, check=True, capture_output=True, timeout=120)
