"""The two FIFOs of a container that is held: exchanges them, and passes on the byte of the start."""

from __future__ import annotations

import ctypes
import errno
import os
import select
import stat
from contextlib import suppress

from nri.cgroup import start_time
from nri.holding.evidence import ASIDE, FIFO, Missing, NotHeld, Waiting, still_waits

_EXCHANGE = 2
"""RENAME_EXCHANGE of linux/fs.h."""
_LIBC = ctypes.CDLL(None, use_errno=True)


class Fifos:
    """The FIFOs of a container, and its process, as descriptors: they lead to the same files whatever becomes of names.

    `start` waits at `own` while the container is held, and the init at `runtimes`.
    """

    def __init__(self, init: Waiting) -> None:
        """Opens the container's directory and its process. Raises OSError if the directory has gone."""
        self.init = init
        self.own = self.runtimes = self.process = self._written = -1
        self.directory = os.open(init.directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        with suppress(ProcessLookupError):
            self.process = os.pidfd_open(init.pid)
        if self.process >= 0 and start_time(init.pid) != init.started:  # another process has the pid
            os.close(self.process)
            self.process = -1

    @property
    def is_ended(self) -> bool:
        """Whether the init has ended."""
        if self.process < 0:
            return True
        poll = select.poll()
        poll.register(self.process, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Closes all descriptors."""
        for fd in (self.own, self.runtimes, self._written, self.directory, self.process):
            if fd >= 0:
                os.close(fd)

    def exchange(self) -> None:
        """Puts a FIFO of our own in the place of the runtime's. Raises NotHeld, and then has changed nothing."""
        try:
            self.runtimes = self._open(FIFO)
        except OSError as error:
            raise NotHeld(Missing.NO_FIFO, str(error)) from None
        if not self._is_runtimes(self.runtimes):
            raise NotHeld(Missing.NO_FIFO, f"process {self.init.pid}")
        try:
            os.mkfifo(ASIDE, 0o600, dir_fd=self.directory)
        except FileExistsError:
            raise NotHeld(Missing.ALREADY_HELD) from None
        except OSError as error:
            raise NotHeld(Missing.NO_WRITE, str(error)) from None
        try:
            self.own = self._open(ASIDE)
            self._take_rights()
            self._rename(ASIDE, FIFO)
        except FileNotFoundError:  # `start` has removed the runtime's
            self._remove(ASIDE)
            raise NotHeld(Missing.NO_FIFO, f"process {self.init.pid}") from None
        except OSError as error:
            self._remove(ASIDE)
            raise NotHeld(Missing.NO_EXCHANGE, str(error)) from None

    def take_over(self) -> None:
        """Opens the FIFOs of an exchange that another keeper has made, or has begun."""
        for name in (FIFO, ASIDE):
            with suppress(OSError):
                fd = self._open(name)
                if self._is_runtimes(fd):
                    self.runtimes = fd
                else:
                    self.own = fd

    def is_in_place(self) -> bool:
        """Whether the FIFO at the runtime's path is ours, and the init still waits at the other one."""
        try:
            there, own = os.stat(FIFO, dir_fd=self.directory, follow_symlinks=False), os.fstat(self.own)
        except OSError:
            return False
        return (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino) and still_waits(self.init)

    def has_start(self) -> bool:
        """Whether a `start` has the runtime's FIFO open: it came before the exchange.

        A `start` of runc may have come before its init opens the FIFO. If our end was closed before that, the `start`
        would read the end of the file, and fail. So our end stays open until all is closed. An init of crun has the
        FIFO open from the beginning.
        """
        if self.init.writes:
            end = self.open_runtimes(os.O_WRONLY)  # fails without a reader
            if end is not None:
                self._written = end
            return end is not None
        reader = os.open(f"/proc/self/fd/{self.runtimes}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            byte = os.read(reader, 1)
        except BlockingIOError:  # there is a writer
            return True
        finally:
            os.close(reader)
        if byte and (writer := self.open_runtimes(os.O_WRONLY)) is not None:
            os.write(writer, byte)  # it belongs to the init
            os.close(writer)
        return bool(byte)

    def put_back(self) -> None:
        """Puts the runtime's FIFO in its place again, if ours is there. A `start` may still wait at ours."""
        with suppress(OSError):
            fd = self._open(ASIDE)
            try:
                if self._is_runtimes(fd):
                    self._rename(ASIDE, FIFO)
            finally:
                os.close(fd)

    def remove(self) -> None:
        """Removes what the exchange has left in the runtime's directory."""
        self._remove(ASIDE)

    def end_start(self) -> None:
        """Ends a `start` of crun that waits for an init that has ended. One of runc sees the end by itself."""
        if not self.init.writes:
            self._remove(FIFO)  # a `start` to come finds none, and fails
            if (reader := self.open_own(os.O_RDONLY)) is not None:
                os.close(reader)

    def open_own(self, mode: int) -> int | None:
        """Opens the FIFO at which `start` waits; None if nobody waits there for a writer."""
        return self._reopen(self.own, mode)

    def open_runtimes(self, mode: int) -> int | None:
        """Opens the FIFO at which the init waits; None if nobody waits there for a writer."""
        return self._reopen(self.runtimes, mode)

    def _reopen(self, fd: int, mode: int) -> int | None:
        try:
            return os.open(f"/proc/self/fd/{fd}", mode | os.O_NONBLOCK | os.O_CLOEXEC) if fd >= 0 else None
        except OSError as error:
            if error.errno == errno.ENXIO:
                return None
            raise

    def _open(self, name: str) -> int:
        return os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.directory)

    def _is_runtimes(self, fd: int) -> bool:
        its = os.fstat(fd)
        return (its.st_dev, its.st_ino) == (self.init.device, self.init.inode)

    def _take_rights(self) -> None:
        """Gives our FIFO the owner and the mode of the runtime's."""
        its, path = os.fstat(self.runtimes), f"/proc/self/fd/{self.own}"
        os.chown(path, its.st_uid, its.st_gid)
        os.chmod(path, stat.S_IMODE(its.st_mode))

    def _rename(self, name: str, other: str) -> None:
        """Exchanges two files of the runtime's directory in one step. Raises OSError if one of them does not exist."""
        if _LIBC.renameat2(self.directory, name.encode(), self.directory, other.encode(), _EXCHANGE):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def _remove(self, name: str) -> None:
        with suppress(OSError):
            os.unlink(name, dir_fd=self.directory)


def taken(fd: int) -> bytes:
    """Returns the bytes that a FIFO has now, empty if it has none."""
    try:
        return os.read(fd, 16)
    except BlockingIOError:
        return b""
