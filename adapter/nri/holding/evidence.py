"""What proves that a process is the init of a container, and waits for the container's start."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from enum import Enum
from itertools import islice

from nri.cgroup import expand, start_time
from nri.errors import NRIError

FIFO = "exec.fifo"
"""The name of the FIFO in the runtime's directory of a container, in runc and crun."""
ASIDE = FIFO + ".held"
"""The name of the runtime's own FIFO while the container is held."""
MAX_DESCRIPTORS = 256
"""Descriptors of a process that are looked at. An init has about twenty; a program may open a million."""
O_PATH = 0o10000000
"""The flag in /proc/PID/fdinfo; os.O_PATH is the same number."""
NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""The errors of a program or node that has no descriptor or memory left: they tell nothing of the file."""


class Missing(Enum):
    """Why a container cannot be held: the evidence that is missing, or what the keeper lacks."""

    NO_PID = "the runtime reports no pid, and its cgroup has no process"
    NO_PROCESS = "its process is not here: it has ended, or this program is in a PID namespace of its own"
    NO_ACCESS = "the descriptors of its process cannot be read: CAP_SYS_PTRACE is missing"
    NO_KILL = "its process, which is another user's, could not be killed to refuse it: CAP_KILL is missing"
    NO_FIFO = "its process does not wait at an exec.fifo: it has started, or its runtime is neither runc nor crun"
    ALREADY_HELD = "another plugin holds it"
    FOREIGN_CGROUP = "its process is in the cgroup of another container"
    NOT_HERE = "the runtime's directory cannot be reached: this program does not see the node's files"
    FOREIGN_DIRECTORY = "users other than root may write to the runtime's directory"
    NO_WRITE = "the runtime's directory cannot be written to"
    NO_EXCHANGE = "files of the runtime's directory cannot be exchanged (renameat2)"
    NO_RECORD = "the record of the hold cannot be written"
    NO_KEEPER = "the process that keeps holds has not started or has not answered"
    TOO_MANY = "too many containers are held"


class NotHeld(NRIError):
    """A container is not held: `missing` says which evidence is missing. Its start goes on as always."""

    def __init__(self, missing: Missing, detail: str = "") -> None:
        super().__init__(f"the container cannot be held: {missing.value}{detail and f': {detail}'}")
        self.missing = missing
        """The evidence that is missing."""
        self.detail = detail
        """The kernel's error, or the path; may be empty."""


class Waiting:
    """An init that waits for the start of its container. No NamedTuple: `typing` is a fifth of a keeper's memory."""

    __slots__ = ("boot", "descriptor", "device", "directory", "id", "inode", "pid", "started", "writes")

    def __init__(  # noqa: PLR0913, PLR0917 - they are one record
        self,
        id: str,
        pid: int,
        started: int,
        boot: str,
        directory: str,
        descriptor: str,
        device: int,
        inode: int,
        writes: bool,
    ) -> None:
        self.id = id
        """The container's id."""
        self.pid = pid
        self.started = started
        """When the process started, in clock ticks since boot."""
        self.boot = boot
        """The id of the node's boot."""
        self.directory = directory
        """The runtime's directory of the container, at a path of this program."""
        self.descriptor, self.device, self.inode = descriptor, device, inode
        """The FIFO at which the init waits, and the init's descriptor of it."""
        self.writes = writes
        """Whether the init writes to the FIFO, as runc's does; crun's reads."""

    def fields(self) -> dict[str, object]:
        """Returns all of it for a record."""
        return {name: getattr(self, name) for name in self.__slots__} | {"writes": int(self.writes)}


def waiting(id_: str, pid: int, cgroups_path: str) -> Waiting:
    """Returns the evidence for a container's process. `cgroups_path` is that of the OCI specification.

    Raises NotHeld.
    """
    started = start_time(pid)
    if not started:
        raise NotHeld(Missing.NO_PROCESS, f"process {pid}")
    try:
        descriptor, directory, status = _fifo(pid, id_)
    except PermissionError as error:
        raise NotHeld(Missing.NO_ACCESS, str(error)) from None
    except OSError as error:  # the descriptor or the process has gone
        missing = Missing.NO_FIFO if start_time(pid) == started else Missing.NO_PROCESS
        raise NotHeld(missing, str(error)) from None
    if not _is_in(pid, cgroups_path):
        raise NotHeld(Missing.FOREIGN_CGROUP, f"process {pid} is not in {cgroups_path}")
    writes = _writes(pid, descriptor)
    try:
        os.kill(pid, 0)
    except PermissionError as error:
        raise NotHeld(Missing.NO_KILL, str(error)) from None
    except ProcessLookupError:
        raise NotHeld(Missing.NO_PROCESS, f"process {pid}") from None
    if start_time(pid) != started:
        raise NotHeld(Missing.NO_PROCESS, f"process {pid}")
    try:
        its_boot = boot()
    except OSError as error:
        raise NotHeld(Missing.NO_RECORD, str(error)) from None
    return Waiting(id_, pid, started, its_boot, directory, descriptor, status.st_dev, status.st_ino, writes)


