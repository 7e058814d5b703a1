#!/opt/v010-adapter/bin/python3 -I
"""Does slow work for a pod without blocking others: starts it with the pod, answers in time, and finishes later.

A create that comes too early fails with an error that says so, and the kubelet repeats it: by then the work is done. A
plugin that waits longer than the runtime would be dropped, and the container would run without its data.
"""

import argparse
import asyncio
from pathlib import Path

from nri import Adjustment, Context, Plugin, api, serve
from nri.errors import NRIError

ANNOTATION = "prefetch.example.com/source"


class Prefetch(Plugin):
    """Runs a program once for each pod that asks for it: `PROGRAM SOURCE DIRECTORY`."""

    def __init__(self, program: str, store: Path) -> None:
        """Takes the program, and the directory for what it fetches."""
        self._program, self._store = program, store
        self._work: dict[str, asyncio.Task[Path]] = {}

    async def run_pod_sandbox(self, request: api.RunPodSandboxRequest, context: Context) -> None:
        self._started(request.pod)  # nobody waits here

    async def create_container(
        self, request: api.CreateContainerRequest, context: Context
    ) -> api.CreateContainerResponse | None:
        work = self._started(request.pod)
        if work is None:
            return None
        await asyncio.wait([work], timeout=context.remaining() / 2)  # does not cancel what is not done
        if not work.done():
            raise NRIError("the data are still being fetched: try again")
        response = api.CreateContainerResponse()
        Adjustment(response.adjust).mounts.add("/data", str(work.result()), options=["rbind", "ro"])
        return response

    async def remove_pod_sandbox(self, request: api.RemovePodSandboxRequest, context: Context) -> None:
        if work := self._work.pop(request.pod.id, None):
            work.cancel()

    def _started(self, pod: api.PodSandbox) -> asyncio.Task[Path] | None:
        """Returns the work for a pod, None for other pods. Work that has failed is started again."""
        source = pod.annotations.get(ANNOTATION)
        known = self._work.get(pod.id)
        if source and (known is None or (known.done() and known.exception())):
            known = self._work[pod.id] = asyncio.create_task(self._fetch(source, self._store / pod.id))
        return known

    async def _fetch(self, source: str, target: Path) -> Path:
        program = await asyncio.create_subprocess_exec(self._program, source, target)
        if code := await program.wait():
            raise NRIError(f"fetching has failed with exit code {code}")
        return target


async def main() -> None:
    """Serves until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-socket", default="", help="the runtime's socket, if not the well-known one")
    parser.add_argument("-program", default="/usr/local/bin/fetch", help="is called with a source and a directory")
    parser.add_argument("-store", type=Path, default=Path("/var/lib/prefetch"), help="where these directories are")
    options = parser.parse_args()
    await serve(Prefetch(options.program, options.store), "prefetch", "50", options.socket, reconnect=True)


if __name__ == "__main__":
    asyncio.run(main())
