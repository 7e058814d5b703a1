"""Counts the steps of the interpreter: a measure of work that is the same on every machine."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps(work: Callable[[], object], module: str = "") -> int:
    """Returns how many steps the interpreter takes for some work, in one module or in all."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = module in ("", frame.f_globals["__name__"])
        count += event == "opcode"
        return trace if frame.f_trace_opcodes else None

    before = sys.gettrace()
    gc.disable()  # hypothesis has a callback in Python, whose steps would count
    sys._getframe().f_trace_opcodes = True  # Python 3.12 traces no instructions if no frame asked for it before
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
        gc.enable()
    return count
