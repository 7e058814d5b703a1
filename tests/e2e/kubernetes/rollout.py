"""How long a rollout of 30 pods takes on a node with OCI hooks and a legacy plugin in Python.

Without a plugin, with the chart, with the chart and programs on stand-by, and with two plugins made of upstream's
libraries. The sides take turns; what counts are the ratios of a round. All but the first must run the same programs.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median

from tests.peers.build import peer
from tests.peers.hook_cases import PACKAGE

from . import node as k8s

PODS, ROUNDS = 30, 5
RUNS = PODS * 4
"""Creates of a rollout: a pod, its init container, and two containers."""
POOL = 8
CONF = {"version": "0.1", "plugins": [{"type": "python"}]}
PYTHON = f"""#!/usr/bin/python3
import json, sys

state = json.load(sys.stdin)["state"]
with open("{k8s.EVIDENCE}/python", "a") as log:
    log.write(state[0])
sys.stdout.write('{{"version": "0.1"}}')
"""
UPSTREAM = {"00-v010-adapter": ("reference",), "10-hook-injector": ("hookplugin", PACKAGE)}
"""What peers they are, by their names in the plugin directory."""
NONE, OURS, STAND_BY, THEIRS = "none", "ours", "ours on stand-by", "upstream's"
GOALS = {(OURS, NONE): 1.1, (OURS, THEIRS): 0.75, (STAND_BY, NONE): 1.1, (STAND_BY, THEIRS): 0.75}


def play() -> Iterator[str]:
    """Prints the seconds of each round, and the medians; a goal that is missed is no fault."""
    _install()
    sides: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
        NONE: (lambda: None, lambda: None),
        OURS: (partial(k8s.chart, "install", legacy={"conf": CONF}), k8s.uninstall),
        STAND_BY: (_install_on_stand_by, k8s.uninstall),
        THEIRS: (_launch, _remove),
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


def _install() -> None:
    """Installs what both sides find on the node: the plugin, the hook, and the configuration of upstream's adapter."""
    k8s.shell("cat > /opt/nri/bin/python; chmod 755 /opt/nri/bin/python", given=PYTHON)
    k8s.shell("mkdir -p /usr/share/containers/oci/hooks.d /etc/containers/oci/hooks.d")
    k8s.shell("cat > /etc/containers/oci/hooks.d/rollout.json", given=json.dumps(k8s.hook_file("rollout")))
    k8s.shell("cat > /etc/nri/conf.json", given=json.dumps(CONF))


def _install_on_stand_by() -> None:
    k8s.chart("install", legacy={"conf": CONF}, config={"legacy": {"standby": POOL}})


def _launch() -> None:
    for name, program in UPSTREAM.items():
        k8s.shell(f"ln -s {peer(*program)} /opt/nri/plugins/{name}")
    _restart(len(UPSTREAM))


def _remove() -> None:
    k8s.shell(f"cd /opt/nri/plugins; rm {' '.join(UPSTREAM)}")
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
    for log in ("python", "mark"):
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
    ran = (k8s.EVIDENCE / "python").read_text().count("c"), k8s.marks("rollout").total()
    if ran != expected:
        yield f"{side}: {ran} creates and hooks, not {expected}"
