"""Fuzzes the targets, one after the other, under libFuzzer, which looks for inputs that reach more of the adapter.

Such inputs are kept in .cache/fuzz, and the next run begins with them. An input that breaks a target's invariant is
kept there too, and printed; as a file in tests/fuzz/findings/TARGET, pytest plays it from then on.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from base64 import b64encode
from pathlib import Path

from tests.fuzz.target import TARGETS

CACHE = Path(".cache/fuzz")
MOST_SHOWN = 6000  # bytes of a failing input that are printed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"by default all: {', '.join(TARGETS)}")
    arguments = parser.parse_args()
    targets = arguments.targets or TARGETS
    if unknown := set(targets) - set(TARGETS):
        parser.error(f"no such target: {', '.join(unknown)}")
    print(f"seed {arguments.seed}, {arguments.seconds} s for each target", flush=True)
    found = sum(not fuzz(name, arguments.seconds, arguments.seed) for name in targets)
    print(f"{len(targets) - found} passed, {found} failed")
    return int(found > 0)


def fuzz(name: str, seconds: int, seed: int) -> bool:
    folder = CACHE / name
    options = (f"-seed={seed}", f"-max_total_time={seconds}", f"-artifact_prefix={folder}/", "-print_final_stats=1")
    command = [
        sys.executable,
        "-m",
        "tests.fuzz.child",
        name,
        str(folder),
        *options,
        "-timeout=60",
        "-rss_limit_mb=1024",
    ]
    with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:  # libFuzzer's end of a process cleans nothing up
        environment = {**os.environ, "PYTHONHASHSEED": "0", "TMPDIR": scratch}
        ended = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
    log = ended.stdout.decode(errors="replace")
    outcome = "FAILED" if ended.returncode else "passed"
    print(f"{name:8}  {outcome}  {figure('number_of_executed_units: *', log)} inputs, ", end="")
    print(f"{figure('cov: ', log)} edges of the adapter, {figure('corp: ', log)} inputs kept", flush=True)
    if ended.returncode:
        print(explained(log))
    return ended.returncode == 0


def figure(name: str, log: str) -> str:
    return str((re.findall(rf"{name}(\d+)", log) or ["?"])[-1])


def explained(log: str) -> str:
    lines = [line for line in log.splitlines() if not re.match(r"#\d|INFO|WARNING|stat::|\"", line)]
    if kept := re.search(r"Test unit written to (.*)", log):
        data = Path(kept[1]).read_bytes()
        lines.append(f"in base64: {b64encode(data).decode() if len(data) <= MOST_SHOWN else 'too long'}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
