"""How long a rollout of 30 pods takes on a node with OCI hooks and a legacy plugin in Python, or in C.

Without a plugin, with the chart, with the chart and programs on stand-by, with the chart and each container held at
once, and with two plugins made of upstream's libraries. The sides take turns; what counts are the ratios of a round.
All but the first must run the same programs.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any

from tests.peers.build import c_program, peer
from tests.peers.hook_cases import PACKAGE

from . import node as k8s

PODS, ROUNDS = 30, 5
RUNS = PODS * 4
"""Creates of a rollout: a pod, its init container, and two containers."""
POOL = 8
PLUGIN = "rollout"
CONF_FILE = "/etc/nri/rollout.json"
"""Not conf.json: containerd would run the plugins of that itself, for pods."""
PYTHON = f"""#!/usr/bin/python3
import json, sys

state = json.load(sys.stdin)["state"]
with open("{k8s.EVIDENCE}/{PLUGIN}", "a") as log:
    log.write(state[0])
sys.stdout.write('{{"version": "0.1"}}')
"""
UPSTREAM = {"00-v010-adapter": ("reference",), "10-hook-injector": ("hookplugin", PACKAGE)}
"""What peers they are, by their names in the plugin directory."""
NONE, OURS, STAND_BY, HELD, THEIRS = "none", "ours", "ours on stand-by", "ours, held at once", "upstream's"
GOALS = {(OURS, NONE): 1.1, (OURS, THEIRS): 0.75, (STAND_BY, NONE): 1.1, (STAND_BY, THEIRS): 0.75}


def play() -> Iterator[str]:
    """Prints the seconds of each round, and the medians; a goal that is missed is no fault."""
    yield from _play(PYTHON.encode(), {"type": PLUGIN})


def play_c() -> Iterator[str]:
    """The same with a plugin in C."""
    log = str(k8s.EVIDENCE / PLUGIN)
    yield from _play(c_program("plugin").read_bytes(), {"type": PLUGIN, "conf": {"log": log}})


def _play(plugin: bytes, entry: dict[str, Any]) -> Iterator[str]:
    conf = {"version": "0.1", "plugins": [entry]}
    _install(plugin, conf)
    sides: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
        NONE: (lambda: None, lambda: None),
        OURS: (partial(k8s.chart, "install", legacy={"conf": conf}), k8s.uninstall),
        STAND_BY: (partial(_install_with, conf, standby=POOL), k8s.uninstall),
        HELD: (partial(_install_with, conf, holdAfter=0), k8s.uninstall),
        THEIRS: (launch, remove),
    }
    rounds = []
    for number in range(ROUNDS):
        k8s.say(f"round {number + 1} of {ROUNDS}, load {os.getloadavg()[0]:.1f}")
        seconds = {}
        for side in [*sides][:: -1 if number % 2 else 1]:
            begin, end = sides[side]
            begin()
            seconds[side] = _rollout()
            end()
            yield from _unequal(side)
        k8s.say(", ".join(f"{side} {seconds[side]:.1f} s" for side in sides))
        rounds.append(seconds)
    medians = (f"{side} {median(seconds[side] for seconds in rounds):.1f} s" for side in sides)
    k8s.say(f"{PODS} pods, medians of {ROUNDS} rounds: {', '.join(medians)}")
    for (side, other), goal in GOALS.items():
        ratio = median(seconds[side] / seconds[other] for seconds in rounds)
        k8s.say(f"{side} to {other}: {ratio:.2f}, goal {goal:.2f} {'met' if ratio <= goal else 'MISSED'}")


def _install(plugin: bytes, conf: dict[str, Any]) -> None:
    """Installs what the sides find on the node: the plugin, the hook, and the configuration of upstream's adapter."""
    made = k8s.EVIDENCE / "made"
    made.write_bytes(plugin)
    k8s.shell(f"cp {made} /opt/nri/bin/{PLUGIN}; chmod 755 /opt/nri/bin/{PLUGIN}")
    k8s.shell("mkdir -p /usr/share/containers/oci/hooks.d /etc/containers/oci/hooks.d")
    k8s.shell("cat > /etc/containers/oci/hooks.d/rollout.json", given=json.dumps(k8s.hook_file("rollout")))
    k8s.shell(f"cat > {CONF_FILE}", given=json.dumps(conf))


def _install_with(conf: dict[str, Any], **settings: int) -> None:
    k8s.chart("install", legacy={"conf": conf}, config={"legacy": settings})


def launch() -> None:
    places = {"config": CONF_FILE, "path": "/opt/nri/bin"}
    k8s.shell("cat > /etc/nri/conf.d/00-v010-adapter.conf", given=json.dumps(places))
    for name, program in UPSTREAM.items():
        k8s.shell(f"ln -s {peer(*program)} /opt/nri/plugins/{name}")
    _restart(len(UPSTREAM))


def remove() -> None:
    k8s.shell(f"cd /opt/nri/plugins; rm {' '.join(UPSTREAM)} /etc/nri/conf.d/00-v010-adapter.conf")
    _restart(0)


def _restart(plugins: int) -> None:
    """Restarts containerd; waits until so many of upstream's plugins run."""
    k8s.node("restart", "containerd")
    paths = {str(peer(*program)) for program in UPSTREAM.values()}

    def running() -> int:
        return sum(exe in paths for exe in k8s.shell("readlink /proc/[0-9]*/exe || true").splitlines())

    k8s.until(lambda: running() == plugins, f"{plugins} plugins of upstream's")


def _rollout() -> float:
    """Returns the seconds until the pods run, after one that has warmed up what is in the way. Leaves none."""
    k8s.apply("warm", 1)
    k8s.ready("warm")
    k8s.delete("warm")
    for log in (PLUGIN, "mark"):
        (k8s.EVIDENCE / log).write_text("")
    started = time.monotonic()
    k8s.apply("timed", PODS)
    k8s.ready("timed")
    seconds = time.monotonic() - started
    k8s.delete("timed")
    return seconds


def _unequal(side: str) -> Iterator[str]:
    """Yields what a side has not run as it should: the creates of pods and containers, the hook of containers."""
    expected = (0, 0) if side == NONE else (RUNS, RUNS - PODS)
    text = (k8s.EVIDENCE / PLUGIN).read_text()  # the plugin in C writes the same for creates and deletes
    ran = text.count("c") or min(text.count("."), RUNS), k8s.marks("rollout").total()
    if ran != expected:
        yield f"{side}: {ran} creates and hooks, not {expected}"
