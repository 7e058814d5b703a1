"""A process that passes for the runtime of an adapter that it launches, so that a test can end the runtime."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

_RUNTIME = """
import signal, socket, sys
pair = socket.socketpair()
with socket.socket(fileno=int(sys.argv[1])) as control:
    socket.send_fds(control, [b"."], [end.fileno() for end in pair])
for end in pair:
    end.close()
signal.pause()
"""


def trunk_of_a_process() -> tuple[socket.socket, socket.socket, subprocess.Popen[bytes]]:
    """Makes the two ends of a trunk whose runtime, as the kernel knows it, is a process that a test can end."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = [sys.executable, "-I", "-S", "-c", _RUNTIME, str(theirs.fileno())]
        runtime = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        _, fds, _, _ = socket.recv_fds(ours, 1, 2)
    for fd in fds:
        os.set_inheritable(fd, False)
    return socket.socket(fileno=fds[0]), socket.socket(fileno=fds[1]), runtime
