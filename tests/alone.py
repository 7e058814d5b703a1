"""The turns of an adapter that never has another one beside it, and that keeps nothing for the next process."""

from __future__ import annotations

from collections.abc import Callable

from nri import Context
from v010_adapter.events.fates import Turn
from v010_adapter.events.turns import Turns
from v010_adapter.legacy.request import Target
from v010_adapter.state.runtime_directory import RuntimeDirectory


class Nowhere(RuntimeDirectory):
    """Is in memory."""

    is_marked = False

    def __init__(self) -> None:
        super().__init__("/nowhere", "")
        self._files: dict[str, bytes] = {}

    def open(self) -> bool:
        return False

    def names(self, prefix: str, *, is_alone: bool) -> list[str]:
        return [name for name in self._files if name.startswith(prefix)]

    def read(self, name: str) -> bytes | None:
        return self._files.get(name)

    def replace(self, name: str, text: bytes) -> None:
        self._files[name] = text
        if not text:
            del self._files[name]

    def mark(self) -> None:
        pass


class Alone(Turns):
    """Each event is its own."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(Nowhere(), clock)

    def look(self) -> bool:
        return False


def turn_of(turns: Turns, target: Target, context: Context) -> Turn:
    """The turn of an event that comes now."""
    return turns.turn(context.method, target.sandbox_id, target.id, context.came, context.deadline - context.came)
