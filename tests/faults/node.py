"""A node: a Go runtime, an adapter in one of its two forms, the pods that live, and the fault program's notes."""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple

from tests.e2e.pod import HarnessError as Finding
from tests.e2e.pod import until
from tests.peers.harness import CONTAINER, NAME, POD, GoRuntime, Reply
from tests.rig.interpreter import FIRST_LINE
from tests.rig.processes import children_of
from v010_adapter.state.ledger import decode

VERSIONS = ("v0.8.0", "v0.12.0", "v0.12.5")
LIMIT = 2_000_000  # microseconds that a runtime waits for a plugin by default
STEPS = ["RunPodSandbox", "StartContainer", "StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox"]
SETTINGS = """
legacy: {{config: {0}/conf.json, path: [{0}], lateLimit: 3}}
hooks: {{enabled: false}}
state: {{directory: {0}/state}}
runtime: {{socket: {0}/nri.sock}}
log: {{target: stderr}}
"""
# The back-off is short, and the log goes to a file: a runtime connects stderr with /dev/null.
COMMAND = """{1}
import os, sys
from v010_adapter.cli import entry
from v010_adapter.daemon import guard
os.dup2(os.open("{0}/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 2)
guard.LONGEST_WAIT = 0.2
sys.exit(entry.main())
"""
# The file `fault` has the state and id of a request, and what to do at it.
PLUGIN = """#!/bin/sh
cd '{0}' || exit
[ -e fault ] && read -r at fault < fault
if [ "$fault" = deaf ]; then exec <&-; echo "$at" >> notes; exec >&-; exit; fi
IFS= read -r request
state=${{request#*'"state":"'}} id=${{request#*'"id":"'}}
request=${{state%%'"'*}}:${{id%%'"'*}}
echo "$request" >> notes
[ "$at" = "$request" ] || fault=
case $fault in
error) echo '{{"error":"as told"}}'; exit 1 ;;
half) printf '{{"plugin":"leg'; exit ;;
mute) exec >&-; exec sleep 0.3 ;;
flood) exec head -c 3000000 /dev/zero ;;
noise) head -c 3000000 /dev/zero | tr '\\0' '\\n' >&2 ;;
linger) sleep 3 & ;;
hold) sleep 0.5 ;;
slow) sleep 2.5 ;;
hang) exec sleep 8 ;;
esac
echo '{{}}'
"""


class PodLife(NamedTuple):
    pod: dict[str, Any]
    container: dict[str, Any]

    @classmethod
    def make(cls, name: str) -> PodLife:
        pod, container = copy.deepcopy(dict(POD)), copy.deepcopy(dict(CONTAINER or {}))
        pod.update(id=f"p-{name}", pid=os.getpid())
        container.update(id=f"c-{name}", pod_sandbox_id=pod["id"], pid=os.getpid(), state="CONTAINER_CREATED")
        return cls(pod, container)


