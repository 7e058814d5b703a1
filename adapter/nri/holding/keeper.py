"""The keeper: a process that holds containers for a plugin, and ends each hold if the plugin does not.

It gets requests from the plugin through a socket, whose end tells of the plugin's end. It takes no signals but SIGKILL.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Generator
from contextlib import suppress
from enum import Enum

from nri.cgroup import start_time
from nri.holding.evidence import NO_ROOM, Missing, NotHeld, Waiting, waiting
from nri.holding.exchange import Fifos
from nri.holding.records import MAX_MESSAGE, Records, decoded, encoded

SOCKET = 3
"""The descriptor of the socket to the plugin."""
MAX_HELD = 32
"""Containers that are held at once."""
PAUSE = 0.1
"""Seconds between two looks at an init that is let go, and whose start has not come."""

Wait = tuple[list[int], float]
"""What a hold waits for: descriptors that can be read, and a moment of the monotonic clock."""
Steps = Generator[Wait, None, None]


class HoldEnd(Enum):
    """How a hold ends."""

    LET_GO = "go"
    """The container starts."""
    REFUSED = "refuse"
    """The container's process was killed: its start fails."""
    STARTED = "started"
    """The container had started before it could be held; nothing was done to it."""
    GONE = "gone"
    """The container's process has ended by itself, or was killed by somebody else."""


class Held:
    """The life of one hold."""

    fds: list[int]
    moment: float
    """What it waits for, since it last went on."""

    def __init__(self, fifos: Fifos, until: float, at_end: HoldEnd, records: Records, record: int) -> None:
        """Takes the open FIFOs, the end of the hold on the monotonic clock, and what is done then."""
        self.id = fifos.init.id
        self.at_end = at_end
        self.wanted: HoldEnd | None = None
        """LET_GO or REFUSED, once it is decided."""
        self.end: HoldEnd | None = None
        """How the hold has ended. Passing on the byte of the start may take longer."""
        self._until = until
        self._fifos = fifos
        self._records, self._record = records, record
        self._steps = self._life()

    def go_on(self) -> bool:
        """Goes on until there is something to wait for; returns False when all is done."""
        try:
            self.fds, self.moment = next(self._steps)
        except (StopIteration, OSError):  # the last step has put everything back
            return False
        return True

    def _life(self) -> Steps:
        try:
            while self.wanted is None and not self._fifos.is_ended:
                if time.monotonic() < self._until:
                    yield self._fifos.awaited_end, self._until
                else:
                    self.wanted = self.at_end
            yield from self._refuse() if self.wanted is HoldEnd.REFUSED else self._let_go()
        finally:
            self._fifos.put_back()
            if self._fifos.is_ended:
                self._fifos.end_start()
            self._fifos.remove()
            self._fifos.close()
            self._records.remove(self.id, self._record)

    def _let_go(self) -> Steps:
        waits = self._fifos.still_waits
        self._fifos.put_back()
        self.end = HoldEnd.LET_GO if waits else self._unheld()
        while waits:
            waits = self._fifos.still_waits  # before the look: an init that has written no longer waits
            if self._fifos.pass_on():
                return
            if waits:
                yield self._fifos.awaited, time.monotonic() + PAUSE

    def _refuse(self) -> Steps:
        if not self._fifos.still_waits:
            self.end = self._unheld()
            return
        for process in self._fifos.awaited_end:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(process, signal.SIGKILL)
        self.end = HoldEnd.REFUSED
        while not self._fifos.is_ended:
            yield self._fifos.awaited_end, time.monotonic() + PAUSE

    def _unheld(self) -> HoldEnd:
        return HoldEnd.GONE if self._fifos.is_ended else HoldEnd.STARTED


