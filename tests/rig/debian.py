"""Finds programs of others that tests need: on PATH, else in Debian's package, which is not installed for that."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import NoReturn

import pytest

from tests.peers.build import PeerMissing, program


def missing(reason: str) -> NoReturn:
    """Skips the test, or fails it where every peer is asked for."""
    if os.environ.get("REQUIRE_PEERS") == "1":
        pytest.fail(f"REQUIRE_PEERS=1, but {reason}")
    pytest.skip(reason)


@functools.cache
def find(command: str, package: str) -> Path | str:
    """Returns a program, or why there is none. One that had to be downloaded stays in the cache of built peers."""
    try:
        return program(command, package)
    except PeerMissing as problem:
        return f"no {command} on PATH that will do, and Debian's package {package} cannot be had: {problem}"
