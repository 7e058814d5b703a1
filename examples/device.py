#!/opt/v010-adapter/bin/python3 -I
"""An NRI plugin that waits for a device: the container starts when the device is there, and all others start meanwhile.

A pod names the device, a path of the node, with an annotation. A container whose device does not come does not start.
"""

import asyncio
from pathlib import Path

from nri import Context, NRIError, Plugin, api, run

ANNOTATION = "device.example.com/path"
LIMIT = 10.0
"""Seconds."""


class Device(Plugin):
    """Holds containers until their device is there."""

    holds = True

    async def start_container(self, request: api.StartContainerRequest, context: Context) -> None:
        if path := request.pod.annotations.get(ANNOTATION):
            async with context.hold(limit=LIMIT + 1):  # the runtime has its answer, the container waits
                try:
                    await asyncio.wait_for(exists(Path(path)), LIMIT)
                except TimeoutError:
                    raise NRIError(f"{request.container.name}: {path} has not come in {LIMIT:g} s") from None


async def exists(device: Path) -> None:
    """Waits for a device."""
    while not device.exists():
        await asyncio.sleep(0.1)


if __name__ == "__main__":
    run(Device(), name="device", idx="40")