class GoNode:
    """Everything lies in one directory. `form` is launched or external."""

    def __init__(self, directory: Path, form: str, version: str) -> None:
        self.directory, self.form, self.version = directory, form, version
        self.until = partial(until, seconds=60, folder=directory)
        self.lives: list[PodLife] = []
        self.launched = self.guard = self._killed = 0
        self.externals: list[subprocess.Popen[bytes]] = []
        self._runtimes: list[GoRuntime] = []
        for name, text in (("adapter", COMMAND), ("legacy-fp", PLUGIN), ("settings", SETTINGS)):
            (directory / name).write_text(text.format(directory, FIRST_LINE))
            (directory / name).chmod(0o755)
        (directory / "conf.json").write_text(json.dumps({"version": "0.1", "plugins": [{"type": "legacy-fp"}]}))

    @property
    def runtime(self) -> GoRuntime:
        return self._runtimes[-1]

    def start_runtime(self) -> None:
        folder = self.directory / f"runtime{len(self._runtimes)}"
        folder.mkdir()
        runtime = GoRuntime(folder, self.version)
        runtime.socket = self.directory / "nri.sock"
        self._runtimes.append(runtime.__enter__())
        if self.form == "launched":
            text = (self.directory / "settings").read_text()
            runtime.open(self.directory / "adapter", text, socket=runtime.socket)
        else:
            runtime.open()
        self._tell()
        if error := runtime.play("start").error:
            raise Finding(error)
        if self.form == "launched":
            (self.launched,) = self.joined()
            (self.guard,) = children_of(self.launched)

    def start_external(self, index: str = "00", socket: Path | None = None) -> None:
        words = [self.directory / "adapter", "-idx", index, "-name", "v010-adapter"]
        words += ["-socket", socket or self.directory / "nri.sock", "-config", self.directory / "settings"]
        self.externals.append(subprocess.Popen(list(map(str, words))))

    @property
    def server(self) -> int:
        """The pid of the process that serves events; 0 if there is none at the moment."""
        if self.form == "external":
            return self.externals[-1].pid
        return next((pid for pid, state in children_of(self.guard).items() if state != "Z"), 0)

    def kill(self) -> None:
        """Kills the server. An external one is started again, as a service manager does."""
        self.until(lambda: self.server not in (0, self._killed), "a server to kill")
        self._killed = self.server
        if not self._killed:
            raise Finding("the server has gone by itself")
        os.kill(self._killed, signal.SIGKILL)
        if self.form == "external":
            self.externals[-1].wait()
            self.start_external()

    def joined(self) -> list[int]:
        """The pids of the plugins that the runtime has."""
        return [plugin.pid for plugin in self.runtime.play("plugins").plugins]

    def joins(self) -> None:
        def has_joined() -> bool:
            pids = self.joined()
            return pids in ([self.server], [self.launched]) and Path(f"/proc/{pids[0]}").exists()

        self.until(has_joined, "the adapter joins")

    def rejoins(self) -> None:
        self.until(lambda: self.joined() == [self.server], "the adapter joins again")

    def play(self, event: str, life: PodLife, limit: int = LIMIT) -> Reply:
        """Plays an event, which takes less than so many microseconds.

        What a Synchronize would tell changes with it, as it does in containerd.
        """
        if event == "StopContainer":
            life.container.update(state="CONTAINER_STOPPED")
        elif event == "StopPodSandbox":
            life.pod.update(pid=0)
        self._tell()
        reply = self.runtime.event(event, life.pod, life.container)
        if event == "RunPodSandbox":
            self.lives.append(life)
        elif event == "StartContainer":
            life.container.update(state="CONTAINER_RUNNING")
        elif event == "RemovePodSandbox":
            self.lives.remove(life)
        self._tell()
        if reply.us >= limit:
            raise Finding(f"{event} took {reply.us / 1e6:.2f} s")
        return reply

    def plays(self, life: PodLife, *events: str) -> None:
        for event in events:
            reply = self.play(event, life)
            if (reply.error, reply.names) != ("", [NAME]):
                raise Finding(f"{event}: {reply.error!r}, then there are {reply.names}")

    @contextmanager
    def fault(self, state: str, life: PodLife, fault: str, then: Callable[[], object] = int) -> Iterator[None]:
        """Lets the program misbehave at one request; `then` is called as soon as the program has the request."""
        file, at = self.directory / "fault", f"{state}:{life.container['id']}"
        file.write_text(f"{at} {fault}\n")

        def act() -> None:
            self.until(lambda: self.notes()[at], f"the request {at}")
            then()
            done.set()

        done, thread = Event(), Thread(target=act)
        thread.start()
        try:
            yield
        finally:
            thread.join()
            file.unlink()
        if not done.is_set():
            raise Finding(f"the request {at} never came")

    def _tell(self) -> None:
        pods = [{key: life.pod[key] for key in ("id", "pid")} for life in self.lives]
        containers = [{key: life.container[key] for key in ("id", "pod_sandbox_id", "state")} for life in self.lives]
        self.runtime.play("state", pods=pods, containers=containers)

    def notes(self) -> Counter[str]:
        file = self.directory / "notes"
        return Counter(file.read_text().split()) if file.exists() else Counter()

    def owed(self) -> set[str]:
        """The ids whose records have creates without an ended delete."""
        owed = set()
        for file in self.directory.glob("state/*/+*"):
            with suppress(FileNotFoundError):  # the last delete has just ended
                if record := decode(file.name, file.read_bytes()):
                    owed.add(record.target.id)
        return owed

    def log(self) -> str:
        return "\n".join(file.read_text() for file in (self.directory / "log", self.runtime.log) if file.exists())

    def terminate_externals(self) -> None:
        for process in self.externals:
            process.terminate()
            process.wait()
        self.externals.clear()

    def close(self) -> None:
        self.terminate_externals()
        for runtime in self._runtimes:
            runtime.close()


def balance(notes: Counter[str], ids: set[str], kills: int = 0, excused: Collection[str] = ()) -> str:
    """Checks that each create has its delete. A kill may cost one delete too many. Returns figures.

    `excused` are the ids whose create may have run twice, and whose delete may be lost.
    """
    created = {id_ for id_ in ids if notes[f"create:{id_}"]}
    twice = [id_ for id_ in created if notes[f"create:{id_}"] > 1 and id_ not in excused]
    missing = [id_ for id_ in created if not notes[f"delete:{id_}"] and id_ not in excused]
    repeated = sum(max(notes[f"delete:{id_}"] - 1, 0) for id_ in created)
    needless = sum(notes[f"delete:{id_}"] for id_ in ids - created)
    figures = f"{len(created)} creates of {len(ids)}, {repeated} deletes repeated, {needless} without a create"
    if twice or missing or repeated + needless > kills:
        raise Finding(f"{figures}; twice created: {twice}, no delete: {missing}")
    return figures
