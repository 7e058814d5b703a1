"""End to end on Kubernetes: `python -m tests.e2e.kubernetes IMAGE [SCENARIO ...]`, those in SCENARIOS if none is named.

IMAGE is the archive of the image. node.sh makes the node, in $K8S; with KEEP in the environment, the node stays.
"""

from __future__ import annotations

import os
import sys

from . import charts, evicted, faults, full, held, joining, kinds, reboot, rollout, surge
from .node import node, prepare, say, shell

SCENARIOS = {
    **{"charts": charts.play, "lists": charts.play_lists, "joining": joining.play, "full": full.play},
    **{"kinds": kinds.play, "faults": faults.play, "redundant": faults.play_redundant, "reboot": reboot.play},
    "evicted": evicted.play,
}
"""Each yields what is wrong, and leaves the node as it was."""
MEASURED = {
    **{"rollout": rollout.play, "rollout-c": rollout.play_c, "held": held.play, "surge": surge.play},
    "killed": faults.play_killed,
}
"""Others: they measure, or are a part of one above, or take long."""


def main(image: str, *names: str) -> int:
    found = []
    prepare(image)
    try:
        for name in names or SCENARIOS:
            say(f"---- {name}")
            shell("rm -rf /run/nri-* /var/lib/nri-*")  # what an adapter of another scenario was owed
            found += [f"{name}: {wrong}" for wrong in (SCENARIOS | MEASURED)[name]()]
    finally:
        if "KEEP" not in os.environ:
            node("stop")
    print(*(found or ["all is well"]), sep="\n")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
