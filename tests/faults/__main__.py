"""The fault matrix: faults of a legacy plugin, of the adapter and of the runtime, under the real NRI runtime.

In both forms and on three versions of NRI, with the runtime's own timeout of 2 s: each event is answered in time, the
adapter stays or comes back, each create has its delete.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.e2e.pod import HarnessError as Finding
from tests.faults.node import VERSIONS, GoNode
from tests.faults.rows import ADAPTER_FAULTS, EXTERNAL_FAULTS, FAULTS, kill_loop, program_fault, start
from tests.peers.build import PeerMissing, peer

FORMS = ("launched", "external")
STATES = ("create", "delete")

Rows = dict[str, Callable[[GoNode], str]]


class Row(NamedTuple):
    form: str
    version: str
    what: str
    has_failed: bool
    result: str
    seconds: float


def main() -> int:
    arguments = parse()
    print(f"seed {arguments.seed}, {arguments.kills} kills in each kill loop", flush=True)
    try:
        for version in VERSIONS:
            peer("runtime", version)
    except PeerMissing as missing:
        print(f"no fault matrix here: {missing}")
        return int(os.environ.get("REQUIRE_PEERS") == "1")
    places = [(form, version) for version in VERSIONS for form in FORMS]
    nodes = [(place, rows) for place in places for rows in plan(arguments, place[0])]
    failed = count = 0
    with ProcessPoolExecutor(os.cpu_count()) as pool:  # the limit of a wait needs a main thread
        for table in pool.map(table_of, *zip(*nodes, strict=True)):
            for row in table:
                outcome = "FAILED" if row.has_failed else "passed"
                print(f"{row.form:8}  {row.version:7}  {row.what:38}  {outcome}  {row.seconds:5.1f} s  {row.result}")
                count, failed = count + 1, failed + row.has_failed
            sys.stdout.flush()
    print(f"{count - failed} passed, {failed} failed")
    return int(failed > 0)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("--kills", type=int, default=20, help="kills of each kill loop, up to 200")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", default="", help="rows whose name contains this")
    return parser.parse_args()


def plan(arguments: argparse.Namespace, form: str) -> Iterator[Rows]:
    """Yields the rows, those of one node together."""
    of_program: Rows = {}
    for state in STATES:
        for what, error in FAULTS.items():
            of_program[f"{state}: {what}"] = partial(program_fault, fault=what, error=error, state=state)
    loop: Rows = {"kill loop": partial(kill_loop, kills=arguments.kills, seed=arguments.seed)}
    apart = ADAPTER_FAULTS | (EXTERNAL_FAULTS if form == "external" else {})
    for rows in (of_program, *({what: row} for what, row in apart.items()), loop):
        if chosen := {what: row for what, row in rows.items() if arguments.only in what}:
            yield chosen


def table_of(place: tuple[str, str], rows: Rows) -> list[Row]:
    """Plays rows on one node."""
    table = []
    with tempfile.TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as directory:
        node = GoNode(Path(directory), *place)
        try:
            for what, row in {"start": start, **rows}.items():
                begin = time.monotonic()
                try:
                    has_failed, result = False, row(node)
                except (Finding, RuntimeError, OSError) as error:
                    has_failed, result = True, f"{error!r}\n{node.log()[-6000:]}"
                if has_failed or what != "start":
                    table.append(Row(*place, what, has_failed, result, time.monotonic() - begin))
        finally:
            node.close()
    return table


if __name__ == "__main__":
    sys.exit(main())
