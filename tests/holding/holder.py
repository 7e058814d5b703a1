"""A plugin's program that holds containers: python3 -m tests.holding.holder DIRECTORY ID PID CGROUP LIMIT POLICY.

It prints the pid of its keeper, and then how the first hold has ended, once that is told.
"""

from __future__ import annotations

import select
import sys
from typing import Any, cast

from nri import api
from nri.holding.holds import Holds

if __name__ == "__main__":
    directory, id_, pid, cgroup, limit, policy, *more = sys.argv[1:]
    holds = Holds(directory)
    linux = api.LinuxContainer(cgroups_path=cgroup)
    container = api.Container(id=id_, pid=int(pid), linux=linux)
    hold = holds.hold(container, limit=float(limit), on_failure=cast(Any, policy), timeout=60)
    for text in more:
        holds.hold(api.Container.FromString(bytes.fromhex(text)), limit=float(limit), on_failure=cast(Any, policy))
    print(holds.keeper, flush=True)
    while hold.end is None:
        select.select([holds], [], [])
    print(hold.end.name, flush=True)
