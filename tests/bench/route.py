"""The way of an event through a running daemon: its Python calls, their files, and how often it goes to another file.

`python -m tests.bench.route` prints JSON; with `adjust`, for a plugin that adjusts containers; with `-l EVENT`, the
calls of one event. Each event is played ROUNDS times and the shortest way counts: how many turns of the loop an event
takes depends on when its plugin's pipes and its exit come. The shortest StopContainer is one with nothing owed.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import nri
import v010_adapter
from nri import api, events
from nri.testing.flavour import Flavour
from nri.testing.plugin import Plugin
from nri.testing.recorded import recorded
from v010_adapter import settings
from v010_adapter.daemon import daemon
from v010_adapter.daemon.daemon import Origin

ROOT = os.path.dirname(os.path.dirname(v010_adapter.__file__)) + "/"
PLUGIN = "#!/bin/sh\ncat >/dev/null\necho '{}'\n"
ROUNDS = 20
HOOK = {"version": "1.0.0", "hook": {"path": "/bin/true"}, "when": {"always": True}, "stages": ["createRuntime"]}
EVENTS = "CreateContainer", "StartContainer", "StopContainer"
ADJUSTING = {"plugins": {"one": {"events": [*EVENTS]}}}


class Route:
    """The calls of the daemon's thread while it is `open`."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def note(self, frame: FrameType, what: str, _: Any) -> None:
        file = frame.f_code.co_filename
        if what == "call" and file.startswith(ROOT) and not file.startswith(ROOT + "nri/testing/"):
            self.calls.append((file.removeprefix(ROOT), frame.f_code.co_qualname))

    def figures(self) -> dict[str, int]:
        files = [file for file, _ in self.calls]
        moves = sum(one != other for one, other in pairwise(files))
        return {"calls": len(files), "files": len(set(files)), "moves": moves}


def configuration(directory: Path, *, adjusts: bool) -> settings.Settings:
    """A plugin that runs at the usual events or adjusts containers, and a hook for all containers."""
    (directory / "one").write_text(PLUGIN)
    (directory / "one").chmod(0o755)
    (directory / "conf.json").write_text('{"version": "0.1", "plugins": [{"type": "one"}]}')
    (directory / "hooks.d").mkdir()
    (directory / "hooks.d" / "hook.json").write_text(json.dumps(HOOK))
    legacy = {"config": str(directory / "conf.json"), "path": [str(directory)], **(ADJUSTING if adjusts else {})}
    hooks = {"directories": [str(directory / "hooks.d")], "enabled": True}
    state = {"directory": str(directory / "state")}
    own, errors = settings.parse(json.dumps({"trust": "off", "legacy": legacy, "hooks": hooks, "state": state}), "it")
    assert not errors, errors
    return own


def play(trunk: socket.socket, route: Route, found: dict[str, Any], idle: threading.Event) -> None:
    """Plays a runtime and keeps the shortest way of each kind of event."""
    plugin = Plugin(trunk, Flavour(request_timeout=60, registration_timeout=60), [])
    plugin.register()
    plugin.configure("")
    plugin.synchronize([api.SynchronizeRequest()])
    shortest: dict[str, list[tuple[str, str]]] = {}
    for event in ("RunPodSandbox", *(*EVENTS, "StopContainer") * ROUNDS):
        idle.wait()
        route.calls = []
        plugin.relay(events.CALLS[event], recorded(event))
        idle.wait()
        if event not in found or len(route.calls) < found[event]["calls"]:
            found[event] = route.figures()
            shortest[event] = route.calls
    if sys.argv[1:2] == ["-l"]:
        print(*(f"{file} {name}" for file, name in shortest[sys.argv[2]]), sep="\n")
    os.kill(os.getpid(), signal.SIGTERM)


def main(*, adjusts: bool) -> dict[str, Any]:
    """Returns the figures of each event; in a process of its own, whose thread the daemon has for itself."""
    found: dict[str, Any] = {}
    ours, theirs = socket.socketpair()
    route, idle = Route(), threading.Event()
    with TemporaryDirectory() as folder:
        own = configuration(Path(folder), adjusts=adjusts)
        made = daemon.Daemon(own, [], nri.identity("route", "00", {}), lambda: (own, []), Origin())
        poll = made._loop._poll

        def wait(last_poll: float, wait: float) -> tuple[float, list[tuple[int, int]]]:
            sys.setprofile(None)
            idle.set()
            result = poll(last_poll, wait)
            idle.clear()
            sys.setprofile(route.note)
            return result

        made._loop._poll = wait  # type: ignore[method-assign]
        threading.Thread(target=play, args=(ours, route, found, idle)).start()
        made.run(theirs.detach())
        sys.setprofile(None)
    return found


if __name__ == "__main__":
    print(json.dumps(main(adjusts="adjust" in sys.argv)))
