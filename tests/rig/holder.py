"""In place of what holds containers: no process and no keeper, and each hold is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nri import HoldEnd
from v010_adapter.legacy.request import Target
from v010_adapter.monitoring.trace import UNTRACED, Trace


class PlayedHolder:
    """Holds containers in words."""

    limit = 30.0

    def __init__(self) -> None:
        self.can = True
        """Whether there is evidence."""
        self.is_ready = True
        """Whether the keeper has started."""
        self.told: list[str] = []
        """Each hold, `ID for PLUGIN`, and each end: `ID starts`, `ID is refused: REASON`."""
        self.held: dict[str, Callable[[HoldEnd], object]] = {}
        self.at_end: dict[str, bool] = {}
        """Whether a container is refused if the adapter ends."""

    def can_hold(self, target: Target, trace: Trace = UNTRACED) -> bool:
        return self.can

    def hold(
        self,
        target: Target,
        what: str,
        plugin: str,
        *,
        due: float,
        must_finish: bool,
        on_end: Callable[[HoldEnd], object],
        trace: Trace = UNTRACED,
    ) -> bool:
        is_held = self.can and target.id not in self.held
        if is_held:
            self.told.append(f"{target.id} for {plugin}")
            self.held[target.id], self.at_end[target.id] = on_end, must_finish
        return is_held

    def end(self, id_: str, error: Exception | None) -> None:
        if self.held.pop(id_, None) is not None:
            self.told.append(f"{id_} starts" if error is None else f"{id_} is refused: {error}")

    def end_by(self, id_: str, end: HoldEnd) -> None:
        """Somebody else ends a hold."""
        self.held.pop(id_)(end)

    def describe(self) -> dict[str, Any]:
        return {"held": [*self.held], "times": {}, "missing": {}}

    notes: tuple[str, ...] = ()
