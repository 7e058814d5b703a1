"""Answers HTTP requests on the daemon's loop. So a probe gets no answer if the loop hangs.

A connection has one request, and the method must be GET. A client that is slow, or sends too much, is disconnected.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import NamedTuple

from adapter.base.loop import Loop
from adapter.base.trunk import Trunk
from adapter.monitoring.listener import Listener, listening_socket, remove_dead_socket

MAX_REQUEST = 8 << 10
"""Maximum bytes of a request with its header fields."""
MAX_CLIENTS = 16
"""Maximum number of connections. If one more comes, the oldest is closed."""
CLIENT_TIMEOUT = 30.0
"""Seconds that a connection may take."""
TEXT = "text/plain; charset=utf-8"


class Response(NamedTuple):
    """The response to a request."""

    status: HTTPStatus
    body: bytes
    type: str = TEXT


class HttpServer:
    """Serves pages. A function makes each page."""

    def __init__(self, loop: Loop, listen: str, pages: Mapping[str, Callable[[], Response]]) -> None:
        """Takes `unix:PATH` or `ADDRESS:PORT`, and the function that makes the page of each path. Raises OSError."""
        self._loop = loop
        self._pages = pages
        self._clients: dict[_Client, None] = {}
        """The connections, the oldest first."""
        self._path = listen.removeprefix("unix:") if listen.startswith("unix:") else ""
        self._listener = Listener(loop, _unix(self._path) if self._path else _tcp(listen), self._on_connection)

    def _on_connection(self, connection: socket.socket) -> None:
        if len(self._clients) >= MAX_CLIENTS:
            next(iter(self._clients)).close()
        client = _Client(self._loop, connection.detach(), self._answer, self._clients.pop)
        self._clients[client] = None

    def _answer(self, request: bytes) -> Response:
        """Returns the response to a request, which is complete or too long."""
        if len(request) > MAX_REQUEST:
            return _refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        method, _, rest = request.partition(b"\r\n")[0].partition(b" ")
        path, _, version = rest.partition(b" ")
        if not version.startswith(b"HTTP/1."):
            return _refusal(HTTPStatus.BAD_REQUEST)
        page = self._pages.get(path.partition(b"?")[0].decode("latin-1"))
        if page is None:
            return _refusal(HTTPStatus.NOT_FOUND)
        return page() if method == b"GET" else _refusal(HTTPStatus.METHOD_NOT_ALLOWED)

    def close(self) -> None:
        """Closes the socket and all connections."""
        for client in list(self._clients):
            client.close()
        if self._path:  # first: once the socket is closed, another adapter may use the path
            with suppress(OSError):
                os.unlink(self._path)
        self._listener.close()


class _Client:
    """A connection, until it has its answer or has taken too long."""

    def __init__(
        self, loop: Loop, fd: int, answer: Callable[[bytes], Response], on_end: Callable[[_Client], object]
    ) -> None:
        self._answer = answer
        self._on_end: Callable[[_Client], object] | None = on_end
        self._request = b""
        self._is_answered = False
        self._trunk = Trunk(loop, fd)
        self._trunk.on_data = self._receive
        self._trunk.on_close = lambda _: self.close()
        self._limit = loop.call_at(loop.time() + CLIENT_TIMEOUT, self.close)

    def _receive(self, data: bytes) -> None:
        if self._is_answered:
            return
        self._request += data
        if b"\r\n\r\n" not in self._request and len(self._request) <= MAX_REQUEST:
            return
        self._is_answered = True
        status, body, type_ = self._answer(self._request)
        fields = f"Content-Type: {type_}\r\nContent-Length: {len(body)}\r\nConnection: close"
        self._trunk.write(f"HTTP/1.1 {status.value} {status.phrase}\r\n{fields}\r\n\r\n".encode() + body)
        self._trunk.when_sent(self.close)

    def close(self) -> None:
        """Closes the connection."""
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(self)
            self._limit.cancel()
            self._trunk.close()


def _refusal(status: HTTPStatus) -> Response:
    return Response(status, f"{status.phrase}\n".encode())


def _tcp(listen: str) -> socket.socket:
    host, _, port = listen.rpartition(":")
    return listening_socket(socket.AF_INET6 if host.startswith("[") else socket.AF_INET, (host.strip("[]"), int(port)))


def _unix(path: str) -> socket.socket:
    """Returns a socket at a path. The socket of a killed adapter is removed first."""
    remove_dead_socket(path)
    return listening_socket(socket.AF_UNIX, path)
