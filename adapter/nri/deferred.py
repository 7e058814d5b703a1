"""A handler's answer that is completed later."""

from __future__ import annotations

from collections.abc import Callable, Generator
from threading import Lock
from typing import Any, Generic, TypeAlias, TypeVar

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
    whole: Deferred[T] = Deferred()

    def go_on(reply: Any, error: Exception | None) -> None:
        try:
            answer = steps.send(reply) if error is None else steps.throw(error)
            while not isinstance(answer, Deferred):
                answer = steps.send(answer)
            answer.then(go_on)
        except StopIteration as end:
            whole.complete(end.value)
        except Exception as failure:  # it is the answer to the call
            whole.fail(failure)

    go_on(None, None)
    return whole
