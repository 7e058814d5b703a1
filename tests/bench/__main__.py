"""Measures some cases or all, prints the table, and writes table and JSON to a directory."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from subprocess import SubprocessError

from tests.bench import adjusting, events, hooks, instructions, large, pods, report, start
from tests.bench.arena import Unfair
from tests.bench.figures import Bench, Row
from tests.peers.build import PeerBroken, PeerMissing, peer

MODULES = (events, adjusting, pods, hooks, start, large, instructions)
CASES = {module.__name__.rpartition(".")[2]: module.run for module in MODULES}
OUT = Path(__file__).resolve().parents[2] / ".cache" / "bench"


def main(arguments: Sequence[str]) -> int:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}; by default all")
    parser.add_argument("--out", type=Path, default=OUT, help="directory of report.txt and report.json")
    parser.add_argument("--effort", type=float, default=1, help="a part of the usual time, 0: one round of everything")
    options = parser.parse_args(arguments)
    if unknown := {*options.cases} - {*CASES}:
        parser.error(f"no such case: {' '.join(sorted(unknown))}")
    bench = Bench(options.effort, lambda text: print(text, file=sys.stderr))
    about, status = report.machine(), 0
    rows: list[Row] = []
    for name in options.cases or CASES:
        try:
            if name != "instructions":
                peer("runtime")
            rows.extend(CASES[name](bench))
        except (PeerMissing, PeerBroken) as reason:
            bench.missing.append(f"{name}: {reason}")
        except (Unfair, SubprocessError) as reason:  # the others' figures are not lost
            bench.missing.append(f"{name}, it failed: {reason}")
            status = 1
    report.write(options.out, about, rows, [*dict.fromkeys(bench.missing)])
    print((options.out / "report.txt").read_text(), end="")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
