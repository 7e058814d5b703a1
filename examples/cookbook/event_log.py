#!/opt/v010-adapter/bin/python3 -I
"""Logs what happens to pods and containers, as lines of JSON. No event waits for the file."""

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from nri import Context, Plugin, serve

WAITING = 10_000
"""Lines that may wait for the file. A disk that hangs must not fill the memory: further lines are dropped."""


class EventLog(Plugin):
    """Handlers only put lines into a queue; `write` takes them out."""

    def __init__(self) -> None:
        """Makes the queue. None in it is the end."""
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()

    def _note(self, request: Any, context: Context) -> None:
        subject = {"event": context.method, "pod": f"{request.pod.namespace}/{request.pod.name}"}
        if hasattr(request, "container"):
            subject |= {"container": request.container.name, "id": request.container.id}
        if self._lines.qsize() < WAITING:
            self._lines.put_nowait(json.dumps({"time": round(time.time(), 3), **subject}) + "\n")

    run_pod_sandbox = stop_pod_sandbox = remove_pod_sandbox = _note
    create_container = start_container = stop_container = remove_container = _note

    async def write(self, path: Path) -> None:
        """Appends the lines to a file until the end, in a thread, so that a slow disk does not block the loop."""
        while (line := await self._lines.get()) is not None:
            try:
                await asyncio.to_thread(append, path, line)
            except OSError as error:  # a full disk must not end the plugin
                print(f"{path}: {error}", file=sys.stderr)

    def end(self) -> None:
        """Ends `write`, after the lines that wait."""
        self._lines.put_nowait(None)


def append(path: Path, line: str) -> None:
    """Opens the file for each line, so that it may be rotated."""
    with path.open("a") as file:
        file.write(line)


async def main() -> None:
    """Serves until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-socket", default="", help="the runtime's socket, if not the well-known one")
    parser.add_argument("-file", type=Path, default=Path("/var/log/nri-events.jsonl"), help="the file of the log")
    options = parser.parse_args()
    log = EventLog()
    writing = asyncio.create_task(log.write(options.file))
    try:
        await serve(log, "event-log", "90", options.socket, reconnect=True)
    finally:
        log.end()
        await writing


if __name__ == "__main__":
    asyncio.run(main())
