"""The two FIFOs of a container that is held, without a runtime: this process is the init, and the `start`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nri.cgroup import start_time
from nri.holding.evidence import FIFO, Waiting, boot
from nri.holding.exchange import Fifos


def test_a_start_of_runc_that_came_before_its_init_reads_no_end_of_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / FIFO)
    its, pid = os.stat(tmp_path / FIFO), os.getpid()
    start = os.open(tmp_path / FIFO, os.O_RDONLY | os.O_NONBLOCK)
    fifos = Fifos(Waiting("c", pid, start_time(pid), boot(), str(tmp_path), its.st_dev, its.st_ino, writes=True))
    try:
        fifos.exchange()
        assert fifos.has_start()
        with pytest.raises(BlockingIOError):  # there is somebody who may write
            os.read(start, 1)
    finally:
        fifos.close()
    assert os.read(start, 1) == b""
    os.close(start)
