#!/opt/v010-adapter/bin/python3 -I
"""Sets limits by annotation. A timer reads their file again, and updates the containers that run.

A pod names a class, and the administrator decides what the class gets: a number in an annotation would let every pod
author decide. The file: `[batch]`, `cpu_shares = 128`, `memory = 268435456`.
"""

import argparse
import asyncio
import tomllib
from collections.abc import Container
from pathlib import Path

from nri import Adjustment, Context, Plugin, api, serve
from nri.errors import NRIError

ANNOTATION = "limits.example.com/class"
Classes = dict[str, dict[str, int]]


class Limits(Plugin):
    """Knows the classes, and which class each container has."""

    def __init__(self, file: Path) -> None:
        """Takes the file of the classes. Raises OSError or ValueError if it cannot be read."""
        self._file = file
        self._classes: Classes = tomllib.loads(file.read_text())
        self._members: dict[str, str] = {}

    def synchronize(self, request: api.SynchronizeRequest, context: Context) -> api.SynchronizeResponse:
        pods = {pod.id: pod.annotations.get(ANNOTATION, "") for pod in request.pods}
        self._members = {one.id: name for one in request.containers if (name := pods.get(one.pod_sandbox_id))}
        return api.SynchronizeResponse(update=self._updates(self._classes.keys()))  # what was missed in between

    def create_container(
        self, request: api.CreateContainerRequest, context: Context
    ) -> api.CreateContainerResponse | None:
        name = request.pod.annotations.get(ANNOTATION)
        if not name:
            return None
        if name not in self._classes:
            raise NRIError(f"there is no class {name!r}")  # the container fails, the pod's events have the text
        response = api.CreateContainerResponse()
        adjust = Adjustment(response.adjust)
        adjust.cpu.shares = self._classes[name]["cpu_shares"]
        adjust.memory.limit = self._classes[name]["memory"]
        self._members[request.container.id] = name
        return response

    def stop_container(self, request: api.StopContainerRequest, context: Context) -> None:
        self._members.pop(request.container.id, None)

    async def follow(self, period: float) -> None:
        """Reads the file again and again. A connection may come and go meanwhile."""
        while True:
            await asyncio.sleep(period)
            try:
                before, self._classes = self._classes, tomllib.loads(self._file.read_text())
                changed = {name for name, limits in self._classes.items() if before.get(name) != limits}
                if updates := self._updates(changed):
                    failed = await self.update_containers(updates)
                    print(f"{len(updates) - len(failed)} containers have new limits", flush=True)
            except (OSError, ValueError) as error:
                print(f"{self._file}: {error}: the limits stay as they are", flush=True)
            except NRIError as error:  # no runtime at the moment, or one that takes no updates
                print(f"no update: {error}", flush=True)

    def _updates(self, classes: Container[str]) -> list[api.ContainerUpdate]:
        updates: list[api.ContainerUpdate] = []
        for id_, name in self._members.items():
            if name in self._classes and name in classes:
                update = api.ContainerUpdate(container_id=id_, ignore_failure=True)  # it may have ended
                update.linux.resources.cpu.shares.value = self._classes[name]["cpu_shares"]
                update.linux.resources.memory.limit.value = self._classes[name]["memory"]
                updates.append(update)
        return updates


async def main() -> None:
    """Serves until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-socket", default="", help="the runtime's socket, if not the well-known one")
    parser.add_argument("-file", type=Path, default=Path("/etc/nri/limits.toml"), help="the limits of each class")
    parser.add_argument("-period", type=float, default=60.0, help="seconds between two looks at the file")
    options = parser.parse_args()
    limits = Limits(options.file)
    following = asyncio.create_task(limits.follow(options.period))
    try:
        await serve(limits, "limits", "30", options.socket, reconnect=True)
    finally:
        following.cancel()


if __name__ == "__main__":
    asyncio.run(main())
