"""The signals that the daemon acts on come as events of the loop."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from v010_adapter.base.loop import Loop
from v010_adapter.daemon import guard


def watch(loop: Loop, end: Callable[[str], object], reload: Callable[[], object]) -> None:
    """Calls `end` with the name of each SIGTERM and SIGINT, and `reload` at each SIGHUP, as long as the loop runs."""
    wakeup, awake = os.pipe()
    for pipe_end in (wakeup, awake):
        os.set_blocking(pipe_end, False)
    signal.set_wakeup_fd(awake, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, guard.SIGNALS)

    def on_signals() -> None:
        for number in os.read(wakeup, 64):
            if number == signal.SIGHUP:
                reload()
            else:
                end(signal.Signals(number).name)

    loop.watch(wakeup, on_signals)
