"""The adapter is killed, and comes back, while it holds containers: what becomes of them, and of their deletes.

Environment: KILLS, how often; KILLS_POLICY, `fail` or `ignore`; KILLS_FORM, `launched` by the runtime or `service`;
KILLS_SEED. The figures are printed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from random import Random
from threading import Event, Thread

from tests.e2e.around_holds import Timed, say
from tests.e2e.held import HELD
from tests.e2e.launched import Launched, Syslog
from tests.e2e.pod import STATE, Cri, until

KILLS = int(os.environ.get("KILLS", "50"))
POLICY = os.environ.get("KILLS_POLICY", "fail")
FORM = os.environ.get("KILLS_FORM", "launched")
SEED = int(os.environ.get("KILLS_SEED", "0"))
CONF = Path("/etc/nri/kills/conf.json")
LIMIT = 4
SETTINGS = f"legacy: {{config: {CONF}, onFailure: {POLICY}, holdAfter: 0, holdLimit: {LIMIT}}}\n"
SLACK = 2.0
"""Seconds that a start takes besides its hold, on a machine that does other things."""
CONTAINERS = 3
LONGEST = 6.0
"""Seconds that a plugin takes at most: longer than the limit."""
SERVICE_LOG = STATE / "service.log"
RUNS = STATE / "runs.jsonl"
TAKES = f"""#!{sys.executable} -IS
import json, sys, time

request = json.load(sys.stdin)
ends = "container-name", "container.name"
name = next((value for key, value in request["spec"]["annotations"].items() if key.endswith(ends)), "")
def note(what):
    with open({str(RUNS)!r}, "a") as runs:
        runs.write(json.dumps([request["id"], what, time.time()]) + "\\n")
note(request["state"])
if request["state"] == "create" and name.startswith("takes-"):
    time.sleep(float(name.split("-")[1]) / 1000)  # the work of the plugin
    note("done")
