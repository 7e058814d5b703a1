"""The right to serve the runtime's events: of several adapters on a node, the newest that has joined gets it.

NRI's pull request 281 sends all events of one name and index to the newest connection; other versions send each event
to all of them. So the newest adapter, if it is not the owner of the state directory, asks the owner to release it.

An owner without a socket is an older version, which serves until it ends, or has just begun: those that wait look at
the lock now and then.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

from adapter.base.loop import NO_TIMER, Loop
from adapter.daemon.owner_socket import OwnerSocket
from adapter.host.joined import Joined
from adapter.host.lock import Lock, Served, Told
from adapter.host.trust import Trust
from adapter.nri import Deferred

if TYPE_CHECKING:
    import socket

log = logging.getLogger(__name__)

SOON, LOOK = 0.005, 0.5
"""Seconds between two looks at the lock while there is no connection with the owner: each wait is twice the one before.

An owner listens a few milliseconds after it has taken the lock.
"""


class LeaseState(Enum):
    """How this adapter waits for the lock."""

    APART = auto()
    """It does not: it is the owner, or has not joined the runtime, or ends."""
    LOOKING = auto()
    """It has no connection with the owner: a timer looks at the lock."""
    CONNECTED = auto()
    """It is connected with the owner."""
    ASKED = auto()
    """It is connected with the owner, and has asked for the lock."""
    ENDING = auto()
    """The owner's process ends: its connection is closed, and its lock is not free yet. A timer looks."""


class Candidate(Protocol):
    """`Serving`, as the lease needs it: it serves the events if this adapter has the lock."""

    def on_taken(self) -> None:
        """Notes that this adapter has become the owner. `Lease.begin` must follow at once."""

    def on_asked(self) -> None:
        """Lets another adapter serve. `Lease.release` must follow, at once or later."""

    def on_told(self, told: Told) -> bool:
        """Notes what another owner tells. Returns whether there are events that only this adapter can serve."""

    def is_fit(self) -> bool:
        """Whether plugins can run here."""


