"""30 pods that start at once, whose legacy plugin takes a second for each container: how long until all run.

Without a plugin, with one made of upstream's libraries, with the adapter that never holds, holds at once, and holds by
default. Environment: AT_ONCE_PODS, AT_ONCE_SIDES, AT_ONCE_PLUGIN (C or Python). Two NRI plugins, before and behind
the one in question, tell how long an event takes under the runtime's lock. The figures are printed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from pathlib import Path

from tests.e2e.launched import Syslog
from tests.e2e.pod import STATE, Cri, HarnessError, until
from tests.e2e.runtimes import Runtime
from tests.peers.build import c_program, peer

PODS = int(os.environ.get("AT_ONCE_PODS", "30"))
SIDES = os.environ.get("AT_ONCE_SIDES", "none,upstream's,never,0,auto").split(",")
LANGUAGE = os.environ.get("AT_ONCE_PLUGIN", "C")
CONF = Path("/etc/nri/at-once/conf.json")
"""Not conf.json: containerd would run the plugins of that itself, for pods."""
PLUGINS, LEGACY = Path("/opt/nri/plugins"), Path("/opt/nri/bin")
DONE = STATE / "done"
"""When the plugin was done with each container: slow.c writes there."""
PYTHON = f"""#!{sys.executable} -IS
import json, sys, time

request = json.load(sys.stdin)
if request["state"] == "create" and request["id"] != request["sandboxID"]:
    time.sleep(1)  # the work of the plugin
    with open({str(DONE)!r}, "a") as done:
        done.write(f"{{request['id']}} {{time.time():.9f}}\\n")
print("{{}}")
"""
PROBE = f"""#!{sys.executable}
import sys, time
from pathlib import Path
from nri import Plugin, run

log = open("{STATE}/" + Path(sys.argv[0]).name, "a", buffering=1)

class Probe(Plugin):
    def on_join(self):
        print("joined", file=log)

    def run_pod_sandbox(self, request, context):
        print("RunPodSandbox", request.pod.id, time.monotonic(), file=log)

    def start_container(self, request, context):
        print("StartContainer", request.container.id, time.monotonic(), file=log)

run(Probe())
"""
FIRST, TESTED, LAST = "10-first", "50-v010-adapter", "90-last"


def play(runtime: Runtime, adapter: Path, syslog: Syslog) -> Iterator[str]:
    """Plays all sides; yields what is wrong."""
    _prepare()
    cri = runtime.start()
    for side in SIDES:
        runtime.stop()
        _install(side, adapter)
        runtime.spawn_until(cri.answers)
        until(lambda: all((STATE / name).exists() for name in (FIRST, LAST)), "the plugins to join")
        syslog.lines.clear()
        yield from _round(side, cri)
        said = Counter(re.sub(r"^.*?: |[0-9a-f]{64}|pod\d+|\d+", "", line) for line in syslog.lines)
        for text, number in said.most_common(12):
            print(f"        {number} times {text}", file=sys.stderr, flush=True)
    syslog.lines.append("<6>the adapter has said what is printed")


def _prepare() -> None:
    for folder in (PLUGINS, LEGACY, CONF.parent, Path("/etc/nri/conf.d")):
        folder.mkdir(parents=True, exist_ok=True)
    plugin = LEGACY / "slow"
    plugin.write_bytes(PYTHON.encode() if LANGUAGE == "Python" else c_program("slow").read_bytes())
    plugin.chmod(0o755)
    CONF.write_text(json.dumps({"version": "0.1", "plugins": [{"type": "slow"}]}))
    for name in (FIRST, LAST):
        (PLUGINS / name).write_text(PROBE)
        (PLUGINS / name).chmod(0o755)


def _install(side: str, adapter: Path) -> None:
    """Installs what the runtime will launch."""
    for path in (PLUGINS / TESTED, DONE, STATE / FIRST, STATE / LAST):
        path.unlink(missing_ok=True)
    for folder in ("adapter", "logs"):
        shutil.rmtree(STATE / folder, ignore_errors=True)
    if side == "none":
        return
    text = json.dumps({"config": str(CONF), "path": str(LEGACY)})
    if side != "upstream's":
        text = f"{{state: {{directory: {STATE}/adapter}}, legacy: {{config: {CONF}, holdAfter: {side}}}}}"
    Path(f"/etc/nri/conf.d/{TESTED}.conf").write_text(text)
    (PLUGINS / TESTED).symlink_to(peer("reference") if side == "upstream's" else adapter)


def _round(side: str, cri: Cri) -> Iterator[str]:
    """Starts the pods, and removes them."""
    names = [f"pod{number}" for number in range(PODS)]
    _start(cri, "warm")
    for path in (STATE / FIRST, STATE / LAST):
        path.write_text("")
    began, load = time.monotonic(), os.getloadavg()[0]
    with ThreadPoolExecutor(PODS) as pool:
        ids = dict(zip(names, pool.map(lambda name: _start(cri, name), names), strict=True))
        seconds = time.monotonic() - began
    failed = [name for name, id_ in ids.items() if not id_]
    early, done = [], _done()
    for name, id_ in ids.items():
        log = STATE / "logs" / name / "c1.log"
        if id_:
            until(partial(has_started, log), f"the program of {name}")
        if id_ and side != "none" and moment(log) < done.get(id_, float("inf")):
            early.append(name)
    longest = {event: max(times, default=0) for event, times in _times().items()}
    events = ", ".join(f"{event} {took:.2f} s" for event, took in longest.items())
    print(
        f"    {PODS} pods, {LANGUAGE} plugin, {side}: all have started after {seconds:.1f} s; longest events: {events};"
        f" failed {len(failed)}, before their plugin {len(early)}; load before {load:.1f}",
        file=sys.stderr,
        flush=True,
    )
    if failed:
        yield f"{side}: not started: {', '.join(failed)}"
    if early and side not in ("auto", "never", "upstream's"):
        yield f"{side}: started before the plugin was done: {', '.join(early)}"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda id_: cri("rmp", "-f", id_), cri("pods", "-q").split()))


def _start(cri: Cri, name: str) -> str:
    """Starts a pod; returns the id of its container, empty if that has failed."""
    try:
        id_ = cri.create(cri.run_pod(name))
        cri("start", id_)
    except HarnessError as error:
        print(f"    {name}: {str(error)[-300:]}", file=sys.stderr)
        return ""
    return id_


def has_started(log: Path) -> bool:
    return log.exists() and "started" in log.read_text()


def _done() -> dict[str, float]:
    """Returns when the plugin was done with each container."""
    if not DONE.exists():
        return {}
    return {id_: float(moment) for id_, moment in map(str.split, DONE.read_text().splitlines())}


def moment(log: Path) -> float:
    """Returns when a container's program has written its first line."""
    stamp = log.read_text().split()[0]
    whole, _, rest = stamp.partition(".")
    return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float("0." + rest.rstrip("Z").split("+")[0])


def _times() -> dict[str, list[float]]:
    """Returns the seconds that each event took between the two probes."""
    first, last = (
        {(event, id_): float(moment) for event, id_, moment in map(str.split, (STATE / name).read_text().splitlines())}
        for name in (FIRST, LAST)
    )
    times: dict[str, list[float]] = {}
    for key, moment in last.items():
        if key in first:
            times.setdefault(key[0], []).append(moment - first[key])
    return times
