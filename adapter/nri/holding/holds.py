"""The plugin's side: asks the keeper to hold containers, and to end holds."""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from threading import RLock
from typing import Literal, Self, TypeAlias

import nri
from nri import api
from nri.cgroup import find_pid
from nri.holding.evidence import Missing, NotHeld
from nri.holding.keeper import SOCKET, HoldEnd
from nri.holding.records import MAX_MESSAGE, Records, decoded, encoded

log = logging.getLogger(__name__)

MAX_LIMIT = 90.0
"""Seconds that a container is held at most. The kubelet waits two minutes for a start."""
LIMIT = 30.0
"""Seconds that a container is held by default."""
START = 10.0
"""Seconds that a keeper has to start, and to end the holds that are left of others."""
ANSWER = 1.0
"""Seconds that a keeper has for an answer."""
NEXT = 0.5
"""Seconds in which a keeper that was killed must end, and the next one must start and answer."""
OnFailure: TypeAlias = Literal["fail", "ignore"]
"""What becomes of a container at the end of the limit, or of the plugin: `fail` refuses it, `ignore` lets it start."""

_KEEPER = """
import sys, types
nri = types.ModuleType("nri")  # not the package itself, which imports protobuf
nri.__path__ = [sys.argv[1]]
sys.modules["nri"] = nri
from nri.holding.keeper import main
main(sys.argv[2])
"""


class Hold:
    """A container that is held. Used as a context manager, `with` or `async with`, the block decides.

    The end of the block lets the container go, an exception refuses it. If the block is cancelled, or the program ends,
    `on_failure` decides.
    """

    def __init__(self, holds: Holds, id_: str, pod_id: str, on_failure: OnFailure) -> None:
        self.id = id_
        """The container's id."""
        self.pod_id = pod_id
        self._holds = holds
        self._on_failure = on_failure
        self._end: HoldEnd | None = None

    @property
    def end(self) -> HoldEnd | None:
        """How the hold has ended, None while the container is held."""
        if self._end is None:
            self._holds.look()
        return self._end

    def let_go(self) -> HoldEnd:
        """Lets the container start. Returns how the hold has ended: the limit may have been earlier."""
        return self._holds.end(self, HoldEnd.LET_GO)

    def refuse(self) -> HoldEnd:
        """Kills the container's process, so that its start fails. Returns how the hold has ended."""
        return self._holds.end(self, HoldEnd.REFUSED)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or (self._on_failure == "ignore" and not issubclass(kind, Exception)):
            self.let_go()
        else:
            self.refuse()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.__exit__(kind)

    def over(self, fields: dict[str, str]) -> None:
        """Takes what the keeper tells of the end."""
        self._end = HoldEnd(fields["over"])


