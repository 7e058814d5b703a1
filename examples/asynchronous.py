#!/opt/v010-adapter/bin/python3 -I
"""An NRI plugin with asyncio: while one event waits for a slow program, other events are served.

Each container gets the kernel's release as a variable. The slow program is the one that prints the release.
"""

import asyncio

from nri import Context, Plugin, api, run

PROGRAM = "/bin/uname", "-r"


class Asynchronous(Plugin):
    """Answers when the program has ended. If that is too late, the runtime gets an error before its deadline."""

    async def create_container(
        self, request: api.CreateContainerRequest, context: Context
    ) -> api.CreateContainerResponse:
        program = await asyncio.create_subprocess_exec(*PROGRAM, stdout=asyncio.subprocess.PIPE)
        output, _ = await program.communicate()
        response = api.CreateContainerResponse()
        response.adjust.env.add(key="NODE_KERNEL", value=output.decode().strip())
        return response


if __name__ == "__main__":
    run(Asynchronous(), name="asynchronous", idx="30")
