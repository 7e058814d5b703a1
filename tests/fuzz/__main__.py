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
    options = [f"-seed={seed}", f"-max_total_time={seconds}", f"-artifact_prefix={folder}/", "-print_final_stats=1"]
    command = [sys.executable, "-m", "tests.fuzz.child", name, str(folder), *options]
    command += ["-timeout=60", "-rss_limit_mb=1024"]
    with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:  # libFuzzer's end of a process cleans nothing up
        environment = {**os.environ, "PYTHONHASHSEED": "0", "TMPDIR": scratch}
        ended = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
    log = ended.stdout.decode(errors="replace")
    figures = {word: re.findall(rf"{word}: *(\d+)", log) or ["?"] for word in ("executed_units", "cov", "corp")}
    units, edges, kept = (found[-1] for found in figures.values())
    outcome = "FAILED" if ended.returncode else "passed"
    print(f"{name:8}  {outcome}  {units} inputs, {edges} edges of the adapter, {kept} inputs kept", flush=True)
    if ended.returncode:
        print(*(line for line in log.splitlines() if not re.match(r"#\d|INFO|WARNING|stat::|\"", line)), sep="\n")
        if unit := re.search(r"Test unit written to (.*)", log):
            print("in base64:", b64encode(Path(unit[1]).read_bytes()).decode()[:MOST_SHOWN])
    return ended.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
