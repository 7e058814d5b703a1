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
from adapter.monitoring.listener import Client, Listener, listening_socket, remove_dead_socket

MAX_REQUEST = 8 << 10
"""Maximum bytes of a request with its header fields."""
MAX_CLIENTS = 16
"""Maximum number of connections. If one more comes, the oldest is closed."""
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
        self._clients: dict[Client, None] = {}
        self._path = listen.removeprefix("unix:") if listen.startswith("unix:") else ""
        self._listener = Listener(loop, _unix(self._path) if self._path else _tcp(listen), self._on_connection)

    def _on_connection(self, connection: socket.socket) -> None:
        if len(self._clients) >= MAX_CLIENTS:
            next(iter(self._clients)).close()
        client = Client(self._loop, connection, self._clients)
        request = bytearray()

        def receive(data: bytes) -> None:
            request.extend(data)
            if b"\r\n\r\n" in request or len(request) > MAX_REQUEST:
                client.trunk.on_data = lambda _: None
                status, body, type_ = self._answer(bytes(request))
                fields = f"Content-Type: {type_}\r\nContent-Length: {len(body)}\r\nConnection: close"
                client.answer(f"HTTP/1.1 {status.value} {status.phrase}\r\n{fields}\r\n\r\n".encode() + body)

        client.trunk.on_data = receive

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


def _refusal(status: HTTPStatus) -> Response:
    return Response(status, f"{status.phrase}\n".encode())


def _tcp(listen: str) -> socket.socket:
    host, _, port = listen.rpartition(":")
    return listening_socket(socket.AF_INET6 if host.startswith("[") else socket.AF_INET, (host.strip("[]"), int(port)))


def _unix(path: str) -> socket.socket:
    """Returns a socket at a path. The socket of a killed adapter is removed first."""
    remove_dead_socket(path)
    return listening_socket(socket.AF_UNIX, path)
