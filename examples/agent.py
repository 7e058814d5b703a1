#!/opt/v010-adapter/bin/python3 -I
"""An agent of a node, as in a DaemonSet: it serves the runtime beside its other work, and joins every new runtime.

A pod names data with an annotation. The agent fetches them once, mounts them into the pod's containers, and removes
them when no pod uses them any more.
"""

import argparse
import asyncio
import re
import shutil
from pathlib import Path

from nri import Context, Plugin, api, serve

ANNOTATION = "data.example.com/name"
PERIOD = 60.0
"""Seconds between two searches for unused data."""


class Agent(Plugin):
    """Knows which data each pod uses."""

    def __init__(self, store: Path) -> None:
        """Takes the directory for the data."""
        self._store = store
        self._used: dict[str, str] = {}
        self._fetched: dict[str, asyncio.Task[Path]] = {}

    async def synchronize(self, request: api.SynchronizeRequest, context: Context) -> None:
        self._used = {pod.id: name for pod in request.pods if (name := pod.annotations.get(ANNOTATION))}

    async def run_pod_sandbox(self, request: api.RunPodSandboxRequest, context: Context) -> None:
        if name := request.pod.annotations.get(ANNOTATION):
            self._used[request.pod.id] = name
            self._data(name)  # the creation of the first container then waits less

    async def create_container(
        self, request: api.CreateContainerRequest, context: Context
    ) -> api.CreateContainerResponse | None:
        name = request.pod.annotations.get(ANNOTATION)
        if not name:
            return None
        source = await asyncio.shield(self._data(name))
        response = api.CreateContainerResponse()
        response.adjust.mounts.add(source=str(source), destination="/data", type="bind", options=["rbind", "ro"])
        return response

    async def remove_pod_sandbox(self, request: api.RemovePodSandboxRequest, context: Context) -> None:
        self._used.pop(request.pod.id, None)

    async def on_join(self) -> None:
        print(f"joined: {len(self._used)} pods have data", flush=True)

    async def on_disconnect(self, reason: str) -> None:
        print("left:", reason or "the runtime has gone", flush=True)

    async def clean(self) -> None:
        """Removes unused data, again and again."""
        while True:
            await asyncio.sleep(PERIOD)
            for name in self._fetched.keys() - self._used.values():
                shutil.rmtree(await self._fetched.pop(name))

    def _data(self, name: str) -> asyncio.Task[Path]:
        if not re.fullmatch(r"[a-z0-9-]+", name):  # it becomes a path, and every pod author may write annotations
            raise ValueError(f"{name!r} is no name of data")
        known = self._fetched.get(name)
        if known is None or (known.done() and known.exception()):
            known = self._fetched[name] = asyncio.create_task(fetch(self._store / name))
        return known


async def fetch(target: Path) -> Path:
    """Fetches data. This example has no source."""
    await asyncio.to_thread(target.mkdir, parents=True, exist_ok=True)
    return target


async def main() -> None:
    """Serves until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-socket", default="", help="the runtime's socket, if not the well-known one")
    parser.add_argument("-store", type=Path, default=Path("/var/lib/agent"), help="directory for the data")
    options = parser.parse_args()
    agent = Agent(options.store)
    cleaning = asyncio.create_task(agent.clean())
    await serve(agent, "agent", "40", options.socket, reconnect=True)
    cleaning.cancel()


if __name__ == "__main__":
    asyncio.run(main())
