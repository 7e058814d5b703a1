"""Containers whose legacy plugin takes longer than the runtime waits: the adapter holds them.

The container's name says how its plugin ends; a file says when.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.e2e.holding import TOLD, Start, ends
from tests.e2e.launched import Launched
from tests.e2e.pod import Cri, Sandbox
from tests.e2e.runtimes import Runtime

CONF = Path("/etc/nri/held/conf.json")
SETTINGS = f"legacy: {{config: {CONF}, holdLimit: 60}}\n"
WAITS = f"""#!/bin/sh
request=$(cat)
name=$(printf %s "${{request%%,\\"labels\\":*}}" |
  sed -n 's/.*"io[.]kubernetes[a-z.]*container[.-]name":"\\([^"]*\\)".*/\\1/p')
case $request in *'"state":"delete"'*) name=$name-deleted; touch "{TOLD}/$name";; esac
case $name in *-deleted|free*|POD|"") echo '{{}}'; exit;; esac
touch "{TOLD}/$name.held"
until [ -e "{TOLD}/$name.go" ]; do
  [ -e "{TOLD}/$name.refuse" ] && {{ echo '{{"error": "refused by its plugin"}}'; exit; }}
  sleep 0.05
done
echo '{{}}'
"""
HELD = "the container is held"
EXPECTED = "refused by its plugin", "the process before this one was killed by signal 9"
"""Errors in the log that are the plugin's."""


def prepare(install: Callable[..., object]) -> None:
    """Installs the plugin before others, and makes the directory in which it and the run tell each other."""
    TOLD.mkdir(parents=True)
    install(CONF, ("waits", WAITS))


def play(runtime: Runtime, cri: Cri, adapter: Launched) -> Iterator[str]:
    pod = cri.run_pod()
    yield from ends(runtime, cri, pod, lambda of, name: held(cri, of, name, adapter))
    killed = held(cri, pod, "killed", adapter)
    adapter.kill()
    yield from killed.faults(starts=False)
    killed.tell("go")
    adapter.wait_until_registered()
    cri("start", cri.create(pod, "free2"))
    cri("rmp", "-f", pod.id)


def held(
    cri: Cri,
    pod: Sandbox,
    name: str,
    adapter: Launched,
    options: Sequence[str] = (),
    more: Mapping[str, object] = {},
) -> Start:
    """Starts a container, and waits until it is held."""
    number = adapter.logged(HELD) + 1
    start = Start(cri, pod, name, options, more)
    adapter.wait_until_logged(HELD, number)
    return start
