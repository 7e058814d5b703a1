"""Judges plugins of others by the contract, under each runtime, beside what NRI's own runtime code does with them.

`python -m tests.peers.judged PROGRAM… [--container FILE] [--config DIR]` prints a row of a table for each program. The
last column has the versions of NRI whose code does not keep the plugin in service during the recorded life of a pod;
there is no peer for that of CRI-O 1.34.0. What becomes of an adjustment is not seen there: that is compared by hand.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from google.protobuf.message import Message

from nri.testing import FLAVOURS, PluginFile
from nri.testing.contract import Launched, Result, judge
from tests.peers.build import MODULE, NEWEST
from tests.peers.harness import LIFE, GoRuntime
from v010_adapter import container_files
from v010_adapter.cli.simulate.drop_ins import drop_in
from v010_adapter.cli.simulate.script import made_up

LIMITS: dict[str, Any] = {}
"""The time limits of NRI's own code, if they are not to be its defaults."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers.judged", description=__doc__)
    parser.add_argument("programs", nargs="+", type=Path)
    parser.add_argument("--container", default="")
    parser.add_argument("--config", type=Path, default=Path())
    options = parser.parse_args(arguments)
    life = made_up(container_files.read(options.container)).events if options.container else ()
    print("| plugin | hold, do not apply, fail | fails | not in service |", "|---|---|---|---|", sep="\n")
    for program in options.programs:
        file = PluginFile(program.absolute(), "10", program.name, drop_in(options.config, "10", program.name))
        with tempfile.TemporaryDirectory() as state:
            print(row(file, Launched(file, None, state), [(call.event, call.request) for call in life]))


def row(file: PluginFile, source: Launched, life: Sequence[tuple[str, Message]]) -> str:
    """Return the row of a plugin."""
    counts: dict[Result, int] = defaultdict(int)
    failures: dict[str, list[str]] = defaultdict(list)
    for name, flavour in FLAVOURS.items():
        for verdict in judge(source, flavour, life).verdicts:
            counts[verdict.result] += 1
            if verdict.result is Result.FAILS:
                failures[verdict.rule.name].append(name)
    fails = "; ".join(f"{rule}: {', '.join(names)}" for rule, names in failures.items())
    versions = sorted({flavour.nri for flavour in FLAVOURS.values() if (MODULE / f"go.{flavour.nri}.mod").exists()})
    out = ", ".join(version for version in [*versions, NEWEST] if not stays(file, version))
    told = ", ".join(str(counts[result]) for result in (Result.HOLDS, Result.DOES_NOT_APPLY, Result.FAILS))
    return f"| {file.base} | {told} | {fails} | {out} |"


def stays(file: PluginFile, version: str) -> bool:
    """Whether NRI of this version has the plugin in service after the life of a pod."""
    with tempfile.TemporaryDirectory() as directory, GoRuntime(Path(directory), version) as runtime:
        runtime.open(file.path, file.config, name=file.name, **LIMITS)
        runtime.play("start")
        for one in LIFE:
            resources = (one.extra or {}).get("linux_resources")
            runtime.event(one.event, one.pod, one.container, resources=resources)
        return runtime.play("plugins").names == [file.name]


if __name__ == "__main__":
    main()
