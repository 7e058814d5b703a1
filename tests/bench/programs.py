"""The legacy plugins of the benchmark, in four languages: each notes its run in the file that its conf names.

And what the machine itself takes to run them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.bench.arena import Arena
from tests.bench.figures import Bench, Row
from tests.peers.build import PeerMissing, c_program, peer

ONES = (1, "C"), (1, "Go"), (1, "shell"), (1, "Python")
WORDS = {1: "one", 3: "three"}
_RESULT = '{"plugin":"p","version":"0.1","error":"","metadata":{"k":"v"}}'
_SHELL = f"""#!/bin/sh
request=$(/bin/cat)
log=${{request#*'"log":"'}}
[ "$log" != "$request" ] || exit 1
printf . >>"${{log%%'"'*}}"
printf %s '{_RESULT}'
"""
_PYTHON = f"""#!{Path(sys.executable).resolve()}
import json, sys

request = json.load(sys.stdin)
with open(request["conf"]["log"], "a") as log:
    log.write(".")
sys.stdout.write('{_RESULT}')
"""


def plugins(directory: Path, bench: Bench) -> dict[str, Path]:
    """Return the programs by language; those that the machine cannot make are named as missing."""
    found = {}
    try:
        found["C"] = c_program("plugin")
    except PeerMissing as reason:
        bench.missing.append(f"plugins in C: {reason}")
    found["Go"] = peer("plugin")
    for language, text in (("shell", _SHELL), ("Python", _PYTHON)):
        found[language] = directory / language
        found[language].write_text(text)
        found[language].chmod(0o755)
    return found


def chains(
    measure: Callable[[Bench, Arena, str, list[Path]], Iterator[Row]], bench: Bench, wanted: Sequence[tuple[int, str]]
) -> Iterator[Row]:
    """Measure no plugin, and so many plugins of a language, each in an arena of its own."""
    with Arena() as arena:
        yield from measure(bench, arena, "no plugin", [])
    for count, language in wanted:
        with Arena() as arena:
            program = plugins(arena.directory, bench).get(language)
            if program:
                case = f"{WORDS[count]} {language} plugin" + "s" * (count > 1)
                yield from measure(bench, arena, case, [program] * count)


def floor(arena: Arena, programs: Sequence[Path], count: int) -> list[float]:
    """Return microseconds that it takes to start these programs and to wait for them, with a request as a file."""
    request = arena.directory / "request.json"
    request.write_text(json.dumps({"conf": {"log": "/dev/null"}}, separators=(",", ":")))
    runs = [spawned(count, program, stdin=request) for program in programs]
    return [sum(each) for each in zip(*runs, strict=True)]


def spawned(count: int, *command: Path | str, stdin: Path = Path("/dev/null")) -> list[float]:
    """Return microseconds that a command takes by vfork, exec and wait. Raises PeerMissing."""
    with stdin.open() as given:
        line = [c_program("floor"), str(count), *command]
        told = subprocess.run(line, stdin=given, capture_output=True, text=True, check=True)
    return [int(each) / 1000 for each in told.stdout.split()]
