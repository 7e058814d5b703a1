#!/opt/v010-adapter/bin/python3 -I
"""An NRI plugin with asyncio: an event waits for something slow, and the others are served meanwhile.

Each container gets the kernel's release as a variable; here the slow thing is the program that tells it.
"""

import argparse
import asyncio
import socket
import sys
from contextlib import suppress

from adapter.errors import AdapterError
from adapter.nri import Context, Deferred, Plugin, Stub, api, connect, identity

PROGRAM = "/bin/uname", "-r"


class Asynchronous(Plugin):
    """Starts a task for each container. The task completes the answer."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()  # asyncio keeps only weak references

    def create_container(
        self, request: api.CreateContainerRequest, context: Context
    ) -> Deferred[api.CreateContainerResponse]:
        answer: Deferred[api.CreateContainerResponse] = Deferred()
        task = asyncio.get_running_loop().create_task(complete(answer, context))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return answer


async def complete(answer: Deferred[api.CreateContainerResponse], context: Context) -> None:
    """Completes the answer to a CreateContainer before its deadline."""
    try:
        async with asyncio.timeout_at(context.due):  # the loop and the stub both use time.monotonic
            response = api.CreateContainerResponse()
            response.adjust.env.add(key="NODE_KERNEL", value=await output())
        answer.complete(response)
    except Exception as error:
        answer.fail(error)  # the container is not created, the runtime logs the text


async def output() -> str:
    """Runs the program and returns its output."""
    process = await asyncio.create_subprocess_exec(*PROGRAM, stdout=asyncio.subprocess.PIPE)
    try:
        text, _ = await process.communicate()
    except asyncio.CancelledError:  # by the timeout
        process.kill()
        await process.wait()
        raise
    return text.decode().strip()


async def main(path: str) -> None:
    """Serves the runtime that launched the plugin, else the one at this socket, until it closes the connection."""
    trunk = socket.socket(fileno=connect(path))
    reader, writer = await asyncio.open_connection(sock=trunk)
    name, idx = identity("asynchronous", "30")
    stub = Stub(Asynchronous(), name, idx, writer.write)
    stub.register()
    with suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            stub.receive_data(data)
    writer.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("-socket", default="", help="the socket of a runtime that did not launch the plugin")
    try:
        asyncio.run(main(parser.parse_args().socket))
    except AdapterError as error:
        sys.exit(f"asynchronous: {error}")