class Holds:
    """The holds of a program, and its keeper, which starts with the first one. May be used from any thread."""

    def __init__(self, directory: str) -> None:
        """Takes the directory of the records, which no other program may use."""
        self.directory = directory
        self._lock = RLock()
        self._keeper: KeeperProcess | None = None
        self._held: dict[str, Hold] = {}
        self._wanted: dict[str, HoldEnd] = {}
        """The ends that a keeper was asked for and has not told, by container. The next keeper is asked for them."""

    def hold(
        self,
        container: api.Container,
        pod_id: str = "",
        limit: float = LIMIT,
        on_failure: OnFailure = "fail",
        timeout: float = ANSWER,
    ) -> Hold:
        """Holds a container that is about to start, as its StartContainer describes it.

        CRI-O before 1.36 reports no pid: it is looked for in the cgroup. The keeper has `timeout` seconds for an
        answer. Raises NotHeld, and ValueError for a limit that is not above 0 and at most MAX_LIMIT.
        """
        if not 0 < limit <= MAX_LIMIT:
            raise ValueError(f"limit {limit:g}: more than 0, at most {MAX_LIMIT:g} seconds")
        cgroup = container.linux.cgroups_path
        pid = container.pid or find_pid(cgroup)
        if not pid:
            raise NotHeld(Missing.NO_PID, cgroup)
        at_end = HoldEnd.REFUSED if on_failure == "fail" else HoldEnd.LET_GO
        request = {"do": "hold", "id": container.id, "pid": pid, "cgroup": cgroup}
        request |= {"limit": limit, "at_end": at_end.value}
        with self._lock:
            is_sent = (self._keeper or self.start()).send(request)
            try:
                answer = self._answer(request, timeout)
            except BaseException:
                if is_sent and self._keeper is not None:  # it may be held, or will be later
                    self._wanted[container.id] = HoldEnd.LET_GO
                    self._keeper.end(container.id, HoldEnd.LET_GO)
                raise
            if "no" in answer:
                raise NotHeld(Missing[answer["no"]], answer["detail"])
            self._held[container.id] = hold = Hold(self, container.id, pod_id, on_failure)
            return hold

    def end(self, hold: Hold, how: HoldEnd, timeout: float = ANSWER) -> HoldEnd:
        """Ends a hold; returns how it has ended.

        A keeper that does not answer within `timeout` seconds is killed, unless it is still starting. The next one has
        NEXT seconds. Raises NotHeld if that one does not answer either: the hold ends when it does.
        """
        with self._lock:
            try:
                return hold.end or HoldEnd(self._ask({"do": how.value, "id": hold.id}, timeout)["over"])
            except NotHeld:
                self._wanted[hold.id] = how
                raise

    def held(self) -> list[Hold]:
        """Returns the holds of which no end is known."""
        with self._lock:
            with suppress(NotHeld):  # no keeper can be started: none tells of an end
                self.look()
            return list(self._held.values())

    def end_left(self) -> None:
        """Ends the holds that are left of a program that was killed together with its keeper.

        To be called before the program joins a runtime: containerd lets nobody join while a start is held. Raises
        NotHeld if no keeper starts.
        """
        with self._lock:
            if self._keeper is None and Records(self.directory).ids():
                self.start_and_wait()
                self.close()

    def prepare(self) -> None:
        """Starts the keeper, unless it runs, without waiting for it. Raises NotHeld."""
        with self._lock:
            if self._keeper is None:
                self.start()

    def close(self) -> None:
        """Ends the keeper, once it has ended the holds by their `on_failure`."""
        with self._lock:
            if self._keeper is not None:
                self._keeper.close()
                self._keeper = None

    def fileno(self) -> int:
        """Returns the descriptor that can be read when a hold has ended, -1 if there is no keeper."""
        return -1 if self._keeper is None else self._keeper.socket.fileno()

    @property
    def keeper(self) -> int:
        """The pid of the keeper, 0 if none runs."""
        return 0 if self._keeper is None or self._keeper.is_killed else self._keeper.pid

    def look(self) -> None:
        """Takes what the keeper has told meanwhile. A keeper that was killed is started again, without waiting for it.

        Raises NotHeld if it cannot be started.
        """
        with self._lock:
            while (keeper := self._keeper) is not None and keeper.has_told(0):
                if not self._take(keeper.receive()):
                    self._replace(keeper)

    def _ask(self, request: dict[str, object], timeout: float) -> dict[str, str]:
        """Asks for the end of a hold; returns the answer. Raises NotHeld if neither keeper answers; see `end`."""
        keeper = self._keeper or self.start()
        is_ready = self.keeper > 0
        keeper.send(request)
        try:
            return self._answer(request, timeout)
        except NotHeld:
            if not is_ready or self._keeper is not keeper:
                raise
        deadline = time.monotonic() + NEXT
        keeper.kill(NEXT)
        return self._answer(request, deadline - time.monotonic())

    def _answer(self, request: dict[str, object], timeout: float) -> dict[str, str]:
        """Waits for the answer to a request that was sent. Raises NotHeld if the keeper does not answer."""
        id_, is_hold = str(request["id"]), request["do"] == "hold"
        deadline = time.monotonic() + timeout
        while (keeper := self._keeper) and keeper.has_told(deadline - time.monotonic()):
            fields = self._take(keeper.receive())
            if fields.get("id") == id_ and ("over" in fields) != is_hold:
                return fields
            if not fields:  # the next keeper has taken over the holds
                keeper = self._replace(keeper)
                if is_hold:
                    break
                keeper.send(request)
        raise NotHeld(Missing.NO_KEEPER)

    def _take(self, fields: dict[str, str]) -> dict[str, str]:
        """Tells a hold of its end, or the keeper of its start, if that is the message. Returns the message."""
        if "ready" in fields and self._keeper is not None:
            self._keeper.on_ready(fields)
        if "over" in fields or "no" in fields:
            self._wanted.pop(fields["id"], None)
        if "over" in fields and (hold := self._held.pop(fields["id"], None)):
            hold.over(fields)
        return fields

    def _replace(self, keeper: KeeperProcess) -> KeeperProcess:
        """Starts the next keeper, in place of one that has ended. Raises NotHeld if that one could not even start."""
        if not keeper.pid:
            self.close()
            raise NotHeld(Missing.NO_KEEPER)
        return self.start()

    def start_and_wait(self, wait: float = START) -> None:
        """Starts a keeper, and waits until it has taken over what is left, at most `wait` seconds. Raises NotHeld."""
        keeper = self.start()
        if not (keeper.has_told(wait) and self._take(keeper.receive())):
            self.close()
            raise NotHeld(Missing.NO_KEEPER)

    def start(self) -> KeeperProcess:
        """Starts a keeper, which takes over what is left of an earlier one: `look` notices when. Raises NotHeld."""
        self.close()
        self._keeper = keeper = KeeperProcess(self.directory)
        for id_, how in self._wanted.items():
            keeper.end(id_, how)
        return keeper


