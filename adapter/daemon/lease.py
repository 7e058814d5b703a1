"""The right to serve the runtime's events: of several adapters on a node, the newest that has joined gets it.

NRI's pull request 281 sends all events of one name and index to the newest connection; other versions send each event
to all of them. So an adapter that gets an event and does not own the state directory asks the owner to release it, by
connecting to the owner's socket there; the owner closes the connection when it has. An owner that has no such socket is
an older version: it serves the event itself, and is waited for.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from adapter.base.loop import Loop, Timer
from adapter.errors import ConfigError
from adapter.host import state_directory
from adapter.host.joined import Joined
from adapter.host.lock import Lock
from adapter.nri import Deferred

if TYPE_CHECKING:
    import socket

    from adapter.host.trust import Trust
    from adapter.monitoring.listener import Listener

log = logging.getLogger(__name__)

SOCKET = "owner"
LOOK = 0.5
"""Seconds between two looks of a waiting adapter at the lock: a killed owner tells nobody."""
SOON = 0.04
"""Likewise, right after an event. An adapter that has lost its connection joins again after 0.1 s."""


class _Question(NamedTuple):
    """A connection with an owner's socket."""

    owner: str
    """The owner's mark."""
    asking: socket.socket
    answer: Deferred[bool]


class Lease:
    """Whether this adapter serves the events, and how it gets to."""

    def __init__(
        self, loop: Loop, lock: Lock, trust: Trust, on_taken: Callable[[], object], on_asked: Callable[[], object]
    ) -> None:
        """Takes the loop, the lock, and what decides on the state directory.

        `on_taken` is called when this adapter has become the owner without an event. `on_asked` is called when another
        adapter asks for the lock; `on_released` must follow, at once or later.
        """
        self._loop = loop
        self._lock = lock
        self._trust = trust
        self._joined = Joined(lock)
        self._on_taken = on_taken
        self._on_asked = on_asked
        self._listener: Listener | None = None
        self._asking: list[socket.socket] = []
        """The connections of the adapters that have asked for the lock."""
        self._question: _Question | None = None
        """What this adapter has asked the owner, as long as that has not released the lock."""
        self._timer: Timer | None = None
        self._soon_until = 0.0
        """Until when this adapter looks more often."""
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

    def join(self) -> bool:
        """The runtime has synchronized this adapter, which is the newest now; returns whether it is the owner."""
        self._joined.join()
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
        self._stop_waiting()
        if self._question is not None and (self._question.answer.done or not is_connected):
            self._end(self._question)
        if not self.is_held:
            self._stop_listening()  # the state directory was replaced, and is another adapter's

    def take(self) -> bool:
        """Becomes the owner if nobody is; returns whether this adapter is the owner now."""
        was_held = self._lock.is_held
        if not self._lock.take():
            return False
        if not was_held:
            self.is_unbroken = self._known is not None and (
                self._lock.before in {self._known, ""} or self._joined.is_newest
            )
            self._known = None
            self._stop_waiting()
            if self._question is not None:
                self._end(self._question)
            self._listen()
        return True

    @property
    def is_newest(self) -> bool:
        """Whether this adapter has joined the runtime after all others that are there."""
        return self._joined.is_newest

    def on_released(self, *, waits: bool) -> None:
        """The lock has been released: tells those that have asked for it. `waits` is whether to take it again."""
        self._stop_listening()
        if waits:
            self._wait()

    def _stop_listening(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        asking, self._asking = self._asking, []
        for asker in asking:
            asker.close()

    # The owner's side

    def _listen(self) -> None:
        """Lets other adapters ask for the lock. If that fails, they wait until this adapter ends."""
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

    def _on_connection(self, asker: socket.socket) -> None:
        self._asking.append(asker)
        log.info("a newer adapter asks to serve the events")
        if self.is_held:
            self._on_asked()

    # The other side

    def ask(self, due: float) -> Deferred[bool] | None:
        """Asks the owner for the lock; returns whether that has made this adapter the owner. None without an asking.

        An owner that does not answer is waited for half of the time until `due`, on the loop's clock, and is not waited
        for again: it may be stopped. When it answers after all, this adapter becomes the owner without an event.
        """
        owner = self._lock.owner
        if self._question is not None and self._question.owner == owner:
            return None
        if self._question is not None:
            self._end(self._question)
        asking = self._connect()
        if asking is None:
            return None
        question = self._question = _Question(owner, asking, Deferred())
        now = self._loop.time()
        self._loop.call_at(now + max(due - now, 0) / 2, lambda: self._stop_waiting_for(question))
        self._loop.watch(asking.fileno(), lambda: self._answered(question))
        return question.answer

    def _answered(self, question: _Question) -> None:
        """The owner has released the lock, or has ended."""
        is_awaited = not question.answer.done
        self._end(question)
        is_new = not self.is_held and self.take()
        if is_new and not is_awaited:
            self._on_taken()
        question.answer.complete(is_new)

    def _stop_waiting_for(self, question: _Question) -> None:
        """The event cannot wait any longer."""
        if not question.answer.done:
            question.answer.complete(not self.is_held and self.take())

    def _end(self, question: _Question) -> None:
        """Gives a question up, unless that was done before; an event that waits is told so after its caller."""
        if question is not self._question:
            return
        self._question = None
        self._loop.unwatch(question.asking.fileno())
        question.asking.close()
        self._loop.call_soon(lambda: question.answer.complete(False))

    def _connect(self) -> socket.socket | None:
        """Returns a connection with the owner's socket, None if there is none."""
        import socket  # noqa: PLC0415 - 4 ms

        try:
            with state_directory.open_directory(self._lock.directory, self._trust) as fd:
                asking = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
                try:
                    asking.connect(state_directory.short_path(fd, SOCKET))
                except OSError:
                    asking.close()
                    return None
        except (OSError, ConfigError):
            return None
        return asking

    # Waiting

    def on_left(self) -> None:
        """An event was left to the owner: if that has no connection any more, it joins again soon and takes the lock.

        So this adapter looks at the lock before that: it has the event.
        """
        now = self._loop.time()
        was_soon, self._soon_until = now < self._soon_until, now + LOOK
        if not was_soon and self._timer is not None:
            self._wait()

    def _wait(self) -> None:
        self._stop_waiting()
        now = self._loop.time()
        self._timer = self._loop.call_at(now + (SOON if now < self._soon_until else LOOK), self._look)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """Takes the lock if it is free. A newer adapter, if there is one, has the right to it."""
        if self._joined.is_newest and self.take():
            self._on_taken()
        else:
            self._wait()
