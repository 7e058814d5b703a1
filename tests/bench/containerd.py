"""Pods on containerd 2.4.2, which measures its NRI plugins itself: its metric `containerd_nri_plugin_latency_seconds`.

One side after the other is launched by a containerd of its own, and a few pods live and die. The smallest bucket of the
metric is 5 ms, so it tells means only. `python -m tests.bench.containerd PODS NODE` plays in namespaces of its own.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.bench.arena import REFERENCE, STAND_BY, WAYS, install, reference_config, runs
from tests.bench.figures import Bench, Row, Times
from tests.e2e.__main__ import NAMESPACES, obstacle
from tests.e2e.build import CRICTL, BuildError, built, install_packages
from tests.e2e.pod import STATE, until
from tests.e2e.rejoining import Pods
from tests.e2e.runtimes import NEWEST, Runtime
from tests.e2e.scenario import ALL, MOUNTS, STATE_SETTINGS, isolate, remove_cgroups
from tests.peers.build import PeerMissing, c_program, peer
from tests.peers.harness import COMMAND

PODS = 10  # of one turn
LIMIT = 400  # seconds
EVENTS = ("RunPodSandbox", "StartContainer", "StopContainer", "StopPodSandbox")
GROUP = f"one C plugin, {NEWEST}'s plugin_latency, mean ms"
METRIC = "containerd_nri_plugin_latency_seconds"
PLUGINS = Path("/opt/nri/plugins")
DROP_INS = Path("/etc/nri/conf.d")

Figures = Mapping[str, Mapping[str, tuple[float, int]]]
"""Seconds and number of calls, by operation, by side."""


def run(bench: Bench) -> Iterator[Row]:
    """Yield a row for each event and way. Raises PeerMissing."""
    bench.say(f"pods on {NEWEST} …")
    impossible = obstacle()
    if impossible:
        raise PeerMissing(impossible)
    prepare(chosen())
    pods = max(round(PODS * bench.effort), 1)
    line = [*NAMESPACES, sys.executable, "-m", __name__, str(pods), os.readlink(MOUNTS)]
    found: Figures = json.loads(subprocess.run(line, stdout=subprocess.PIPE, timeout=LIMIT, check=True).stdout)
    for way in WAYS:
        for event in EVENTS:
            ours, theirs = (1000 * found[side][event][0] / found[side][event][1] for side in (way, REFERENCE))
            calls = found[way][event][1]
            yield Row(GROUP, event, way, calls, Times(ours, ours), Times(theirs, theirs))


def prepare(runtime: Runtime) -> None:
    """Build what is missing. Raises PeerMissing."""
    try:
        install_packages(runtime.packages)
        for recipe in (CRICTL, runtime.recipe):
            built(recipe)
    except BuildError as error:
        raise PeerMissing(str(error)) from error
    peer("reference")
    c_program("plugin")


def chosen() -> Runtime:
    return next(runtime for runtime in ALL if runtime.name == NEWEST)


def play(count: int) -> Figures:
    """Play so many pods to each side in turn, and then in the other order. Nothing of the node is touched."""
    isolate()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = "{}:{}".format(*probe.getsockname())
    runtime = chosen()
    runtime.more_config = f"[plugins.'io.containerd.server.v1.metrics']\n  address = '{address}'\n"
    sides = [REFERENCE, *WAYS]
    totals: dict[str, Counter[tuple[str, str]]] = {side: Counter() for side in sides}
    for number, side in enumerate([*sides, *reversed(sides)]):
        home = STATE / f"turn{number}"
        launch_next(side, install(home, [c_program("plugin")]))
        totals[side].update(turn(runtime, address, home, [f"pod{number}.{each}" for each in range(count + 1)]))
    remove_cgroups()
    return {
        side: {event: (total[f"{METRIC}_sum", event], int(total[f"{METRIC}_count", event])) for event in EVENTS}
        for side, total in totals.items()
    }


def launch_next(side: str, legacy: Mapping[str, Any]) -> None:
    """Have the next containerd launch this side alone."""
    for folder in (PLUGINS, DROP_INS):
        folder.mkdir(exist_ok=True)
        for left in folder.iterdir():
            left.unlink()
    settings = {**legacy, "standby": int(side == STAND_BY)}
    config = reference_config(legacy) if side == REFERENCE else f"{STATE_SETTINGS}legacy: {json.dumps(settings)}\n"
    (PLUGINS / f"00-{side}").symlink_to(peer("reference") if side == REFERENCE else COMMAND)
    (DROP_INS / f"00-{side}.conf").write_text(config)


def turn(runtime: Runtime, address: str, home: Path, names: Sequence[str]) -> Counter[tuple[str, str]]:
    """Start containerd, let pods live and die, one by one; return what all but the first added to its metrics."""
    cri = runtime.start()
    until(lambda: scraped(address)["containerd_nri_active_plugins_total", ""] > 0, "the plugin")
    pods = Pods(cri)

    def live(name: str) -> None:
        pods.start(name)
        pods.end(name)
        until(lambda: runs(home) == len(EVENTS) * len(pods.ids), "every legacy plugin to run once for each event")

    live(names[0])
    before = scraped(address)
    for name in names[1:]:
        live(name)
    found = scraped(address)
    runtime.stop()
    found.subtract(before)
    return found


def scraped(address: str) -> Counter[tuple[str, str]]:
    """Return what containerd tells, by sample and operation."""
    with urllib.request.urlopen(f"http://{address}/v1/metrics", timeout=30) as answer:
        text = answer.read().decode()
    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return Counter({(each.name, each.labels.get("operation", "")): each.value for each in samples})


if __name__ == "__main__":
    if os.readlink(MOUNTS) == sys.argv[2]:
        sys.exit("this would mount things over the node's own folders: run tests.bench instead")
    print(json.dumps(play(int(sys.argv[1]))))
