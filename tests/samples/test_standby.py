"""The samples may stand by: each waits for its request, and fails without one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from adapter.cli.check.probe import with_empty_stdin, with_open_stdin
from adapter.programs.process import Program

from .plugins import PATH, SAMPLES


def test_each_sample_waits_for_its_request_and_fails_without_one(tame_dump: Path) -> None:
    """On a machine that stands still the wait shows less, and nothing wrong."""
    found = [path for path in SAMPLES.iterdir() if path.is_file() and path.stat().st_mode & 0o111]
    paths = [tame_dump if path.name == "dump" else path for path in found]
    assert len(paths) == 7
    programs = [Program(path.name, str(path), (path.name, "invoke"), {"PATH": PATH}) for path in paths]
    with ThreadPoolExecutor(len(programs)) as pool:
        with_open, with_empty = pool.map(with_open_stdin, programs), pool.map(with_empty_stdin, programs)
        faults = {program.name: "".join(both) for program, *both in zip(programs, with_open, with_empty, strict=True)}
    assert faults == dict.fromkeys(faults, "")
