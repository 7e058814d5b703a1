"""What the processes of plugins take: processor time and memory, read from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from nri.testing.plugin import Plugin

PARENT, GROUP = 0, 1
TIMES = slice(10, 14)
"""The places behind the state in /proc/PID/stat; the times are those of the process and of its children that ended."""
TICK = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """What the processes of a launched plugin have taken: the program, its descendants, and its process group."""

    processes: int
    """The largest number of processes."""
    cpu: float
    """Seconds of processor time."""
    memory: int
    """The largest sum of their memory in bytes. What several processes share counts once (PSS)."""


class Meter:
    """Measures the launched plugins from its creation to the last `look`."""

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        self._pids = {plugin.name: plugin.process.pid for plugin in plugins if plugin.process is not None}
        self._before = {name: now.cpu for name, now in self._now()}
        self._pids = {name: self._pids[name] for name in self._before}  # another process may get the pid of the others
        self.usage: dict[str, Usage] = {}
        """The usage of each plugin, by its `NN-NAME`. A plugin that has ended keeps what the last `look` saw."""
        self.look()

    def look(self) -> None:
        """Reads the processes as they are now."""
        for name, now in self._now():
            cpu = now.cpu - self._before[name]
            before = self.usage.get(name, replace(now, cpu=cpu))
            most = max(before.processes, now.processes)
            self.usage[name] = Usage(most, max(before.cpu, cpu), max(before.memory, now.memory))

    def _now(self) -> list[tuple[str, Usage]]:
        stats = _stats() if self._pids else {}
        return [(name, _usage(family(pid, stats), stats)) for name, pid in self._pids.items() if pid in stats]


def family(pid: int, stats: dict[int, list[int]]) -> set[int]:
    """Returns a process, those of its group, and all their descendants."""
    found = {one for one, stat in stats.items() if pid in (one, stat[GROUP])}
    while more := {one for one, stat in stats.items() if stat[PARENT] in found} - found:
        found |= more
    return found


def _stats() -> dict[int, list[int]]:
    """Returns the numbers of /proc/PID/stat of all processes, behind the state, which is a letter."""
    stats = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):  # the process has ended
            _, _, fields = Path("/proc", name, "stat").read_text(errors="replace").rpartition(")")
            stats[int(name)] = [*map(int, fields.split()[1:])]
    return stats


def _usage(pids: set[int], stats: dict[int, list[int]]) -> Usage:
    return Usage(len(pids), sum(sum(stats[pid][TIMES]) for pid in pids) * TICK, sum(map(_memory, pids)))


def _memory(pid: int) -> int:
    """Returns the PSS of a process in bytes, 0 for one that has ended or is another user's."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    return 0
