"""Programs that stand by under a real runtime serve its events as fresh ones do; the killed server's do no harm."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.daemon.process import children_of
from tests.e2e import hooks
from tests.e2e.beside import Launched, status
from tests.e2e.checks import Call
from tests.e2e.pod import STATE, Cri, until
from tests.e2e.rejoining import Pods, judge
from tests.e2e.runtimes import Runtime
from tests.e2e.syslog import Syslog

CONF, PROGRAMS, RUNS = Path("/etc/nri/legacy/conf.json"), Path("/opt/nri/bin"), STATE / "runs"
SETTINGS = f"""
legacy: {{config: {CONF}, standby: 2, plugins: {{fresh: {{standby: 0}}}}}}
hooks: {{enabled: true, precreate: true, standby: 1}}
"""
PLUGINS = "ahead", "fresh", "hasty"
"""The chain: one that stands by, one that does not, and one that prints before its request."""
PROGRAM = f"""#!/bin/sh
name=${{0##*/}}
[ $name = hasty ] && echo '{{}}'
IFS= read -r request
[ "$request" ] || name=empty
printf '%s %s first %s\\n' $name $$ "$request" >>{RUNS}
case $name in ahead | fresh) echo '{{}}' ;; hook) printf %s "$request" ;; empty) exit 1 ;; esac
"""
"""Each of the plugins, and the hook: notes its run."""
HASTE = "it has written to stdout or stderr before its request"
COMPLETE = {"ahead": (2, ""), "hasty": (0, HASTE), "hook.json": (1, "")}
"""Of each program, how many wait, and why none do."""
WAITING = sum(number for number, _ in COMPLETE.values())
START, END = ["ahead", "hook", "ahead"], ["ahead", "ahead"]
"""The programs that stand by, as they run at the start and at the end of a pod with its container."""
KILLED = "the process before this one was killed by signal 9"


class Run(NamedTuple):
    """What a program notes. The name is `empty` if its stdin was."""

    name: str
    pid: int
    version: str
    request: str


def prepare(runtime: Runtime) -> None:
    runtime.request_timeout = "60s"
    hooks.prepare()
    for folder in (PROGRAMS, CONF.parent):
        folder.mkdir(parents=True)
    for name in (*PLUGINS, "hook"):
        _install(name, PROGRAM)
    CONF.write_text(json.dumps({"version": "0.1", "plugins": [{"type": name} for name in PLUGINS]}))
    hooks.write_precreate("hook.json", {"path": str(PROGRAMS / "hook")})


def play(cri: Cri, adapter: Launched, syslog: Syslog) -> Iterator[str]:
    pods = Pods(cri)
    yield from _served_ahead("a start", partial(pods.start, "p1"), START)
    _standing_by()
    _install("ahead", PROGRAM.replace("first", "second"))
    versions = [run.version for run in _ran(partial(pods.start, "p2")) if run.name == "ahead"]
    if versions != ["second", "second"]:
        yield f"after the replacement, these versions have run: {versions}"
    waiting = _standing_by()
    adapter.kill()
    until(lambda: len(_runs("empty")) >= WAITING, "the programs to see that their server is gone")
    if (empty := {run.pid for run in _runs("empty")}) != waiting:
        yield f"{waiting} stood by when the server was killed, and {empty} saw an empty stdin"
    adapter.wait_until_registered()
    yield from _served_ahead("a start after the kill", partial(pods.start, "p3"), START)
    for name in list(pods.running):
        yield from _served_ahead(f"the end of {name}", partial(pods.end, name), END)
    _standing_by()  # the end of the runtime finds them
    yield from judge({name: [Call.of(run.request) for run in _runs(name)] for name in PLUGINS}, pods, ())
    for ahead, fresh in zip(_runs("ahead"), _runs("fresh"), strict=False):  # how many there are is judged
        if ahead.request[:-1] != fresh.request.partition(',"results":')[0]:
            yield f"the program that stands by has got {ahead.request}, a fresh one {fresh.request}"
    for line in (f"of no use: {HASTE}", f"events start it: {HASTE}"):
        if (times := syslog.count(line)) != 2:
            yield f"two servers have logged {times} times: {line}"


def left_behind() -> Iterator[str]:
    """Yields how many programs have seen an empty stdin when all has ended, if others have than the killed server's."""
    if (number := len(_runs("empty"))) != WAITING:
        yield f"{number} programs have seen an empty stdin"


def _install(name: str, text: str) -> None:
    new = PROGRAMS / f".{name}"
    new.write_text(text)
    new.chmod(0o755)
    os.replace(new, PROGRAMS / name)


def _standing_by() -> set[int]:
    """Waits until the server's children are the programs that stand by, as `status` tells; returns their pids."""
    pids: list[int] = []

    def is_complete() -> bool:
        told = status("-directory", f"{STATE}/adapter")
        crews = {name: (crew["waiting"], crew["off"]) for name, crew in told.get("standby", {}).items()}
        pids[:] = children_of(told["pid"]) if crews == COMPLETE else []
        return len(pids) == WAITING

    until(is_complete, "the programs to stand by")
    return set(pids)


def _served_ahead(what: str, act: Callable[[], None], names: list[str]) -> Iterator[str]:
    """Yields a finding unless just these programs run, and all of them stood by before."""
    waiting = _standing_by()
    runs = [run for run in _ran(act) if run.name in names]
    if [run.name for run in runs] != names or not {run.pid for run in runs} <= waiting:
        yield f"{what}: {waiting} stood by, and {[run[:3] for run in runs]} have run"


def _ran(act: Callable[[], None]) -> list[Run]:
    before, hasty = len(_runs()), len(_runs("hasty"))
    act()
    until(lambda: len(_runs("hasty")) >= hasty + 2, "the chains of the pod and of its container")
    return _runs()[before:]


def _runs(name: str = "") -> list[Run]:
    lines = (line.split(" ", 3) for line in RUNS.read_text().splitlines()) if RUNS.exists() else ()
    return [Run(of, int(pid), *rest) for of, pid, *rest in lines if name in ("", of)]
