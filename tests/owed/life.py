"""A process with a state directory and a ledger, alone or beside others; and the death of it."""

from __future__ import annotations

from pathlib import Path

from v010_adapter.events.turns import Turns
from v010_adapter.state.ledger import Ledger
from v010_adapter.state.runtime_directory import RuntimeDirectory

from ..rig.loop import SteppedLoop
from ..rig.serving import kill


class Life:
    """A process that has joined a runtime. Open files of one process exclude each other as processes do."""

    def __init__(self, loop: SteppedLoop, state: Path, runtime: str = "containerd") -> None:
        self.loop = loop
        self.directory = RuntimeDirectory(str(state), runtime)
        self.turns = Turns(self.directory, lambda: loop.now)
        self.ledger = Ledger(loop, self.directory)
        self.ledger.on_fault = self.turns.tell_unwritten
        self.turns.on_change = self.ledger.expect_changes
        self.turns.join()
        self.ledger.expect_changes(self.turns.has_others, is_remade=False)
        loop.settle()

    @property
    def state(self) -> Path:
        """The directory of the records."""
        return Path(self.directory.path)

    @property
    def fault(self) -> str:
        return self.turns.fault or self.ledger.fault

    def care(self) -> None:
        """What happens at each event, and from time to time."""
        self.turns.look()
        self.loop.advance(1.5)

    def die(self) -> None:
        self.ledger._timer.cancel()  # else all that have died read and write for ever, on the loop of those after them
        self.ledger._upkeep = None
        kill(self.turns)
        self.turns._file.path = "/dead"
