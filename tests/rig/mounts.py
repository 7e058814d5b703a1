"""Mounts of their own, for tests that need them: an ordinary user has none, nor has root in most containers."""

from __future__ import annotations

import functools
import subprocess

from .debian import missing
from .waiting import LIMIT

OWN_MOUNTS = ("/usr/bin/env", "unshare", "--mount", "--propagation", "private")
"""Runs a command that may mount what it likes."""


@functools.cache
def refused() -> str:
    """Why that is not possible, or its mounts would not be those of the tests: both are so in a chroot."""
    enter = ("sh", "-c", 'nsenter --mount="/proc/$$/ns/mnt" test -e "$0"', __file__)
    done = subprocess.run([*OWN_MOUNTS, *enter], capture_output=True, text=True, timeout=LIMIT, check=False)
    return done.stderr.strip() or ("the root directory is that of a chroot" if done.returncode else "")


def require_mounts() -> None:
    """Skips the test that calls it where nothing can be mounted."""
    if reason := refused():
        missing(f"no mounts of their own: {reason}")
