"""The two FIFOs of a container that is held, without a runtime: this process is the init, and the `start`."""

from __future__ import annotations

import errno
import os
import select
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.cgroup import start_time
from nri.holding import evidence, exchange
from nri.holding.evidence import FIFO, Missing, NotHeld, Waiting, boot
from nri.holding.exchange import Fifos

from ..rig.processes import NO_PROCESS, at_most, failing
from ..rig.waiting import limit, running


def test_a_start_of_runc_that_came_before_its_init_reads_no_end_of_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / FIFO)
    its, pid = os.stat(tmp_path / FIFO), os.getpid()
    start = os.open(tmp_path / FIFO, os.O_RDONLY | os.O_NONBLOCK)
    words = "c", pid, start_time(pid) or 0, boot(), str(tmp_path), "0", its.st_dev, its.st_ino
    fifos = Fifos(Waiting(*words, writes=True))
    try:
        fifos.exchange()
        assert stat.S_IMODE(os.stat(tmp_path / FIFO).st_mode) == 0o600, "no user ends a start by a byte"
        assert fifos.has_start()
        with pytest.raises(BlockingIOError):  # there is somebody who may write
            os.read(start, 1)
    finally:
        fifos.close()
    assert os.read(start, 1) == b""
    os.close(start)


def test_an_init_that_lives_has_not_ended_because_it_is_unknown_when_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "start_time", lambda _: None)
    ends = []
    for of_boot in (boot(), "another"):
        fifos = Fifos(Waiting("c", os.getpid(), 7, of_boot, str(tmp_path), "0", 0, 0, writes=True))
        ends.append(fifos.is_ended)
        fifos.close()
    assert ends == [False, True]


def test_an_init_that_cannot_be_opened_leaves_no_descriptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each attempt to hold a container would leave one descriptor less."""
    monkeypatch.setattr(exchange, "boot", failing(errno.EMFILE))
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="Too many open files"):
        Fifos(Waiting("c", os.getpid(), start_time(os.getpid()) or 0, "", str(tmp_path), "0", 0, 0, writes=True))
    assert os.listdir("/proc/self/fd") == before


def test_the_parent_of_an_init_is_not_its_group() -> None:
    with running(["sleep", "100"], start_new_session=True) as init:
        assert evidence._parent(init.pid) == os.getpid()
    assert evidence._parent(NO_PROCESS) == 0


class Crun:
    """A container of crun: its init reads, which this process is."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / FIFO
        directory.mkdir()
        os.mkfifo(self.path)
        self.init = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        its, pid = self.path.stat(), os.getpid()
        words = directory.name, pid, start_time(pid) or 0, boot(), str(directory), str(self.init)
        self.fifos = Fifos(Waiting(*words, its.st_dev, its.st_ino, writes=False))

    @property
    def wakes(self) -> bool:
        """Whether the init wakes: it then reads, and fails if there is somebody who may write and has not."""
        return bool(select.select([self.init], [], [], 0)[0])


@pytest.fixture
def crun(tmp_path: Path) -> Iterator[Crun]:
    crun = Crun(tmp_path / "c")
    yield crun
    os.close(crun.init)


def test_the_byte_of_a_start_of_crun_is_there_for_its_init_whenever_that_reads(
    crun: Crun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte that was taken, even to be given back, would be missed by an init that has woken for it."""
    monkeypatch.setattr(Fifos, "_reopen", failing(errno.EIO))  # as if this process ended there
    with limit("nobody reads what a start writes"):
        start = os.open(crun.path, os.O_WRONLY)
    crun.fifos.exchange()
    assert crun.fifos.has_start(), "it may write"
    os.write(start, b"0")
    assert crun.fifos.has_start()
    os.close(start)
    assert crun.fifos.has_start()
    assert os.read(crun.init, 2) == b"0"
    assert not crun.fifos.has_start()
    crun.fifos.close()


def test_an_exchange_is_in_place_while_the_init_waits_and_nothing_else_is_at_the_runtimes_path(crun: Crun) -> None:
    assert not crun.fifos.is_in_place()
    crun.fifos.exchange()
    assert crun.fifos.is_in_place()
    crun.path.symlink_to(crun.path.rename(crun.path.with_name("moved")))
    assert not crun.fifos.is_in_place()
    crun.path.unlink()
    assert not crun.fifos.is_in_place()
    crun.fifos.close()


def test_an_exchange_is_not_in_place_for_an_init_that_no_longer_waits(crun: Crun) -> None:
    crun.fifos.exchange()
    with open(os.devnull) as null:
        os.dup2(null.fileno(), crun.init)
    assert not crun.fifos.is_in_place()
    crun.fifos.close()


@pytest.mark.parametrize("missing", [Missing.NO_FIFO, Missing.NO_EXCHANGE])
def test_an_exchange_that_fails_leaves_nothing(crun: Crun, monkeypatch: pytest.MonkeyPatch, missing: Missing) -> None:
    """The `start` has removed the runtime's FIFO meanwhile, or the file system exchanges no files."""
    mkfifo, is_started = os.mkfifo, missing is Missing.NO_FIFO

    def late(name: str, mode: int, *, dir_fd: int) -> None:
        mkfifo(name, mode, dir_fd=dir_fd)
        if is_started:
            crun.path.unlink()

    monkeypatch.setattr(os, "mkfifo", late)
    if not is_started:
        monkeypatch.setattr(exchange, "_EXCHANGE", 1 << 20)  # a flag that the kernel does not know
    with pytest.raises(NotHeld) as caught:
        crun.fifos.exchange()
    assert caught.value.missing is missing
    assert os.listdir(crun.path.parent) == [FIFO] * (not is_started)
    crun.fifos.close()


def test_an_init_of_crun_that_is_let_go_does_not_wake_before_its_start_has_come(crun: Crun) -> None:
    """Also if the keeper is killed: an init that has had a writer wakes for ever, and reads."""
    crun.fifos.exchange()
    crun.fifos.put_back()
    assert not crun.fifos.pass_on()
    assert crun.fifos.still_waits
    assert os.path.samestat(crun.path.stat(), os.fstat(crun.init)), "a start to come finds the runtime's"
    crun.fifos.close()
    assert not crun.wakes


def test_a_byte_of_a_start_of_crun_is_passed_on(crun: Crun) -> None:
    crun.fifos.exchange()
    crun.fifos.put_back()
    crun.fifos.pass_on()
    with limit("nobody reads what a start writes"):
        os.close(os.open(f"/proc/self/fd/{crun.fifos.own}", os.O_WRONLY))  # one that is killed
        assert len(crun.fifos.awaited) == 2, "the next one is waited for"
        start = os.open(f"/proc/self/fd/{crun.fifos.own}", os.O_WRONLY)
    assert not crun.fifos.pass_on()
    assert not crun.wakes
    os.write(start, b"0")
    os.close(start)
    assert crun.fifos.pass_on()
    assert os.read(crun.init, 2) == b"0"
    crun.fifos.close()


def test_a_start_of_crun_is_ended_though_no_descriptor_is_left(crun: Crun) -> None:
    """One that waits to write, for an init that has ended: it gets a reader, which goes at once."""
    crun.fifos.exchange()
    start = os.open(crun.path, os.O_PATH)  # the lowest number that was free
    with at_most(start + 1):
        crun.fifos.end_start()
    os.close(os.open(f"/proc/self/fd/{start}", os.O_WRONLY | os.O_NONBLOCK))
    os.close(start)
    crun.fifos.close()
