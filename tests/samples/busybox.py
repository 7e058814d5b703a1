"""The smallest system that a shell plugin may meet."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.debian import find, missing


def applets(directory: Path) -> Path:
    """Fills a directory with links to busybox, one for each of its programs, if it is not there yet."""
    binary = find("busybox", "busybox-static")
    if isinstance(binary, str):
        missing(binary)
    if directory.exists() and any(directory.iterdir()):
        return directory
    directory.mkdir(exist_ok=True)
    for name in subprocess.run([binary, "--list"], capture_output=True, check=True, text=True).stdout.split():
        (directory / name).symlink_to(binary)
    return directory
