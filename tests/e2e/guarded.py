"""The bad day of an adapter that the runtime launches: killed, held back while it joins again, its runtime restarted.

Afterwards each create has had its one delete.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from tests.e2e.beside import Launched
from tests.e2e.pod import CONTAINER, STATE, UNHURRIED, Cri, until
from tests.e2e.pods import Calls, Pods, burst, finish, has_run
from tests.e2e.runtimes import Runtime

PODS = 20
SLOW = STATE / "slow"  # while this file exists, the plugin `sleeper` takes longer than the runtime waits
SLEEPER = f"""#!/bin/sh
[ -e {SLOW} ] && sleep 5
echo '{{"plugin": "sleeper", "version": "0.1"}}'
"""
SETTINGS = "legacy: {onFailure: ignore, config: %s}\n"
EXPECTED = ("the process before this one was killed by signal 9", "no result within 1.")
"""Errors in the log that are the faults of this run."""
ASKED = "asked to end"
STAYS = {"command": ["/bin/sh", "-c", f"trap 'echo {ASKED}' TERM; while :; do sleep 1000000 & wait $!; done"]}
"""A container that does not end on SIGTERM."""


def play(cri: Cri, adapter: Launched, runtime: Runtime, calls: Calls) -> Iterator[str]:
    pods = Pods(cri)
    for name in ("ends-soon", "ends-after-the-runtime", "ends-last"):
        pods.start(name)
    pods.start("stays", image={"image": UNHURRIED}, **STAYS)
    names = [f"burst{number}" for number in range(PODS)]
    burst(pods, names, calls, adapter.kill)
    adapter.wait_until_registered()
    _join_during_a_grace_period(cri, pods, adapter)
    pods.end("ends-soon")  # not before a kill: a delete that is under way then may run twice
    SLOW.touch()
    pods.start("waits-for-nobody")  # the chains of its creates go on behind the answers
    SLOW.unlink()
    until(lambda: has_run(calls, "create", pods.ids["waits-for-nobody"]), "the late creates")
    runtime.stop()
    runtime.start()
    adapter.wait_until_registered()
    pods.end("ends-after-the-runtime")
    runtime.kill()
    runtime.start()
    adapter.wait_until_registered()
    pods.start("starts-after-the-runtime")
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(pods.end, list(pods.running)))
    yield from finish(calls, pods, names)


def _join_during_a_grace_period(cri: Cri, pods: Pods, adapter: Launched) -> None:
    """Kills the adapter while the runtime waits for a container's end. Some runtimes let no plugin join meanwhile."""
    pid = cri.pid("inspect", pods.ids["stays"][1])
    output = cri.folder / "logs/stays" / str(CONTAINER["log_path"])
    with ThreadPoolExecutor(1) as pool:
        stop = pool.submit(pods.end, "stays", grace=60)
        until(lambda: ASKED in output.read_text(), "the container to be asked to end")
        adapter.kill()
        adapter.wait_until_registered_or_held_back()
        os.kill(pid, signal.SIGKILL)
        stop.result()
    adapter.wait_until_registered()
