"""A plugin below the stub: says what came over the wire, and answers as it is told, right or wrong."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable

from nri import api
from nri.errors import CallError
from nri.wire import Reply, Request

from .trunk import End

Answers = Callable[["RawPlugin", Request], bytes | None]
"""None: no answer."""


class RawPlugin(End):
    """One that was launched. `calls` of it end up in the file `SCRIPT.calls`, a method a line."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self.trunk = socket.socket(fileno=int(os.environ["NRI_PLUGIN_SOCKET"]))
        super().__init__(self.trunk.sendall, is_plugin=True)

    def call(self, method: str, payload: bytes) -> Reply:
        """Calls the runtime and waits for its answer, serving nothing but what must be."""
        stream_id = self.ask(method, payload)
        while True:
            for one in self.heard:
                if isinstance(one, Reply) and one.stream_id == stream_id:
                    return one
            assert self.serve()

    def serve(self) -> bool:
        """Serves what has come; returns whether the connection is open."""
        data = self.trunk.recv(1 << 16)
        if data:
            self.receive(data)
        for request in [one for one in self.heard if isinstance(one, Request)]:
            self.heard.remove(request)
            with open(sys.argv[0] + ".calls", "a") as calls:
                print(request.method, file=calls)
            try:
                answer = self._answers(self, request)
                if answer is not None:
                    self.answer(request.stream_id, answer)
            except CallError as error:
                self.answer(request.stream_id, refusal=error.message, code=error.code)
        return bool(data)


def run(answers: Answers) -> None:
    plugin, registration = RawPlugin(answers), api.RegisterPluginRequest(plugin_name="whatever", plugin_idx="77")
    plugin.call("RegisterPlugin", registration.SerializeToString())
    while plugin.serve():
        pass
