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
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.e2e.pod import HarnessError as Finding
from tests.faults.beside import owner_stopped, three
from tests.faults.node import Node
from tests.faults.rows import ADAPTER_FAULTS, FAULTS, kill_loop, not_started, program_fault, soak, start
from tests.faults.state import directory_removed, disk_full, journal_at_its_bound
from tests.peers.build import PeerMissing, peer

VERSIONS = ("v0.8.0", "v0.12.0", "v0.12.5")
FORMS = ("launched", "external")

Rows = dict[str, Callable[[Node], str]]


class Row(NamedTuple):
    form: str
    version: str
    what: str
    failed: bool
    result: str
    seconds: float


def main() -> int:
    arguments = parse()
    print(f"seed {arguments.seed}, {arguments.kills} kills in each kill loop", flush=True)
    try:
        for version in arguments.nri:
            peer("runtime", version)
    except PeerMissing as missing:
        print(f"no fault matrix here: {missing}")
        return int(os.environ.get("REQUIRE_PEERS") == "1")
    places = [(form, version, arguments.standby) for version in arguments.nri for form in arguments.form]
    nodes = [(place, rows) for place in places for rows in plan(arguments)]
    failed = count = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for table in pool.map(lambda of: list(on_one_node(*of)), nodes):
            for row in table:
                outcome = "FAILED" if row.failed else "passed"
                print(f"{row.form:8}  {row.version:7}  {row.what:38}  {outcome}  {row.seconds:5.1f} s  {row.result}")
                count, failed = count + 1, failed + row.failed
            sys.stdout.flush()
    print(f"{count - failed} passed, {failed} failed")
    return int(failed > 0)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("--kills", type=int, default=20, help="kills of each kill loop, up to 200")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--form", action="append", choices=FORMS)
    parser.add_argument("--nri", action="append", choices=VERSIONS)
    parser.add_argument("--standby", type=int, default=0, help="processes of the program that stand by")
    parser.add_argument("--soak", type=int, default=0, metavar="EVENTS", help="a soak, and nothing else")
    arguments = parser.parse_args()
    arguments.form, arguments.nri = arguments.form or FORMS, arguments.nri or VERSIONS
    return arguments


def plan(arguments: argparse.Namespace) -> Iterator[Rows]:
    # What stands by would be told to be deaf before it has its request.
    faults = [fault for fault in FAULTS if not (arguments.standby and fault.what == "deaf")]
    if arguments.soak:
        yield {"soak": partial(soak, events=arguments.soak, seed=arguments.seed, faults=faults)}
        return
    program: Rows = {
        f"{state}: {fault.what}": partial(program_fault, fault=fault, state=state)
        for fault in faults
        for state in ("create", "delete")
    }
    for what in ("missing",) if arguments.standby else ("busy", "missing"):  # what stands by need not be started
        for state in ("create", "delete"):
            program[f"{state}: program {what}"] = partial(not_started, what=what, state=state)
    loop: Rows = {"kill loop": partial(kill_loop, kills=arguments.kills, seed=arguments.seed)}
    apart: list[Rows] = [{what: row} for what, row in ADAPTER_FAULTS.items()]
    apart += [{"state: disk full": disk_full}, {"state: directory removed": directory_removed}]
    apart += [{"state: journal at its bound": journal_at_its_bound}]
    apart += [{"owner stopped": owner_stopped}, {"three adapters, 12 ends": partial(three, seed=arguments.seed)}]
    for rows in (program, *apart, loop):
        if chosen := {what: row for what, row in rows.items() if arguments.only in what}:
            yield chosen


def on_one_node(place: tuple[str, str, int], rows: Rows) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as directory:
        node = Node(Path(directory), *place)
        try:
            for what, row in {"start": start, **rows}.items():
                begin = time.monotonic()
                failed, result = outcome(node, row)
                if failed or what != "start":
                    yield Row(node.form, node.version, what, failed, result, time.monotonic() - begin)
        finally:
            node.close()


def outcome(node: Node, row: Callable[[Node], str]) -> tuple[bool, str]:
    try:
        return False, row(node)
    except (Finding, RuntimeError, OSError) as error:
        return True, f"{error!r}\n{node.log()[-6000:]}"


if __name__ == "__main__":
    sys.exit(main())
