"""Hooks that print, fail or hang: what they print is in the journal, they are found by name, and they end.

The journal is systemd's own, started for this run.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.e2e import build, hooks
from tests.e2e.launched import Syslog
from tests.e2e.pod import POD, STATE, Cri, HarnessError, Sandbox, command, until
from tests.e2e.runtimes import Crio, Runtime

ADAPTER = Path(os.environ.get("E2E_ADAPTER") or Path(sys.executable).with_name("v010-adapter"))
SETTINGS = """\
hooks:
  enabled: true
  output: journal
  timeout: 2
  files: {fails.json: {notIn: [kube-system]}}
"""
PODS, CONTAINERS = 10, 20  # of each pod
JOURNALD = Path("/lib/systemd/systemd-journald")
STREAM = Path("/run/systemd/journal/stdout")
SAYS, CHILD = STATE / "says", STATE / "child"
SAY = """#!/bin/sh
read -r state
id=${state#*\\"id\\":\\"}
echo "$1 ${id%%\\"*} out"
echo "$1 ${id%%\\"*} err" >&2
"""
FAILS, HANGS = "hooks.example.com/fails", "hooks.example.com/hangs"


def prepare() -> None:
    hooks.prepare()
    SAYS.write_text(SAY)
    SAYS.chmod(0o755)
    stages = "createRuntime", "createContainer", "poststop"
    for stage in stages:
        hooks.write(f"a-{stage}.json", {"path": str(SAYS), "args": ["says", stage]}, [stage])
    fails = {"path": "/bin/sh", "args": ["sh", "-c", "echo broken; exit 7"]}
    hooks.write("fails.json", fails, ["createRuntime"], annotations={f"^{FAILS}$": ""})
    hangs = {"path": "/bin/sh", "args": ["sh", "-c", f"sleep 1000 & echo $! >{CHILD}; wait"]}
    hooks.write("hangs.json", hangs, ["createRuntime"], annotations={f"^{HANGS}$": ""})


@contextmanager
def journal() -> Iterator[None]:
    daemon = subprocess.Popen([JOURNALD], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(STREAM.exists, "the journal")
        yield
    finally:
        daemon.terminate()
        daemon.wait(60)


def play(cri: Cri, syslog: Syslog, runtime: Runtime) -> Iterator[str]:
    names = [f"p{number}" for number in range(PODS)]
    with ThreadPoolExecutor(4) as pool:
        pods = list(pool.map(cri.run_pod, names))
        lives = [(pod, f"c{number}") for pod in pods for number in range(CONTAINERS)]
        ids = list(pool.map(lambda life: _live(cri, *life), lives))
    yield from _unprinted(ids)
    yield from _listed(len(ids))
    yield from _fails(cri, syslog, pods[0], is_crio=isinstance(runtime, Crio))
    yield from _hangs(cri, pods[1])
    yield from _spares_the_namespace(cri)
    for pod in pods:
        cri.end_pod(pod.id)


def _live(cri: Cri, pod: Sandbox, name: str) -> str:
    id_ = cri.create(pod, name)
    cri("start", id_)
    cri("stop", "--timeout", "0", id_)
    cri("rm", id_)
    return id_


def _unprinted(ids: list[str]) -> Iterator[str]:
    for stage in ("createRuntime", "createContainer", "poststop"):
        wanted = {f"{stage} {id_} {stream}" for id_ in ids for stream in ("out", "err")}
        until(lambda: not wanted - _journal_of(f"a-{stage}.json"), f"{stage} of all containers in the journal", 30)  # noqa: B023
        yield from sorted(_journal_of(f"a-{stage}.json") - wanted)


def _journal_of(name: str) -> set[str]:
    return set(command("journalctl", "--quiet", "--output", "cat", "-t", name).splitlines())


def _listed(number: int) -> Iterator[str]:
    listed = {hook["name"]: hook for hook in json.loads(_adapter("list", "-o", "json"))["hooks"]}
    prints, hangs = listed["a-createRuntime.json"], listed["hangs.json"]
    if (prints["containers"], hangs["containers"], hangs["timeout"]) != (number, 0, 2):
        yield f"hooks list: {listed}"


def _adapter(*words: str) -> str:
    environment = os.environ | {
        "PATH": f"{build.CRICTL.cached_at()}:{os.environ['PATH']}",
        "CONTAINER_RUNTIME_ENDPOINT": f"unix://{STATE}/cri.sock",
    }
    line = [str(ADAPTER), "hooks", *words, "-config", "/etc/nri/conf.d/00-v010-adapter.conf"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=90, check=False, env=environment)
    if done.returncode:
        raise HarnessError(f"hooks {' '.join(words)}: {done.returncode}: {done.stderr}{done.stdout}")
    return done.stdout


def _error(cri: Cri, pod: Sandbox, name: str, annotation: str) -> tuple[str, str]:
    """Returns the id of a container that does not start, empty if it was not created, and the runtime's error."""
    id_ = ""
    try:
        id_ = cri.create(pod, name, annotations={annotation: "yes"})
        cri("start", id_)
    except HarnessError as error:
        return id_, str(error)
    raise HarnessError(f"the container with {annotation} has started")


def _fails(cri: Cri, syslog: Syslog, pod: Sandbox, *, is_crio: bool) -> Iterator[str]:
    """From the number in the runtime's error to the file in one step: `hooks match`, or the adapter's log."""
    id_, error = _error(cri, pod, "fails", FAILS)
    number = re.search(r"hook #(\d+)", error)
    if not number or "exit status 7" not in error:
        yield f"the error names no hook: {error}"
        return
    place = f"createRuntime #{number[1]}"
    if not is_crio:  # which removes a container that it could not create
        told = _adapter("match", id_[:12])
        if not re.search(rf"^{place} +fails\.json ", told, re.MULTILINE) or "not known" in told:
            yield f"hooks match: {told}"
        cri("rm", id_)
    until(lambda: syslog.has(f"{place}: fails.json"), "the hook in the adapter's log")
    if "broken" not in _journal_of("fails.json"):
        yield "the journal lacks what the hook has printed"


def _hangs(cri: Cri, pod: Sandbox) -> Iterator[str]:
    """The hook's child holds the hook's output: runc would wait for that of a pipe."""
    id_, error = _error(cri, pod, "hangs", HANGS)
    if "ran past specified timeout of 2" not in error:
        yield f"the hook that hangs: {error}"
    if id_:
        cri("rm", id_)
    os.kill(int(CHILD.read_text()), signal.SIGKILL)


def _spares_the_namespace(cri: Cri) -> Iterator[str]:
    metadata = {"name": "system", "namespace": "kube-system", "uid": "uid-system"}
    logs = STATE / "logs/system"
    logs.mkdir(parents=True)
    file = cri.file("system", POD | {"metadata": metadata, "log_directory": str(logs)})
    pod = Sandbox("system", cri("runp", file).strip(), file)
    id_ = cri.create(pod, annotations={FAILS: "yes"})
    cri("start", id_)
    told = _adapter("match", id_)
    if "the pod's namespace is 'kube-system' (notIn)" not in told or "createRuntime #0" not in told:
        yield f"hooks match: {told}"
    cri("stop", "--timeout", "0", id_)
    cri("rm", id_)
    cri.end_pod(pod.id)
