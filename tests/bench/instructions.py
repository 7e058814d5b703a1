"""The daemon's instructions for an event, which no other load of the machine changes: under valgrind's cachegrind.

What an event takes is what MANY take more than FEW, by their difference. The events are containerd's, as recorded.
"""

from __future__ import annotations

import json
import marshal
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from google.protobuf.json_format import ParseDict

from nri import Plugin, Stub, events
from nri.testing import FLAVOURS
from nri.wire import PLUGIN_SERVICE, RUNTIME_SERVICE, Connection, Reply, Request
from tests.bench.arena import FRESH, Unfair, install, recorded
from tests.bench.figures import Bench, Goal, Row, Times
from tests.bench.hooks import create, write

FEW, MANY = 100, 1100
ROOT = Path(__file__).resolve().parents[2]
GROUP = "instructions, thousands"
HOOKS = 10
ONE_ADJUSTS, TWO_ADJUST = Goal(1500, absolute=True), Goal(3000, absolute=True)


@dataclass(frozen=True)
class Case:
    """One kind of event. `settings` makes the adapter's configuration in a directory; without it the stub is alone."""

    name: str
    event: Callable[[], Mapping[str, Any]] | None
    settings: Callable[[Path], Mapping[str, object]] | None
    programs: int = 0
    """What the adapter runs at one event."""
    answer: str = '{"plugin":"plugin","version":"0.1","error":"","metadata":{"k":"v"}}'
    """What each of them prints."""
    goal: Goal | None = None


def chain(programs: int, directory: Path) -> Mapping[str, Any]:
    """The settings of a node with legacy plugins."""
    legacy = install(directory / "legacy", [Path(shutil.which("true") or "")] * programs)
    return {"hooks": {"enabled": False}, "legacy": legacy}


def hooked(directory: Path) -> Mapping[str, object]:
    """The settings of a node with hooks."""
    hooks = write(directory / "hooks.d", "literals", HOOKS)
    return {**chain(0, directory), "hooks": {"directories": [str(hooks)]}}


def adjusting(programs: int, directory: Path) -> Mapping[str, object]:
    """The settings of a node with legacy plugins that adjust."""
    own = {"plugins": {f"plugin{number}": {"events": ["CreateContainer"]} for number in range(programs)}}
    return {"hooks": {"enabled": False}, "legacy": {**chain(programs, directory)["legacy"], **own}}


start_container = partial(recorded, "StartContainer")
ADJUSTED = '{"spec":{"process":{"env":["A=1","B=2"],"rlimits":[{"type":"RLIMIT_NOFILE","soft":1024,"hard":4096}]}}}'
CASES = [
    Case("StartContainer without a plugin", start_container, partial(chain, 0)),
    Case("StartContainer, one plugin", start_container, partial(chain, 1), 1),
    Case("StartContainer, three plugins", start_container, partial(chain, 3), 3),
    Case(f"CreateContainer, {HOOKS} hooks, one of them injected", create, hooked),
    Case("CreateContainer, one adjusting plugin", create, partial(adjusting, 1), 1, ADJUSTED, ONE_ADJUSTS),
    Case("CreateContainer, two adjusting plugins", create, partial(adjusting, 2), 2, ADJUSTED, TWO_ADJUST),
    Case("StartContainer, decoding and encoding alone", start_container, None),
]
START = Case("from exec to registered", None, partial(chain, 0))


def run(bench: Bench) -> Iterator[Row]:
    """Yield a row for each case."""
    if shutil.which("valgrind") is None:
        bench.missing.append("instructions: valgrind is not installed")
        return
    for case in CASES:
        bench.say(f"{case.name} …")
        with ThreadPoolExecutor(2) as both:  # neither disturbs the other
            few, many = both.map(partial(count, case), (FEW, MANY))
        yield row(case, (many - few) / (MANY - FEW), MANY - FEW)
    bench.say(f"{START.name} …")
    yield row(START, count(START, 0), 1)


def row(case: Case, instructions: float, samples: int) -> Row:
    return Row(GROUP, case.name, FRESH, samples, Times.of([instructions], 1000), goal=case.goal)


def count(case: Case, number: int) -> int:
    """Return the instructions of a process, from its start to its last answer."""
    with TemporaryDirectory() as name:
        directory = Path(name)
        play(case, number, directory)  # Python's caches are there, then
        out = directory / "cachegrind"
        play(case, number, directory, "valgrind", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={out}")
        found = re.search(r"^summary: (\d+)", out.read_text(), re.MULTILINE)
        assert found
        return int(found[1])


def play(case: Case, number: int, directory: Path, *command: str) -> None:
    """Play events to a new process. Raises Unfair if it does not answer as it should."""
    home = directory / f"home-{len(command)}"
    home.mkdir()
    environ = {
        "PATH": os.defpath,
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": f"{ROOT}:{ROOT}/adapter",
        "RUNTIME_DIRECTORY": str(home),
    }
    environ |= {"NRI_PLUGIN_NAME": "metered", "NRI_PLUGIN_IDX": "00"}
    connection = Connection(serve=RUNTIME_SERVICE, call=PLUGIN_SERVICE)
    (home / "messages").write_bytes(marshal.dumps([*messages(case, number, home, connection)]))
    metered = "from tests.bench.metered import main; main()"  # a script itself is compiled each time
    plugin = "daemon" if case.settings else "stub"
    argv = [*command, sys.executable, "-c", metered, str(home / "messages"), plugin, case.answer]
    with (home / "log").open("w") as log:
        ended = subprocess.run(argv, env=environ, stdout=subprocess.PIPE, stderr=log, check=False)
    runs, _, answer = ended.stdout.partition(b"\n")
    last = list(connection.receive_data(answer))
    good = all(not each.code for each in last if isinstance(each, Reply))  # the first is a call of the plugin's
    if ended.returncode or int(runs) != number * case.programs or not last or not good:
        raise Unfair(f"{case.name}: {runs!r} programs, {last}: {(home / 'log').read_text()}")


def messages(case: Case, number: int, directory: Path, connection: Connection) -> Iterator[bytes]:
    """Yield what the runtime sends: each but the first answers nothing, and is answered."""
    if not case.event:
        return
    asked: list[Request | Reply] = []
    Stub(Plugin(), "metered", "00", lambda data: asked.extend(connection.receive_data(data))).register()
    [registration] = asked
    connection.respond(registration.stream_id, b"")
    settings = case.settings(directory) if case.settings else {}
    config = "".join(f"{key}: {json.dumps(value)}\n" for key, value in settings.items())
    configure = FLAVOURS["containerd/2.4.2"].configure_request(config)
    connection.call(events.PLUGIN, "Configure", configure.SerializeToString(), 2)
    yield connection.data_to_send()
    connection.call(events.PLUGIN, "Synchronize", b"", 2)
    yield connection.data_to_send()
    event = case.event()
    call = events.CALLS[event["event"]]
    request = ParseDict({key: event[key] for key in ("pod", "container")}, call.request(), ignore_unknown_fields=True)
    for each in range(number):
        request.container.id = f"{each:064x}"  # type: ignore[attr-defined]  # of both events
        connection.call(events.PLUGIN, call.method, request.SerializeToString(), 2)
        yield connection.data_to_send()
