"""A plugin below the stub: says what came over the wire, and answers as it is told, right or wrong."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable

from adapter.errors import CallError
from adapter.nri import api, events
from adapter.wire import PLUGIN_SERVICE, RUNTIME_SERVICE, Connection, Reply, Request

Answers = Callable[["RawPlugin", Request], bytes | None]
"""None: no answer."""


class RawPlugin:
    """One that was launched. `calls` of it end up in the file `SCRIPT.calls`, a method a line."""

    def __init__(self, answer: Answers) -> None:
        self._answer = answer
        self._connection = Connection(serve=PLUGIN_SERVICE, call=RUNTIME_SERVICE)
        self._trunk = socket.socket(fileno=int(os.environ["NRI_PLUGIN_SOCKET"]))
        self._reply: Reply | None = None

    def call(self, method: str, payload: bytes) -> Reply:
        """Calls the runtime and waits for its answer, serving nothing but what must be."""
        self._reply = None
        self.ask(method, payload)
        while self._reply is None and self.receive():
            pass
        assert self._reply is not None
        return self._reply

    def ask(self, method: str, payload: bytes) -> None:
        """Calls the runtime and waits for nothing."""
        self._connection.call(events.RUNTIME, method, payload)
        self.send()

    def respond(self, stream_id: int, payload: bytes) -> None:
        """Answers a call, be it late."""
        self._connection.respond(stream_id, payload)
        self.send()

    def send(self, data: bytes = b"") -> None:
        """Writes to the trunk, also what does not make sense."""
        self._trunk.sendall(self._connection.data_to_send() + data)

    def receive(self) -> bool:
        """Serves what has come; returns whether the connection is open."""
        data = self._trunk.recv(1 << 16)
        for event in list(self._connection.receive_data(data)):  # an answer may take another round of this
            if isinstance(event, Reply):
                self._reply = event
            else:
                self._serve(event)
        return bool(data)

    def _serve(self, request: Request) -> None:
        with open(sys.argv[0] + ".calls", "a") as calls:
            print(request.method, file=calls)
        try:
            answer = self._answer(self, request)
            if answer is not None:
                self.respond(request.stream_id, answer)
        except CallError as error:
            self._connection.fail(request.stream_id, error.code, error.message)
            self.send()


def run(answer: Answers) -> None:
    plugin = RawPlugin(answer)
    plugin.call(
        "RegisterPlugin", api.RegisterPluginRequest(plugin_name="whatever", plugin_idx="77").SerializeToString()
    )
    while plugin.receive():
        pass