print("{{}}")
"""
EXPECTED = (
    "the process before this one was killed by signal 9",
    "no result within",
    "no time was left",
    "not run: ",
    "the connection with the runtime is lost",
)


class Service(Thread):
    """Starts the adapter again whenever it has ended, as a service manager does."""

    def __init__(self, adapter: Path) -> None:
        super().__init__(daemon=True)
        self._line = [str(adapter), "run", "-idx", "00", "-name", "v010-adapter", "-socket", "/run/nri/nri.sock"]
        self._over = Event()
        SERVICE_LOG.touch()
        self.start()

    def run(self) -> None:
        environment = {"PATH": os.environ["PATH"], "JOURNAL_STREAM": ""}
        while not self._over.is_set():
            with SERVICE_LOG.open("ab") as log:
                self.process = subprocess.Popen(self._line, stdout=log, stderr=log, env=environment)
            self.process.wait()

    def stop(self) -> None:
        self._over.set()
        self.process.terminate()


class Adapter:
    """The adapter in either form, by its log."""

    def __init__(self, syslog: Syslog, service: Service | None) -> None:
        self._syslog, self._service = syslog, service

    def lines(self) -> list[str]:
        """Returns its log."""
        return SERVICE_LOG.read_text(errors="replace").splitlines() if self._service else self._syslog.lines

    def kill(self) -> None:
        """Kills the process that serves."""
        if self._service:
            self._service.process.kill()
        else:
            Launched(self._syslog).kill()

    def registered(self) -> int:
        """Returns how often it has joined."""
        return sum("registered with" in line for line in self.lines())

    def wait_until_registered(self, times: int) -> None:
        until(lambda: self.registered() >= times, f"the adapter to join {times} times")

    def has_held(self, name: str) -> bool:
        """Whether a container has been held."""
        return any(HELD in line and name in line for line in self.lines())


def prepare() -> None:
    """Installs the plugin."""
    plugin = Path("/opt/nri/bin/takes")
    for folder in (plugin.parent, CONF.parent):
        folder.mkdir(parents=True, exist_ok=True)
    plugin.write_text(TAKES)
    plugin.chmod(0o755)
    CONF.write_text(json.dumps({"version": "0.1", "plugins": [{"type": plugin.name}]}))


def play(cri: Cri, syslog: Syslog, program: Path) -> Iterator[str]:
    """Kills the adapter again and again; yields what is wrong."""
    service = Service(program) if FORM == "service" else None
    chance, adapter = Random(SEED), Adapter(syslog, service)  # noqa: S311 - no secret
    adapter.wait_until_registered(1)
    count: Counter[str] = Counter()
    longest = 0.0
    for number in range(KILLS):
        pod = cri.run_pod(f"kill{number}")
        takes = [int(1000 * chance.choice((chance.uniform(0, 2), LONGEST))) for _ in range(CONTAINERS)]
        names = [f"takes-{each}-{number}-{place}" for place, each in enumerate(takes)]
        ids = {name: cri.create(pod, name) for name in names}
        before = adapter.registered()
        starts = {name: Timed(partial(cri, "start", id_)) for name, id_ in ids.items()}
        killed_after = chance.uniform(0.05, LIMIT + 1)
        time.sleep(killed_after)  # the moment of the kill is the subject
        adapter.kill()
        for name, start in starts.items():
            seconds = start.ended(f"the start of {name}")
            longest = max(longest, seconds)
            if seconds > LIMIT + SLACK:
                say("\n    ".join(line for line in adapter.lines() if name in line))
                yield f"{name}: its start takes {seconds:.1f} s; the adapter was killed after {killed_after:.1f} s"
        adapter.wait_until_registered(before + 1)
        for name, id_ in ids.items():
            log = STATE / "logs" / pod.name / f"{name}.log"
            if not starts[name].has_failed:
                until(partial(has_started, log), f"the program of {name} to run")
            yield from _judge(name, id_, log, held=adapter.has_held(name), count=count)
        cri("rmp", "-f", pod.id)
        yield from _deletes(ids)
    if service:
        service.stop()
        syslog.lines += [f"<6>{line}" for line in adapter.lines()]
    say(f"{FORM}, {POLICY}, {KILLS} kills: {dict(count)}; the longest start took {longest:.2f} s, limit {LIMIT} s")


def has_started(log: Path) -> bool:
    return log.exists() and "started" in log.read_text()


def moment(log: Path) -> float:
    """Returns when a container's program has written its first line."""
    stamp = log.read_text().split()[0]
    whole, _, rest = stamp.partition(".")
    return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float("0." + rest.rstrip("Z").split("+")[0])


def _judge(name: str, id_: str, log: Path, *, held: bool, count: Counter[str]) -> Iterator[str]:
    """Counts what has become of a container; yields what is wrong."""
    has_run = has_started(log)
    ends = [at for run, what, at in _runs() if run == id_ and what == "done"]
    is_early = has_run and (not ends or moment(log) < ends[0])
    count[f"{'held' if held else 'not held'}, {'not run' if not has_run else 'run early' if is_early else 'run'}"] += 1
    if held and is_early and POLICY == "fail":
        yield f"{name}: it runs before its plugin is done"


def _deletes(ids: dict[str, str]) -> Iterator[str]:
    """Waits for the deletes of containers; yields those that have not had one."""

    def counts(id_: str) -> tuple[int, int]:
        runs = Counter(what for run, what, _ in _runs() if run == id_)
        return runs["create"], runs["delete"]

    for name, id_ in ids.items():
        until(lambda id_=id_: counts(id_)[0] <= counts(id_)[1], f"the delete of {name}")  # type: ignore[misc]
        creates, deletes = counts(id_)
        if (creates, deletes) not in ((1, 1), (0, 0), (0, 1)):
            yield f"{name}: {creates} creates, {deletes} deletes"


def _runs() -> list[tuple[str, str, float]]:
    return [json.loads(line) for line in RUNS.read_text().splitlines()] if RUNS.exists() else []
