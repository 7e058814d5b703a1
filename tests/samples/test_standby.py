"""The samples may stand by: each waits for its request, and fails without one."""

from __future__ import annotations

from pathlib import Path

from adapter.commands.check.probe import with_empty_stdin
from adapter.loop import Loop
from adapter.process import Process, Program

from .plugins import PATH, SAMPLES

WAIT = 1.0
"""Seconds, as those of `check -probe`; on a machine that stands still they show less, and nothing wrong."""


def test_each_sample_waits_for_its_request_and_fails_without_one(tame_dump: Path) -> None:
    found = [path for path in SAMPLES.iterdir() if path.is_file() and path.stat().st_mode & 0o111]
    paths = [tame_dump if path.name == "dump" else path for path in found]
    assert len(paths) == 7
    programs = [Program(path.name, str(path), (path.name, "invoke"), {"PATH": PATH}) for path in paths]
    assert waiting(programs) == {program.name for program in programs}
    for program in programs:
        assert with_empty_stdin(program) == "", program.name


def waiting(programs: list[Program]) -> set[str]:
    """The programs that neither end nor write anything while their stdin is open."""
    loop, spoilt, ended = Loop(), set[str](), list[str]()

    def end(process: Process) -> None:
        ended.append(process.name)
        if len(ended) == len(programs):
            loop.stop()

    processes = [Process(loop, program, lambda process: spoilt.add(process.name), spoilt.add) for program in programs]
    for process in processes:
        process.stand_by(lambda name=process.name: spoilt.add(name))  # type: ignore[misc]
    loop.call_at(loop.time() + WAIT, loop.stop)
    loop.run()
    for process in processes:
        process.discard(end)
    loop.run()
    loop.close()
    return {program.name for program in programs} - spoilt
