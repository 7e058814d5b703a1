"""A runtime in a process of its own, which launches a plugin and waits to be killed: `ending` runs `main`.

A plugin may watch the process that has launched it. So the end of a runtime cannot be played by a runtime that goes on.
"""

from __future__ import annotations

import pickle
import sys
from contextlib import suppress

from nri.errors import NRIError
from nri.testing.contract.starts import Bench


def main() -> None:
    """Takes the pickled plugin of stdin into service under the runtime that follows it, and prints its pid."""
    source, flavour = pickle.load(sys.stdin.buffer)  # noqa: S301 - `ending` has made it
    bench = Bench(source=source, flavour=flavour, life=[])
    with suppress(NRIError), bench.joined_start() as start:
        process = start.plugin.process
        sys.stdout.write(f"{process.pid if process else ''}\n")
        sys.stdout.flush()
        sys.stdin.read()  # until it is killed; if its parent ends before, the plugin is ended
