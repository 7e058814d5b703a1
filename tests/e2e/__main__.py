"""End to end: under each runtime a pod lives and dies, and legacy plugins must see of it what they always saw.

Environment: E2E picks runtimes, E2E_SETUPS setups by name (a comma list); REQUIRE_PEERS=1 turns skips into failures;
E2E_ADAPTER puts another program in the adapter's place: the bundle's, or one to see that checks can fail.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import time
from collections import Counter
from typing import NamedTuple

from tests.e2e.build import CRICTL, built, debian, install_packages
from tests.e2e.runtimes import Runtime
from tests.e2e.scenario import ALL, MOUNTS, SETUPS
from tests.peers.build import PeerBroken, PeerMissing, peer, program
from tests.peers.hook_cases import PACKAGE as PODMANS_HOOKS

SHOWN = 20  # findings of one run
LIMIT = 590  # seconds for one run, which takes two to twenty, and measurements minutes
WANTED = os.environ.get("E2E_SETUPS", "").replace(",", " ").split()
REQUIRED = os.environ.get("REQUIRE_PEERS") == "1"
# Mounts and processes of a run are its own, and end with it; sh is there to reap what is orphaned.
OPTIONS = "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"
NAMESPACES = ["unshare", *OPTIONS, "sh", "-c", '"$@"; exit $?', "sh"]


class Row(NamedTuple):
    runtime: str
    setup: str
    ran: str
    result: str
    seconds: float = 0


def main() -> int:
    if impossible := obstacle():
        print(f"no end-to-end runs here: {impossible}")
        return int(REQUIRED)
    planned = [(runtime, setup) for runtime in chosen() for setup in WANTED or SETUPS if WANTED or runtime.can(setup)]
    rows = []
    for number, (runtime, setup) in enumerate(planned, start=1):
        print(f"{number} of {len(planned)}: {runtime.name} with {SETUPS[setup]}", flush=True)
        rows.append(missing(runtime, setup) or run(runtime, setup))
    print()
    for row in rows:
        print(f"{row.runtime:18}  {SETUPS[row.setup]!s:34}  {row.ran:57}  {row.result:7}  {row.seconds:5.1f} s")
    count = Counter(row.result for row in rows)
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    return int(count["failed"] > 0)


def obstacle() -> str:
    """Why nothing can run on this machine, if so."""
    if os.geteuid():
        return "they need root, to start container runtimes"
    probe = subprocess.run([*NAMESPACES, "true"], capture_output=True, text=True, check=False)
    return probe.stderr.strip() if probe.returncode else ""


def chosen() -> list[Runtime]:
    names = os.environ.get("E2E", "").replace(",", " ").split()
    if unknown := set(names) - {runtime.name for runtime in ALL}:
        sys.exit(f"E2E: unknown: {', '.join(sorted(unknown))}; known: {', '.join(runtime.name for runtime in ALL)}")
    return [runtime for runtime in ALL if not names or runtime.name in names]


def missing(runtime: Runtime, setup: str) -> Row | None:
    """Builds what a run needs that is not there yet; returns the run's row if that is not possible."""
    if reason := _unbuilt(runtime):
        result = "failed" if REQUIRED or isinstance(reason, PeerBroken) else "skipped"
        print(f"    {result}: {reason}")
        return Row(runtime.name, setup, "nothing", result)
    return None


@functools.cache
def _unbuilt(runtime: Runtime) -> PeerMissing | PeerBroken | None:
    """Builds what a runtime's runs need; returns why that is not possible."""
    try:
        install_packages(runtime.packages)
        program("busybox", "busybox-static")
        for recipe in (CRICTL, runtime.recipe, *runtime.more_recipes):
            built(recipe)
        for name in ("recorder", "oracle", "reference"):
            peer(name)
        peer("hookplugin", PODMANS_HOOKS)
        if runtime.can("from-1.6"):
            debian("containerd")
    except (PeerMissing, PeerBroken) as error:
        return error
    return None


def run(runtime: Runtime, setup: str) -> Row:
    started = time.monotonic()
    ran, findings = outcome(runtime, setup)
    result = "failed" if findings else "passed"
    print(f"    {result}", flush=True)
    for finding in findings[:SHOWN]:
        print(f"    {finding}")
    if findings[SHOWN:]:
        print(f"    … and {len(findings) - SHOWN} more")
    return Row(runtime.name, setup, ran, result, time.monotonic() - started)


def outcome(runtime: Runtime, setup: str) -> tuple[str, list[str]]:
    line = [*NAMESPACES, sys.executable, "-m", "tests.e2e.scenario", runtime.name, setup, os.readlink(MOUNTS)]
    try:
        done = subprocess.run(line, stdout=subprocess.PIPE, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return "nothing", [f"not done within {LIMIT} s"]
    if done.returncode:
        return "nothing", [f"the run broke off with {done.returncode}"]
    report = json.loads(done.stdout)
    return report["ran"], report["findings"]


if __name__ == "__main__":
    sys.exit(main())
