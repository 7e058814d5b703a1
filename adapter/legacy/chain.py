"""The plugins of one event in their order, and what their outcomes mean. Knows no processes and no clock.

The original ended every chain at its first failure (client.go, InvokeWithSandbox). Here a create does, where policy
does not say otherwise; a delete goes on, for each plugin must get the delete that belongs to its create.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from adapter.errors import PluginError
from adapter.legacy.config import Entry
from adapter.legacy.result import Result

CREATE = "create"
UPDATE = "update"
DELETE = "delete"


class Policy(NamedTuple):
    """What is done about one plugin. `timeout` in seconds, 0 for what the call leaves."""

    fail_create: bool = True
    fail_delete: bool = False
    timeout: float = 0
    kill_on_timeout: bool = False


class Step(NamedTuple):
    """One plugin's turn.

    `full` is whether its request has more than the original's, `owes_delete` whether a delete follows on its create.
    """

    entry: Entry
    policy: Policy
    full: bool = False
    owes_delete: bool = True


class Chain:
    """One event's way through its plugins: run `current`, report how it went, until there is none."""

    def __init__(self, state: str, steps: Sequence[Step]) -> None:
        """Takes the state (`create`, `update` or `delete`) and the plugins in order."""
        self.state = state
        self.results: list[Result] = []
        """What the plugins so far have answered; the next one gets it."""
        self.error: PluginError | None = None
        """What the event fails with, None as long as it does not."""
        self._steps = list(reversed(steps))

    def begin_with(self, steps: Sequence[Step]) -> None:
        """Puts plugins before those that are there already."""
        self._steps.extend(reversed(steps))

    @property
    def steps(self) -> list[Step]:
        """The plugins that have not had their turn, in order."""
        return self._steps[::-1]

    @property
    def current(self) -> Step | None:
        """The plugin whose turn it is, None at the end."""
        return self._steps[-1] if self._steps else None

    def succeed(self, result: Result) -> PluginError | None:
        """Takes the current plugin's result; returns the failure if that is what it reports."""
        if result.error:
            return self.fail(result.error)
        self.results.append(result)
        self._steps.pop()
        return None

    def fail(self, reason: str) -> PluginError:
        """Takes the current plugin's failure, which policy may tolerate, and returns it."""
        step = self._steps.pop()
        error = PluginError(step.entry.type, reason)
        if not self.tolerates(step):
            self.error = self.error or error
            if self.state != DELETE:
                self._steps.clear()
        return error

    def overdue(self, reason: str, *, started: bool) -> PluginError | None:
        """Time is up: ends a create in which a plugin that is not done must not fail, and returns that failure.

        `reason` says why, `started` whether the current plugin was. None means that the event may be answered and
        the rest runs behind it.
        """
        if self.state == DELETE:
            return None
        running = self.current if started else None
        for step in reversed(self._steps):
            if not self.tolerates(step):
                type_ = step.entry.type
                before = f"not run: {running.entry.type}: " if running else "not run: "
                self.error = PluginError(type_, reason if step is running else before + reason)
                self._steps.clear()
                return self.error
        return None

    def tolerates(self, step: Step) -> bool:
        """Whether this event may succeed though the plugin fails."""
        return not (step.policy.fail_delete if self.state == DELETE else step.policy.fail_create)
