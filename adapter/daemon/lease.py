"""The right to serve the runtime's events: of several adapters on a node, the newest that has joined gets it.

NRI's pull request 281 sends all events of one name and index to the newest connection; other versions send each event
to all of them. So the newest adapter, if it is not the owner of the state directory, asks the owner to release it.

Each adapter that waits has a connection with the owner's socket. To ask is to send a byte. The end of the connection
tells that the owner has released the lock or has ended. An owner without a socket is an older version, which serves
until it ends, or has just begun: those that wait look at the lock now and then.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from adapter.base.loop import Loop, Timer
from adapter.errors import ConfigError
from adapter.host import state_directory
from adapter.host.joined import Joined
from adapter.host.lock import Lock, Told
from adapter.nri import Deferred

if TYPE_CHECKING:
    import socket

    from adapter.host.trust import Trust
    from adapter.monitoring.listener import Listener

log = logging.getLogger(__name__)

SOCKET = "owner"
SOON, LOOK = 0.005, 0.5
"""Seconds between two looks at the lock while there is no connection with the owner: each wait is twice the one before.

An owner listens a few milliseconds after it has taken the lock.
"""


class Lease:
    """Whether this adapter serves the events, and how it gets to."""

    def __init__(
        self,
        loop: Loop,
        lock: Lock,
        trust: Trust,
        on_taken: Callable[[], object],
        on_asked: Callable[[], object],
        on_told: Callable[[Told], bool],
    ) -> None:
        """Takes the loop, the lock, and what decides on the state directory.

        `on_taken` is called when this adapter has become the owner without an event. `on_asked` is called when another
        adapter asks for the lock; `on_released` must follow, at once or later. `on_told` is called with what another
        owner tells; it returns whether this adapter must become the owner, for events that nobody has served.
        """
        self._loop = loop
        self._lock = lock
        self._trust = trust
        self._joined = Joined(lock)
        self._on_taken = on_taken
        self._on_asked = on_asked
        self._on_told = on_told
        self._listener: Listener | None = None
        self._waiting: list[socket.socket] = []
        """The owner's connections with the adapters that wait."""
        self._told: Told | None = None
        """What the owner tells those that wait."""
        self._owner: socket.socket | None = None
        """The connection of this adapter with the owner, while this one waits."""
        self._has_asked = False
        """Whether that owner was asked to release the lock."""
        self._timer: Timer | None = None
        """Set while this adapter waits without a connection with the owner."""
        self._pause = SOON
        self._ended = ""
        """The mark of the owner whose connection has ended, though the lock was not free."""
        self._answer: Deferred[bool] | None = None
        """What an event waits for, or has waited for in vain, as long as the owner is the same."""
        self.is_staying = False
        """Whether this adapter is connected with the runtime, and shall not end."""
        self._known: str | None = ""
        """The mark of the owner when this adapter joined; None once it has been the owner itself."""
        self.is_unbroken = True
        """Whether this adapter has got every event between its joining and its first taking of the lock.

        NRI may have sent events to a newer adapter alone. It has not if there is none, or if nobody has become the
        owner: a newer adapter does so at its first event.
        """

    @property
    def is_held(self) -> bool:
        """Whether this adapter serves the events."""
        return self._lock.is_held

    @property
    def is_newest(self) -> bool:
        """Whether this adapter has joined the runtime after all others that are there."""
        return self._joined.is_newest

    @property
    def is_owner_ending(self) -> bool:
        """Whether the owner's sockets are closed and its lock is not: the kernel ends a process in this order."""
        return self._owner is None and self._ended != "" and self._ended == self._lock.owner

    def join(self) -> bool:
        """The runtime has synchronized this adapter, which is the newest now; returns whether it is the owner."""
        self._joined.join()
        self.is_staying = True
        self._known = self._lock.owner
        if self.take():
            return True
        self._wait()
        return False

    def leave(self, *, is_connected: bool) -> None:
        """The adapter ends, or the connection with the runtime is gone: it does not wait for the lock any more.

        As long as the adapter is connected, the event for which it has asked is still served.
        """
        self._joined.leave()
        self.is_staying = False
        if not is_connected or self._answer is None or self._answer.done:
            self._stop_waiting()
        if not self.is_held:
            self._stop_listening()  # the state directory was replaced, and is another adapter's

    def take(self) -> bool:
        """Becomes the owner if nobody is; returns whether this adapter is the owner now. `begin` must follow."""
        was_held = self._lock.is_held
        if not self._lock.take():
            return False
        if not was_held:
            self.is_unbroken = self._known is not None and (
                self._lock.before in {self._known, ""} or self._joined.is_newest
            )
            self._known = None
            self._stop_waiting()
        return True

    # The owner's side

    def begin(self, told: Told) -> None:
        """Begins to serve, or begins anew: those that wait look at what this adapter tells them."""
        self._told = told
        self._lock.tell(told)
        self._stop_listening()
        self._listen()

    def begin_again(self) -> None:
        """Begins anew in a state directory that was made again."""
        if self._told is not None:
            self.begin(self._told)

    def on_released(self) -> None:
        """The lock has been released: tells those that wait for it, and waits for it as they do."""
        self._stop_listening()
        if self.is_staying:
            self._wait()

    def _listen(self) -> None:
        """Lets other adapters wait for the lock. If that fails, they look at the lock now and then."""
        import socket  # noqa: PLC0415 - 4 ms, and only now no runtime waits

        from adapter.monitoring import listener  # noqa: PLC0415 - likewise

        if not self._lock.has_directory:
            return
        try:
            with state_directory.open_directory(self._lock.directory, self._trust) as fd:
                path = state_directory.short_path(fd, SOCKET)
                with suppress(FileNotFoundError):
                    os.unlink(path)  # of a previous owner
                made = listener.listening_socket(socket.AF_UNIX, path)
            self._listener = listener.Listener(self._loop, made, self._on_connection)
        except (OSError, ConfigError) as error:
            log.warning("%s/%s: %s: a newer adapter waits until this one ends", self._lock.directory, SOCKET, error)

    def _stop_listening(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for waiting in self._waiting.copy():
            self._hang_up(waiting)

    def _on_connection(self, waiting: socket.socket) -> None:
        self._waiting.append(waiting)
        self._loop.watch(waiting.fileno(), lambda: self._receive(waiting))

    def _receive(self, waiting: socket.socket) -> None:
        """One that waits asks for the lock, or does not wait any more."""
        try:
            has_asked = bool(waiting.recv(1))
        except OSError:
            has_asked = False
        if not has_asked:
            self._hang_up(waiting)
        elif self.is_held:
            log.info("a newer adapter asks to serve the events")
            self._on_asked()

    def _hang_up(self, waiting: socket.socket) -> None:
        self._waiting.remove(waiting)
        self._loop.unwatch(waiting.fileno())
        waiting.close()

    # The other side

    def ask(self, due: float) -> Deferred[bool] | None:
        """Asks the owner for the lock; returns whether that has made this adapter the owner. None without an asking.

        An owner that does not answer is waited for half of the time until `due`, on the loop's clock, and is not waited
        for again: it may be stopped. When it answers after all, this adapter becomes the owner without an event.
        """
        if self._owner is None and not self.is_owner_ending:
            self._wait()
        if self._answer is not None or (self._owner is None and not self.is_owner_ending):
            return None
        self._ask()
        answer = self._answer = Deferred[bool]()
        now = self._loop.time()
        self._loop.call_at(now + max(due - now, 0) / 2, lambda: answer.complete(False))
        return answer

    def look_if_ended(self) -> None:
        """Looks at the lock if the connection with the owner has ended, which the loop may see only after an event."""
        if self._owner is None:
            return
        with suppress(ConnectionError):
            try:
                self._owner.recv(1)  # the owner sends nothing: this is the end
            except BlockingIOError:
                return
        self._look()

    def _wait(self) -> None:
        """Waits for the end of the connection with the owner; without a connection, for the next look."""
        self._disconnect()
        connected = self._connect()
        if connected is None:
            self._timer = self._loop.call_at(self._loop.time() + self._pause, self._look)
            self._pause = min(2 * self._pause, LOOK)
            return
        self._pause = SOON
        self._owner = connected
        self._loop.watch(connected.fileno(), self._look)
        told = self._lock.told
        if told is not None and self._on_told(told):
            self._ask()

    def _ask(self) -> None:
        """Asks the owner to release the lock, once."""
        if self._owner is not None and not self._has_asked:
            self._has_asked = True
            with suppress(OSError):  # it has ended
                self._owner.send(b"?")

    def _connect(self) -> socket.socket | None:
        """Returns a connection with the owner's socket, None if there is none."""
        import socket  # noqa: PLC0415 - 4 ms

        try:
            with state_directory.open_directory(self._lock.directory, self._trust) as fd:
                connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
                try:
                    connected.connect(state_directory.short_path(fd, SOCKET))
                except OSError:
                    connected.close()
                    return None
        except (OSError, ConfigError):
            return None
        return connected

    def _look(self) -> None:
        """Takes the lock if it is free: the connection with the owner has ended, or there is none.

        If this adapter has not asked for it, a newer one has the right to it.
        """
        if self._owner is not None:
            self._ended = self._lock.owner
        has_asked = self._has_asked
        self._disconnect()
        answer, self._answer = self._answer, None
        is_new = (has_asked or self._joined.is_newest) and self.take()
        if is_new and (answer is None or answer.done):
            self._on_taken()
        if not is_new and self.is_staying:
            self._wait()
        if not is_new and self.is_owner_ending:
            self._answer = answer
        elif answer is not None:
            answer.complete(is_new)

    def _stop_waiting(self) -> None:
        """Does not wait any more; an event that waits is told so after the caller."""
        self._disconnect()
        self._ended = ""
        answer, self._answer = self._answer, None
        if answer is not None:
            self._loop.call_soon(lambda: answer.complete(False))

    def _disconnect(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._owner is not None:
            self._loop.unwatch(self._owner.fileno())
            self._owner.close()
            self._owner = None
            self._has_asked = False