class KeeperProcess:
    """A running keeper, and the socket to it."""

    def __init__(self, directory: str) -> None:
        """Starts it. It tells when it has taken over what is left. Raises NotHeld."""
        try:
            self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError as error:
            raise NotHeld(Missing.NO_KEEPER, str(error)) from None
        self.pid = 0
        """Set when it has told of its start."""
        self.is_killed = False
        try:
            self._starter = os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", "-c", _KEEPER, os.path.dirname(nri.__file__), directory],
                {},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, theirs.fileno(), SOCKET),  # first: its number may be one of the next
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0),
                    (os.POSIX_SPAWN_DUP2, 0, 1),
                ],
                setsid=True,
                setsigmask=[signal.SIGTERM, signal.SIGINT, signal.SIGHUP],
            )
        except OSError as error:
            self.close()
            raise NotHeld(Missing.NO_KEEPER, str(error)) from None
        finally:
            theirs.close()

    def on_ready(self, fields: dict[str, str]) -> None:
        """Takes what it tells when it has started. The process that has forked it has ended."""
        self.pid = int(fields["ready"])
        self._reap()

    def _reap(self) -> None:
        """Reaps the process that has started the keeper, and has ended."""
        with suppress(ChildProcessError):  # a program may reap all children itself
            os.waitpid(self._starter, 0)

    def has_told(self, timeout: float) -> bool:
        """Waits for a message, or for the keeper's end."""
        return _is_readable(self.socket.fileno(), timeout)

    def send(self, request: dict[str, object]) -> bool:
        """Sends a request if there is room; returns whether there was. `receive` notices a keeper that has ended."""
        try:
            self.socket.send(encoded(request), socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
        except OSError:
            return False
        return True

    def end(self, id_: str, how: HoldEnd) -> None:
        """Asks for the end of a hold."""
        self.send({"do": how.value, "id": id_})

    def kill(self, timeout: float) -> None:
        """Kills it unless it has told something meanwhile, and waits for its end: then its holds can be taken over."""
        with suppress(OSError):  # no descriptor is left, or it has ended
            process = os.pidfd_open(self.pid)
            try:
                if not self.has_told(0):  # so it lives: no other process has its pid
                    signal.pidfd_send_signal(process, signal.SIGKILL)
                    self.is_killed = True
                    log.warning("the keeper of holds, process %d, does not answer: it is killed", self.pid)
                    _is_readable(process, timeout)
            finally:
                os.close(process)

    def receive(self) -> dict[str, str]:
        """Returns the next message, empty if the keeper has ended."""
        try:
            message = self.socket.recv(MAX_MESSAGE)
        except OSError:
            message = b""
        if not message and not self.pid:  # it has ended before it was ready
            self._reap()
        return decoded(message) if message else {}

    def close(self) -> None:
        """Closes the socket: the keeper ends its holds, and itself."""
        self.socket.close()


def _is_readable(fd: int, timeout: float) -> bool:
    """Waits until a descriptor can be read, or hangs up, at most `timeout` seconds. It may have any number."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(max(0.0, timeout) * 1000))


def directory_of(name: str, idx: str) -> str:
    """Returns the default directory of a plugin's records."""
    if directory := os.environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]:
        return f"{directory}/holds"
    return f"/run/nri-holds/{idx}-{name}"
