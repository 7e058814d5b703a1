"""An NRI plugin that holds the start of containers, launched by the runtime: the container's name says how it ends."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Thread

from tests.e2e.pod import STATE, Cri, HarnessError, Sandbox, until
from tests.e2e.runtimes import Crio, Runtime

PLUGIN = Path("/opt/nri/plugins/40-holding")
SETTINGS = "legacy: {config: /etc/nri/holding/conf.json}\n"
"""The adapter beside it has nothing to do."""
TOLD = STATE / "told"
"""The directory in which the plugin and the run tell each other, by files: NAME.held, NAME.go, NAME.refuse, pid."""
PROGRAM = f"""#!{sys.executable}
import asyncio, os
from pathlib import Path
from nri import Plugin, run

told = Path({str(TOLD)!r})

class Holding(Plugin):
    holds = True
    hold_directory = {str(STATE / "holds")!r}

    def on_join(self):
        (told / "pid").write_text(str(os.getpid()))

    async def start_container(self, request, context):
        name = request.container.name
        if name == "free":
            return
        hold = context.hold(60)
        (told / f"{{name}}.held").touch()
        while hold.end is None:
            if (told / f"{{name}}.go").exists():
                hold.let_go()
            elif (told / f"{{name}}.refuse").exists():
                hold.refuse()
            await asyncio.sleep(0.01)

run(Holding())
"""


def prepare() -> None:
    """Installs the plugin."""
    TOLD.mkdir(parents=True)
    PLUGIN.parent.mkdir(parents=True, exist_ok=True)
    PLUGIN.write_text(PROGRAM)
    PLUGIN.chmod(0o755)


class Start(Thread):
    """A StartContainer that waits."""

    def __init__(
        self, cri: Cri, pod: Sandbox, name: str, options: Sequence[str] = (), more: Mapping[str, object] = {}
    ) -> None:
        """Takes options of crictl, and more of the container's description."""
        super().__init__(daemon=True)
        self._cri, self._options = cri, options
        self._log = STATE / "logs" / pod.name / f"{name}.log"
        self.name, self.id, self.error = name, cri.create(pod, name, **more), ""
        self.start()
        until((TOLD / f"{name}.held").exists, f"{name} to be held")

    def run(self) -> None:
        try:
            self._cri(*self._options, "start", self.id)
        except HarnessError as error:
            self.error = str(error)

    def cancel(self) -> None:
        """Kills the client that waits for the start."""
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (path / "cmdline").read_bytes().split(b"\0")
                if words[0].endswith(b"crictl") and self.id.encode() in words:
                    os.kill(int(path.name), signal.SIGKILL)
        self.join(60)

    def tell(self, how: str) -> None:
        """Tells the plugin how the hold ends."""
        (TOLD / f"{self.name}.{how}").touch()

    def faults(self, starts: bool) -> Iterator[str]:
        """Waits for the answer; yields what is wrong."""
        self.join(60)
        if self.is_alive():
            yield f"{self.name}: its start does not end"
        elif starts:
            if self.error:
                yield f"{self.name}: its start has failed: {self.error}"
            until(self.has_run, f"the program of {self.name} to run")
        elif not self.error or self.has_run():
            yield f"{self.name}: it must not start: {self.error or 'no error'}; it has run: {self.has_run()}"

    def has_run(self) -> bool:
        return self._log.exists() and "started" in self._log.read_text(errors="replace")


def ends(runtime: Runtime, cri: Cri, pod: Sandbox, start: Callable[[Sandbox, str], Start]) -> Iterator[str]:
    """Starts containers that are held, beside one that is not; yields what is wrong at the ends of the holds."""
    go, refused = start(pod, "go"), start(pod, "refused")
    cri("start", cri.create(pod, "free"))
    if go.has_run() or not go.is_alive() or not refused.is_alive():
        yield "a container starts before its plugin is done"
    go.tell("go")
    yield from go.faults(starts=True)
    refused.tell("refuse")
    yield from refused.faults(starts=False)
    if not isinstance(runtime, Crio):  # it stops the pod after the hold
        other = cri.run_pod("p2")
        stopped = start(other, "stopped")
        cri("stopp", other.id)
        yield from stopped.faults(starts=False)
        stopped.tell("go")
        cri("rmp", "-f", other.id)


def play(runtime: Runtime, cri: Cri) -> Iterator[str]:
    until((TOLD / "pid").exists, "the plugin to be registered")
    pod = cri.run_pod()
    yield from ends(runtime, cri, pod, partial(Start, cri))
    killed = Start(cri, pod, "killed")
    os.kill(int((TOLD / "pid").read_text()), signal.SIGKILL)
    yield from killed.faults(starts=False)
    cri("rmp", "-f", pod.id)
