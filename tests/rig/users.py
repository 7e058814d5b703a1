"""Other users: files that belong to them, and a test that is one of them for a while."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from .processes import PR_GET_DUMPABLE, prctl

NOBODY = 65534
PR_SET_DUMPABLE = 4


def _gives_files() -> bool:
    """Whether we may give files to others: root may not in a user namespace that lacks them."""
    if os.geteuid():
        return False
    with tempfile.NamedTemporaryFile() as file:
        try:
            os.chown(file.name, NOBODY, 0)
        except OSError:
            return False
    return True


GIVES_FILES = pytest.mark.skipif(not _gives_files(), reason="files cannot be given to other users here")


@contextmanager
def unprivileged() -> Iterator[None]:
    """Inside, this process is no root. An ordinary user stays what he is."""
    user, dumpable = os.geteuid(), prctl(PR_GET_DUMPABLE)
    os.seteuid(user or NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)
        # Else our /proc stays closed to processes of ours that may not trace others, as in a container.
        prctl(PR_SET_DUMPABLE, dumpable)
