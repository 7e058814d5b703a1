"""A handler's answer that is completed later."""

from __future__ import annotations

from collections.abc import Callable, Generator
from threading import Lock
from typing import Any, Generic, TypeAlias, TypeVar

from nri.errors import let_go_of_frames

T = TypeVar("T")


class Deferred(Generic[T]):
    """A reply that is completed later, from any thread. Only the first completion counts."""

    def __init__(self) -> None:
        self._outcome: tuple[T | None, Exception | None] | None = None
        self._listener: Callable[[T | None, Exception | None], object] | None = None
        self._lock = Lock()

    def complete(self, reply: T | None = None, error: Exception | None = None) -> None:
        """Answers the call, with an error if there is one; without a reply, the response is empty."""
        with self._lock:
            if self._outcome is not None:
                return
            outcome = self._outcome = reply, error
            listener = self._listener
        if listener is not None:
            listener(*outcome)

    def fail(self, error: Exception) -> None:
        """Answers the call with an error, as if the handler had raised it."""
        self.complete(None, error)

    @property
    def done(self) -> bool:
        """Whether the reply has been completed."""
        return self._outcome is not None

    def then(self, listener: Callable[[T | None, Exception | None], object]) -> None:
        """Calls `listener(reply, error)` once: when the reply is completed, or now if it already is."""
        with self._lock:
            self._listener = listener
            outcome = self._outcome
        if outcome is not None:
            listener(*outcome)


Answer: TypeAlias = T | Deferred[T] | None
"""What a handler returns: its response, a Deferred response, or None for an empty response."""


def in_turn(steps: Generator[Answer[Any], Any, T]) -> Deferred[T]:
    """Runs a generator that yields answers and gets their replies; answers with its return value, at once or later.

    The error of an answer that fails is raised in the generator; an error that leaves the generator is the answer.
    """
    run = _Steps(steps)
    run.go_on(None, None)
    return run.whole


class _Steps(Generic[T]):
    """A generator that runs. Nothing here is in a cycle: what an event has made is let go at the event's end."""

    __slots__ = ("_steps", "whole")

    def __init__(self, steps: Generator[Answer[Any], Any, T]) -> None:
        self._steps = steps
        self.whole: Deferred[T] = Deferred()
        """The answer to which the steps lead."""

    def go_on(self, reply: Any, error: Exception | None) -> None:
        """Sends the generator the reply or the error that it waits for."""
        steps, failure = self._steps, None
        try:
            answer = steps.send(reply) if error is None else steps.throw(error)
            while not isinstance(answer, Deferred):
                answer = steps.send(answer)
            answer.then(self.go_on)
        except StopIteration as end:
            self.whole.complete(end.value)
        except Exception as left:  # it is the answer to the call
            self.whole.fail(left)
            failure = left
        if error is not None and error is not failure:
            let_go_of_frames(error)