class Lease:
    """Decides whether this adapter serves the events: takes the lock, asks its owner for it, releases it."""

    def __init__(self, loop: Loop, lock: Lock, trust: Trust, candidate: Candidate) -> None:
        self._loop = loop
        self._lock = lock
        self._candidate = candidate
        self._joined = Joined(lock)
        self._socket = OwnerSocket(loop, lock.directory, trust, self._on_asked)
        self._state = LeaseState.APART
        self._owner: socket.socket | None = None
        """The connection with the owner; in CONNECTED and ASKED."""
        self._timer = NO_TIMER
        """In LOOKING and ENDING."""
        self._pause = SOON
        self._turn: Deferred[None] | None = None
        """What an event waits for. It is kept after a wait in vain, until the owner changes: no other event waits."""
        self._is_staying = False
        """Whether this adapter is connected with the runtime, and shall not end."""
        self._known: str | None = None
        """The mark of the owner when this adapter joined; None once it has been the owner itself."""

    @property
    def is_held(self) -> bool:
        """Whether this adapter serves the events."""
        return self._lock.is_held

    @property
    def is_unbroken(self) -> bool:
        """Whether this adapter, which has taken the lock and not begun, has got every event since it joined.

        NRI may send events to a newer adapter alone. Such an adapter becomes the owner at its first event. So this
        adapter has got every event if nobody else has become the owner since it joined.
        """
        return self._known is not None and self._lock.before in {self._known, ""}

    def join(self) -> bool:
        """The runtime has synchronized this adapter, which is the newest now; returns whether it is the owner."""
        self._joined.join()
        self._is_staying = True
        self._known = self._lock.owner
        if not self._take():
            self._wait()
        return self.is_held

    def leave(self, *, is_connected: bool) -> None:
        """The adapter ends, or the connection with the runtime is gone: it does not wait for the lock any more.

        As long as the adapter is connected, the event for which it has asked is still served.
        """
        self._joined.leave()
        self._is_staying = False
        if not is_connected or self._turn is None or self._turn.done:
            self._stop_waiting()
        if not self.is_held:
            self._socket.close()  # the state directory was replaced, and is another adapter's

    def take(self) -> bool:
        """Becomes the owner if nobody is; returns whether this adapter is the owner now."""
        if not self._take() and self._has_hung_up():  # the loop may see that only after an event
            self._look()
        return self.is_held

    def _take(self) -> bool:
        was_held = self.is_held
        if self._lock.take() and not was_held:
            self._enter(LeaseState.APART)
            self._candidate.on_taken()
            self._let_event_go_on()
            if not self._is_staying:
                self._loop.call_soon(self._on_asked)
        return self.is_held

    # The owner's side

    def begin(self, told: Told) -> None:
        """Begins to serve, or begins anew: tells the adapters that wait, and lets them connect."""
        self._known = None
        self._lock.tell(told)
        if self._lock.has_directory:
            self._socket.open()
        self._lock.on_remade = lambda: self.begin(told)

    def _on_asked(self) -> None:
        if self.is_held:
            self._candidate.on_asked()

    def release(self, ids: Iterable[str], served: Served) -> None:
        """Releases the lock except for the ids whose plugins still run, and tells the next owner what was served."""
        self._lock.release(ids, served)
        self._socket.close()
        if self._is_staying:
            self._wait()

    # The other side

    def ask(self, due: float) -> Deferred[None] | None:
        """Asks the owner for the lock; returns what the event must wait for. None if the event is left to the owner.

        The owner's only answer is to release the lock. The event waits for half of the time until `due`, on the loop's
        clock; later events do not wait: the owner may be stopped. It may still release the lock, without an event.
        """
        if self._state is not LeaseState.ENDING:
            if not (self._joined.is_newest and self._candidate.is_fit()):
                return None
            if self._owner is None:
                self._wait()
        if self._state is LeaseState.LOOKING or self._turn is not None:
            return None
        self._ask()
        turn = self._turn = Deferred()
        now = self._loop.time()
        self._loop.call_at(now + max(due - now, 0) / 2, turn.complete)
        return turn

    def _ask(self) -> None:
        if self._state is LeaseState.CONNECTED and self._owner is not None:
            self._state = LeaseState.ASKED
            with suppress(OSError):  # it has ended
                self._owner.send(b"?")

    def _wait(self) -> None:
        """Waits for the end of the connection with the owner; without a connection, for the next look."""
        owner = self._socket.connect()
        if owner is None:
            is_known = self._state not in (LeaseState.APART, LeaseState.LOOKING)
            self._enter(LeaseState.ENDING if is_known else LeaseState.LOOKING)
            self._timer = self._loop.call_at(self._loop.time() + self._pause, self._look)
            self._pause = min(2 * self._pause, LOOK)
            return
        self._enter(LeaseState.CONNECTED)
        self._pause = SOON
        self._owner = owner
        self._loop.watch(owner.fileno(), self._look)
        self._let_event_go_on()
        told = self._lock.told
        if told is not None and self._candidate.on_told(told) and self._candidate.is_fit():
            self._ask()

    def _has_hung_up(self) -> bool:
        """Whether the owner has closed the connection."""
        if self._owner is None:
            return False
        try:
            return not self._owner.recv(1)  # the owner sends nothing
        except OSError as error:
            return not isinstance(error, BlockingIOError)

    def _look(self) -> None:
        """Takes the lock if it is free: the connection with the owner has ended, or there is none.

        If this adapter has not asked for it, a newer one has the right to it.
        """
        if (self._state is LeaseState.ASKED or self._joined.is_newest) and self._take():
            log.info("no other adapter serves any more: this one does from now on")
        elif self._is_staying:
            self._wait()
        else:
            self._stop_waiting()

    def _stop_waiting(self) -> None:
        self._enter(LeaseState.APART)
        self._let_event_go_on()

    def _let_event_go_on(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.complete()

    def _enter(self, state: LeaseState) -> None:
        self._state = state
        self._timer.cancel()
        if self._owner is not None:
            self._loop.unwatch(self._owner.fileno())
            self._owner.close()
            self._owner = None
