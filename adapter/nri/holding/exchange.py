"""The two FIFOs of a container that is held: exchanges them, and passes on the byte of the start."""

from __future__ import annotations

import ctypes
import errno
import os
import select
from contextlib import suppress

from nri.cgroup import start_time
from nri.holding.evidence import ASIDE, FIFO, NO_ROOM, Missing, NotHeld, Waiting, boot, has_fifo

_EXCHANGE = 2
"""RENAME_EXCHANGE of linux/fs.h."""
_LIBC = ctypes.CDLL(None, use_errno=True)


class Fifos:
    """The FIFOs of a container, and its process, as descriptors: they lead to the same files whatever becomes of names.

    `start` waits at `own` while the container is held, and the init at `runtimes`. What is not open is None.
    """

    own: int | None = None
    runtimes: int | None = None
    process: int | None = None
    _written: int | None = None
    _reader: int | None = None
    _writer: int | None = None

    def __init__(self, init: Waiting) -> None:
        """Opens the container's directory and process. Raises OSError: the directory has gone, or one of NO_ROOM."""
        self.init = init
        self.directory = os.open(init.directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with suppress(ProcessLookupError):
                self.process = os.pidfd_open(init.pid)
            if self.process is not None and not (start_time(init.pid) in {init.started, None} and boot() == init.boot):
                os.close(self.process)  # another process has the pid; a start of None is unknown
                self.process = None
        except OSError:
            self.close()
            raise

    @property
    def is_ended(self) -> bool:
        """Whether the init has ended."""
        return self.process is None or bool(_events(self.process))

    @property
    def awaited_end(self) -> list[int]:
        """What tells of the end of the init, empty if it has ended before."""
        return [] if self.process is None else [self.process]

    @property
    def still_waits(self) -> bool:
        """Whether the init still waits. As long as it has not ended, no other process has its pid."""
        return has_fifo(self.init) and not self.is_ended

    def close(self) -> None:
        """Closes all descriptors."""
        for fd in (self.own, self.runtimes, self._written, self._reader, self._writer, self.directory, self.process):
            if fd is not None:
                os.close(fd)

    def exchange(self) -> None:
        """Puts a FIFO of our own in the place of the runtime's. Raises NotHeld, and then has changed nothing."""
        try:
            self.runtimes = self._open(FIFO)
        except OSError as error:
            raise NotHeld(Missing.NO_FIFO, str(error)) from None
        if not self._is_runtimes(os.fstat(self.runtimes)):
            raise NotHeld(Missing.NO_FIFO, f"process {self.init.pid}")
        try:
            # Whoever writes a byte to it ends the `start`. Only that and the keeper open it, the init does not.
            os.mkfifo(ASIDE, 0o600, dir_fd=self.directory)
        except FileExistsError:
            raise NotHeld(Missing.ALREADY_HELD) from None
        except OSError as error:
            raise NotHeld(Missing.NO_WRITE, str(error)) from None
        try:
            self.own = self._open(ASIDE)
            self._swap()
        except FileNotFoundError:  # `start` has removed the runtime's
            self._remove(ASIDE)
            raise NotHeld(Missing.NO_FIFO, f"process {self.init.pid}") from None
        except OSError as error:
            self._remove(ASIDE)
            raise NotHeld(Missing.NO_EXCHANGE, str(error)) from None

    def take_over(self) -> None:
        """Opens the FIFOs of an exchange that another keeper has made, or has begun. Raises OSError."""
        for name in (FIFO, ASIDE):
            with suppress(FileNotFoundError):
                fd = self._open(name)
                if self._is_runtimes(os.fstat(fd)):
                    self.runtimes = fd
                else:
                    self.own = fd

    def is_in_place(self) -> bool:
        """Whether the FIFO at the runtime's path is ours, and the init still waits at the other one."""
        if self.own is None:
            return False
        try:
            there, own = os.lstat(FIFO, dir_fd=self.directory), os.fstat(self.own)
        except OSError:
            return False
        return (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino) and self.still_waits

    def has_start(self) -> bool:
        """Whether a `start` has the runtime's FIFO open: it came before the exchange.

        A `start` of runc may have come before its init opens the FIFO. If our end was closed before that, the `start`
        would read the end of the file, and fail. So our end stays open until all is closed. An init of crun has the
        FIFO open from the beginning.
        """
        if self.init.writes:
            self._written = self._reopen(self.runtimes, os.O_WRONLY)  # fails without a reader
            return self._written is not None
        # An init of crun reads what is there as soon as it wakes: what has come for it must stay there at each moment.
        reader = os.open(f"/proc/self/fd/{self.runtimes}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        copies, copy = os.pipe()
        try:
            return bool(_LIBC.tee(reader, copy, 1, os.SPLICE_F_NONBLOCK))  # 0: no byte, and nobody who may write
        finally:
            for fd in (reader, copies, copy):
                os.close(fd)

    def put_back(self) -> None:
        """Puts the runtime's FIFO in its place again, if ours is there. A `start` may still wait at ours.

        Needs no descriptor, so it can always be done.
        """
        with suppress(OSError):
            if self._is_runtimes(os.lstat(ASIDE, dir_fd=self.directory)):
                self._swap()

    def remove(self) -> None:
        """Removes what the exchange has left in the runtime's directory."""
        self._remove(ASIDE)

    def end_start(self) -> None:
        """Ends a `start` of crun that waits for an init that has ended. One of runc sees the end by itself."""
        if not self.init.writes:
            self._remove(FIFO)  # a `start` to come finds none, and fails
            if self._reader is None:
                if self.runtimes is not None:
                    os.close(self.runtimes)  # one descriptor is left then
                    self.runtimes = None
                self._reader = self._reopen(self.own, os.O_RDONLY)

    def pass_on(self) -> bool:
        """Passes the byte of a `start` on that waits at our FIFO; returns whether it has come.

        To be called again until it has, or until the init no longer waits. An init of runc may write if it has a
        reader, so it gets one if a `start` waits. A `start` of crun may write if it has a reader. Its init gets a
        writer together with the byte: one that ends without a byte makes it loop, and one that has yet to write may
        make it fail.
        """
        source, target = (self.runtimes, self.own) if self.init.writes else (self.own, self.runtimes)
        if self.init.writes and self._writer is None:
            self._writer = self._reopen(target, os.O_WRONLY)
        if self._reader is None and (self._writer is not None or not self.init.writes):
            self._reader = self._reopen(source, os.O_RDONLY)
        if self._reader is None or not _events(self._reader) & select.POLLIN:
            return False
        if self._writer is None:
            self._writer = self._reopen(target, os.O_WRONLY)
        if self._writer is None:
            return False
        with suppress(BrokenPipeError):  # who has waited there has ended
            # In one step: if this process is killed, the byte is there or here.
            os.splice(self._reader, self._writer, 16, flags=os.SPLICE_F_NONBLOCK)
        return True

    @property
    def awaited(self) -> list[int]:
        """What tells that `pass_on` may do more: the end of the init, and a byte."""
        if self._reader is not None and _events(self._reader):  # a writer has ended without a byte: ready for ever
            again = self._reopen(self._reader, os.O_RDONLY)
            if again is not None:
                os.close(self._reader)
                self._reader = again
        if self._reader is None or _events(self._reader):
            return self.awaited_end
        return [*self.awaited_end, self._reader]

    def _reopen(self, fd: int | None, mode: int) -> int | None:
        """Opens a FIFO; None if nobody has its other end, which a writer needs, or for want of room."""
        if fd is None:
            return None
        try:
            return os.open(f"/proc/self/fd/{fd}", mode | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in {errno.ENXIO, *NO_ROOM}:
                return None
            raise

    def _open(self, name: str) -> int:
        return os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.directory)

    def _is_runtimes(self, its: os.stat_result) -> bool:
        return (its.st_dev, its.st_ino) == (self.init.device, self.init.inode)

    def _swap(self) -> None:
        """Exchanges the two FIFOs in one step. Raises OSError if one of them does not exist."""
        if _LIBC.renameat2(self.directory, ASIDE.encode(), self.directory, FIFO.encode(), _EXCHANGE):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def _remove(self, name: str) -> None:
        with suppress(OSError):
            os.unlink(name, dir_fd=self.directory)


def _events(fd: int) -> int:
    """Returns what a descriptor is ready for."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return sum(events for _, events in poll.poll(0))
