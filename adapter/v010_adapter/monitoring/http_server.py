"""Answers HTTP requests on the daemon's loop. So a probe gets no answer if the loop hangs.

A connection has one request, and the method must be GET. A client that is slow, or sends too much, is disconnected.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple

from nri.address import address
from v010_adapter.base.connected_socket import ConnectedSocket
from v010_adapter.base.loop import Loop
from v010_adapter.monitoring.listener import AnsweringListener, listening_socket, remove_dead_socket

MAX_REQUEST = 8 << 10
"""Maximum bytes of a request with its header fields."""
TEXT = "text/plain; charset=utf-8"


class Response(NamedTuple):
    """The response to a request."""

    status: HTTPStatus
    body: bytes
    type: str = TEXT


class HttpServer(AnsweringListener):
    """Serves pages. A function makes each page."""

    def __init__(self, loop: Loop, listen: str, pages: Mapping[str, Callable[[], Response]]) -> None:
        """Takes `unix:PATH` or `ADDRESS:PORT`, and the function that makes the page of each path. Raises OSError."""
        self._pages = pages
        path = listen.removeprefix("unix:") if listen.startswith("unix:") else ""
        super().__init__(loop, _unix(path) if path else _tcp(listen), path)

    def serve(self, client: ConnectedSocket) -> None:
        request = bytearray()

        def receive(data: bytes) -> None:
            request.extend(data)
            if b"\r\n\r\n" in request or len(request) > MAX_REQUEST:
                client.on_data = lambda _: None
                status, body, type_ = self._response(bytes(request))
                fields = f"Content-Type: {type_}\r\nContent-Length: {len(body)}\r\nConnection: close"
                head = f"HTTP/1.1 {status.value} {status.phrase}\r\n{fields}\r\n\r\n"
                self.answer(client, head.encode() + body)

        client.on_data = receive

    def _response(self, request: bytes) -> Response:
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


def _refusal(status: HTTPStatus) -> Response:
    return Response(status, f"{status.phrase}\n".encode())


def _unix(path: str) -> socket.socket:
    with address(path) as short:
        remove_dead_socket(short)
        return listening_socket(socket.AF_UNIX, short)


def _tcp(listen: str) -> socket.socket:
    host, _, port = listen.rpartition(":")
    return listening_socket(socket.AF_INET6 if host.startswith("[") else socket.AF_INET, (host.strip("[]"), int(port)))
