"""Finds programs of others that tests need: on PATH, else in Debian's package, which is not installed for that."""

from __future__ import annotations

import functools
import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

from tests.peers.build import PeerMissing, cache, made, unpack


def missing(reason: str) -> NoReturn:
    """Skips the test, or fails it where every peer is asked for."""
    if os.environ.get("REQUIRE_PEERS") == "1":
        pytest.fail(f"REQUIRE_PEERS=1, but {reason}")
    pytest.skip(reason)


@functools.cache
def find(command: str, package: str) -> Path | str:
    """Returns a program, or why there is none. One that had to be downloaded stays in the cache of built peers."""
    installed = shutil.which(command)
    if installed:
        return Path(installed)

    def take(staged: Path) -> None:
        (program,) = unpack(package, staged.parent).glob(f"**/bin/{command}")
        program.rename(staged)

    try:
        return made(cache() / command, take)
    except PeerMissing as problem:
        return f"no {command} on PATH, and Debian's package cannot be had: {problem}"
