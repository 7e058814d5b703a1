"""Watches the processes of pods. After its restart containerd announces no stop of pods that were there before."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from v010_adapter.base.loop import Loop


class PodProcesses:
    """The processes of pods, each watched until it exits or is forgotten."""

    def __init__(self, loop: Loop, on_exit: Callable[[str], object]) -> None:
        """`on_exit` is called with the id of a pod whose process has exited."""
        self._loop = loop
        self._on_exit = on_exit
        self._pidfds: dict[str, int] = {}

    def watch(self, id_: str, pid: int) -> None:
        """Watches the process of a pod. If there is no such process any more, it has exited."""
        if id_ in self._pidfds:
            return
        try:
            self._pidfds[id_] = os.pidfd_open(pid)
        except (OSError, OverflowError):  # NRI's pids have 32 bits, the kernel's 31
            self._loop.call_soon(partial(self._on_exit, id_))
        else:
            self._loop.watch(self._pidfds[id_], partial(self._on_process_exit, id_))

    def forget(self, id_: str) -> None:
        """Ends the watch of a pod, if there is one."""
        pidfd = self._pidfds.pop(id_, None)
        if pidfd is not None:
            self._loop.unwatch(pidfd)
            os.close(pidfd)

    def _on_process_exit(self, id_: str) -> None:
        self.forget(id_)
        self._on_exit(id_)
