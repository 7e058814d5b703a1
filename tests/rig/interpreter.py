"""How a script names this Python: the path of a clone may have a space, which ends the name in a usual first line."""

from __future__ import annotations

import shlex
import sys

PYTHON = shlex.quote(sys.executable)
"""For a shell's script."""
FIRST_LINE = f"#!/usr/bin/env -S '{sys.executable}'"
"""Options of Python may follow."""
