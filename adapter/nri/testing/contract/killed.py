"""A runtime in a process of its own, which launches a plugin and waits to be killed: `ending` runs `main`.

A plugin may watch the process that has launched it. So the end of a runtime cannot be played by a runtime that goes on.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from nri.errors import NRIError
from nri.testing.contract.starts import Bench, Launched
from nri.testing.flavour import Flavour
from nri.testing.launch import PluginFile


def told(source: Launched, flavour: Flavour) -> str:
    """Returns a line of JSON for stdin of this module: the plugin, where it prints, and the runtime to play."""
    file = source.file
    return json.dumps([[str(file.path), *file[1:]], source.output, source.state, asdict(flavour)])


def main() -> None:
    """Takes the plugin of stdin into service, and prints its pid."""
    (path, *names), output, state, flavour = json.loads(sys.stdin.readline())
    source = Launched(PluginFile(Path(path), *names), output, state)
    bench = Bench(source=source, flavour=Flavour(**flavour), life=[])
    try:
        with bench.joined_start() as start:
            process = start.plugin.process
            print(process.pid if process else "", flush=True)
            sys.stdin.read()  # until it is killed; if its parent ends before, the plugin is ended
    except NRIError:
        sys.exit(1)