def has_fifo(init: Waiting) -> bool:
    """Whether a process has the FIFO of an init open, by whatever name. Needs no descriptor, so it can always tell."""
    path = f"/proc/{init.pid}/fd/{init.descriptor}"
    try:
        if not _is_name(os.readlink(path), init.id):
            return False
        its = os.stat(path)
    except OSError:
        return False
    return (its.st_dev, its.st_ino) == (init.device, init.inode)


def boot() -> str:
    """Returns the id of the node's boot."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def _fifo(pid: int, id_: str) -> tuple[str, str, os.stat_result]:
    """Returns the descriptor of a container's init for its FIFO, the runtime's directory, and the FIFO's status.

    Raises NotHeld and OSError.
    """
    for number, path in _descriptors(pid, id_):
        if os.path.basename(path) == ASIDE:
            raise NotHeld(Missing.ALREADY_HELD, path)
        if os.path.basename(path) != FIFO:  # `start` has removed it
            continue
        directory, status = _reached(os.path.dirname(path), pid)
        its = os.stat(f"/proc/{pid}/fd/{number}")
        if (its.st_dev, its.st_ino) != (status.st_dev, status.st_ino):
            raise NotHeld(Missing.NOT_HERE, path)
        return number, directory, status
    raise NotHeld(Missing.NO_FIFO, f"process {pid}")


def _descriptors(pid: int, id_: str) -> Iterator[tuple[str, str]]:
    """Yields the descriptors of a process that are `ID/exec.fifo` by name, and their paths. Raises OSError.

    Only these are looked at further: the status of another file, such as one of FUSE, may never come.
    """
    with os.scandir(f"/proc/{pid}/fd") as descriptors:
        for descriptor in islice(descriptors, MAX_DESCRIPTORS):
            try:
                path = os.readlink(descriptor.path)
            except FileNotFoundError:  # the process has closed it
                continue
            if _is_name(path, id_):
                yield descriptor.name, path


def _is_name(path: str, id_: str) -> bool:
    """Whether a path is `ID/exec.fifo`, or what becomes of that name."""
    return os.path.basename(path).startswith(FIFO) and os.path.basename(os.path.dirname(path)) == id_


def _writes(pid: int, descriptor: str) -> bool:
    """Whether an init writes: runc's has the FIFO open as a path, crun's for reading."""
    try:
        with open(f"/proc/{pid}/fdinfo/{descriptor}", encoding="ascii") as file:
            words = file.read().split()
        flags = int(words[words.index("flags:") + 1], 8)
    except OSError as error:
        raise NotHeld(Missing.NO_FIFO, str(error)) from None
    if not flags & O_PATH and flags & os.O_ACCMODE != os.O_RDONLY:
        raise NotHeld(Missing.NO_FIFO, f"flags {flags:o}")
    return bool(flags & O_PATH)


def _is_in(pid: int, cgroups_path: str) -> bool:
    """Whether a process is in a container's cgroup, or below it: crun makes `container` in a scope of systemd."""
    wanted = expand(cgroups_path)
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="surrogateescape") as file:
            paths = [line.rstrip("\n").split(":", 2)[2] for line in file]
    except OSError:
        return False
    return any(is_below(path, wanted) for path in paths)


def is_below(path: str, wanted: str) -> bool:
    """Whether a path of /proc/PID/cgroup is a cgroup, or below it.

    To a program in a cgroup namespace, the cgroups of others begin with `/..`, and lack what they have in common with
    its own. The last name is that of the container, so it is always there.
    """
    if path.startswith("/.."):
        while path.startswith("/.."):
            path = path[3:]
        parts = path.removesuffix("/container").split("/")
        return len(parts) > 1 and wanted.endswith("/".join(parts))
    return path == wanted or (wanted != "/" and path.startswith(f"{wanted}/"))


def _reached(directory: str, pid: int) -> tuple[str, os.stat_result]:
    """Returns the path by which this program reaches the runtime's directory, and its FIFO's status. Raises NotHeld.

    In a container, that is by the root directory of the init's parent, which is containerd's shim or conmon.
    """
    found = ""
    for path in (directory, f"/proc/{_parent(pid)}/root{directory}"):
        try:
            fifo, its = os.lstat(f"{path}/{FIFO}"), os.lstat(path)
        except OSError:
            continue
        found = path
        is_ours = its.st_uid == os.geteuid() and not its.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if is_ours and stat.S_ISFIFO(fifo.st_mode):
            return path, fifo
    raise NotHeld(Missing.FOREIGN_DIRECTORY if found else Missing.NOT_HERE, directory)


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        return 0