class Keeper:
    """Serves one plugin."""

    def __init__(self, socket: int, directory: str, owner: int) -> None:
        """Takes the socket to the plugin, the directory of the records, and the plugin's pid."""
        self._socket = socket
        self._records = Records(directory)
        self._held: dict[str, Held] = {}
        self._owner = owner
        self._owner_started = start_time(owner) or 0

    def run(self) -> None:
        """Serves the plugin until it has ended, and no container is held any more."""
        self._take_over()
        self._tell(ready=os.getpid())
        has_plugin = True
        while has_plugin or self._held:
            ready = self._wait(has_plugin)
            if has_plugin and ready & {self._socket}:
                has_plugin = self._serve()
                if not has_plugin:
                    os.dup2(0, 2)  # who reads the plugin's output waits for the end of all that have its stderr
                    for held in self._held.values():
                        held.wanted = held.wanted or held.at_end
            self._go_on()

    def _wait(self, has_plugin: bool) -> set[int]:
        poll = select.poll()
        for fd in [self._socket] * has_plugin + [fd for held in self._held.values() for fd in held.fds]:
            poll.register(fd, select.POLLIN)
        moment = min((held.moment for held in self._held.values()), default=None)
        return {fd for fd, _ in poll.poll(None if moment is None else max(0.0, moment - time.monotonic()) * 1000)}

    def _go_on(self) -> None:
        """Moves each hold on, and tells the plugin of those that have ended."""
        for held in list(self._held.values()):
            was_over = held.end is not None
            is_left = held.go_on()
            if not was_over and held.end is not None:
                self._tell(id=held.id, over=held.end.value)
            if not is_left:
                del self._held[held.id]

    def _serve(self) -> bool:
        """Serves a request; returns False if the plugin has ended."""
        try:
            message = os.read(self._socket, MAX_MESSAGE)
        except ConnectionResetError:  # the plugin has ended before it has read all
            message = b""
        if not message:
            return False
        request = decoded(message)
        if request["do"] == "hold":
            try:
                self._hold(request)
            except NotHeld as error:
                self._tell(id=request["id"], no=error.missing.name, detail=error.detail)
            else:
                self._tell(id=request["id"], held="yes")
        else:
            held = self._held.get(request["id"])
            if held is None:  # its end was told
                self._tell(id=request["id"], over=HoldEnd.GONE.value)
            elif held.end is not None:
                self._tell(id=held.id, over=held.end.value)
            else:
                held.wanted = held.wanted or HoldEnd(request["do"])
        return True

    def _hold(self, request: dict[str, str]) -> None:
        """Holds a container. Raises NotHeld."""
        id_ = request["id"]
        if id_ in self._held:
            raise NotHeld(Missing.ALREADY_HELD)
        if sum(held.end is None for held in self._held.values()) >= MAX_HELD:
            raise NotHeld(Missing.TOO_MANY, str(MAX_HELD))
        init = waiting(id_, int(request["pid"]), request["cgroup"])
        until, at_end = time.monotonic() + float(request["limit"]), HoldEnd(request["at_end"])
        try:
            fifos = Fifos(init)
        except OSError as error:
            raise NotHeld(Missing.NO_PROCESS, str(error)) from None
        try:
            record = self._recorded(init, until, at_end)
        except NotHeld:
            fifos.close()
            raise
        try:
            fifos.exchange()
        except NotHeld:
            fifos.close()
            self._records.remove(id_, record)
            raise
        held = Held(fifos, until, at_end, self._records, record)
        has_started = fifos.has_start() or not fifos.is_in_place()
        if has_started:  # between the two looks: put everything back, and pass on what has come
            held.wanted = HoldEnd.LET_GO
        if held.go_on():
            self._held[id_] = held
        if has_started:
            raise NotHeld(Missing.NO_FIFO, f"process {init.pid}")

    def _recorded(self, init: Waiting, until: float, at_end: HoldEnd) -> int:
        """Writes the record of a hold; returns its descriptor. Raises NotHeld."""
        fields = init.fields() | {"until": until, "at_end": at_end.value}
        fields |= {"owner": self._owner, "owner_started": self._owner_started}
        try:
            self._records.prepare()
            return self._records.write(init.id, fields)
        except FileExistsError:
            raise NotHeld(Missing.ALREADY_HELD) from None
        except OSError as error:
            raise NotHeld(Missing.NO_RECORD, str(error)) from None

    def _take_over(self) -> None:
        """Takes the holds of keepers that have ended: those of this plugin go on, those of dead plugins end now.

        Those of another plugin that lives are left to it until their limit, as its next keeper takes them. Raises
        OSError for want of room: then this keeper ends, and all records are left to the next one.
        """
        for id_, record, fields in self._records.left():
            try:
                owner, until = int(fields["owner"]), float(fields["until"])
                lives = start_time(owner) in {int(fields["owner_started"]), None}  # None is unknown
                if lives and owner != self._owner and time.monotonic() < until:
                    os.close(record)
                    continue
                at_end = HoldEnd(fields["at_end"])
                fifos = Fifos(_init(fields))
                fifos.take_over()
            except (OSError, ValueError, KeyError) as error:
                if isinstance(error, OSError) and error.errno in NO_ROOM:
                    raise
                self._records.remove(id_, record)  # its container has gone, or the record was not finished
                continue
            held = Held(fifos, until, at_end, self._records, record)
            if not lives:
                held.wanted = at_end
            elif not fifos.is_in_place():  # it was let go, and only its start has not come yet
                held.wanted = HoldEnd.LET_GO
            if held.go_on():
                self._held[id_] = held

    def _tell(self, **fields: object) -> None:
        with suppress(OSError):  # the plugin has ended, or does not read
            os.write(self._socket, encoded(fields))


def _init(fields: dict[str, str]) -> Waiting:
    """Returns the init of a record. Raises ValueError, KeyError."""
    pid, started, device, inode = (int(fields[name]) for name in ("pid", "started", "device", "inode"))
    writes, descriptor = fields["writes"] == "1", fields["descriptor"]
    return Waiting(fields["id"], pid, started, fields["boot"], fields["directory"], descriptor, device, inode, writes)


def main(directory: str) -> None:
    """Runs a keeper. The parent is the plugin, which has no child afterwards: the keeper is its grandchild."""
    owner = os.getppid()
    if os.fork():
        os._exit(0)
    os.chdir("/")
    os.umask(0o077)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > SOCKET:  # a socket of the plugin would outlive it here
            with suppress(OSError):
                os.close(int(name))
    os.set_blocking(SOCKET, False)
    try:
        run(Keeper(SOCKET, directory, owner))
    except Exception:
        sys.excepthook(*sys.exc_info())
        os._exit(1)  # at an ordinary end, Python would end the generators of the holds, and so let their containers go


def run(keeper: Keeper) -> None:
    """Runs a keeper. A bug is told to syslog, too: when the plugin has ended, stderr leads nowhere."""
    try:
        keeper.run()
    except Exception:
        import syslog  # noqa: PLC0415 - a keeper is small
        import traceback  # noqa: PLC0415

        syslog.openlog("nri-holds", syslog.LOG_PID)
        for line in traceback.format_exc().splitlines():
            syslog.syslog(syslog.LOG_ERR, line)
        raise
