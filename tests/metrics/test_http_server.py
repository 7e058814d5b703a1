"""Pages over HTTP on the daemon's loop: clients that are right are answered, others take neither time nor memory."""

from __future__ import annotations

import errno
import fcntl
import socket
import sys
import termios
from collections.abc import Callable, Iterator
from http import HTTPStatus
from itertools import count
from pathlib import Path

import pytest

from tests.rig import sockets
from v010_adapter.base.loop import Loop
from v010_adapter.monitoring.http_server import MAX_REQUEST, HttpServer, Response
from v010_adapter.monitoring.listener import PAUSE

from ..rig.loop import SteppedLoop
from ..rig.processes import at_most, failing, open_descriptors

CLIENT_TIMEOUT, MAX_CLIENTS = 30.0, 16
GET = b"GET /page HTTP/1.1\r\nHost: node\r\n\r\n"
FIELDS = b"Content-Type: text/plain; charset=utf-8\r\nContent-Length: 6\r\nConnection: close\r\n"
OK = b"HTTP/1.1 200 OK\r\n" + FIELDS + b"\r\nhello\n"
GET_MUCH = GET.replace(b"page", b"much")
MUCH = b"0123456789" * 250_000
"""More than any socket takes at once."""


def family_of(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


class Client:
    """A connection with the server, and what has come through it."""

    def __init__(self, loop: SteppedLoop, address: str | tuple[str, int]) -> None:
        self.loop = loop
        if isinstance(address, str):
            self.socket = socket.socket(socket.AF_UNIX)
            sockets.connect(self.socket, address)
        else:
            self.socket = socket.socket(family_of(address[0]))
            self.socket.connect(address)
        self.socket.setblocking(False)
        self.got = b""
        self.is_closed = False

    def send(self, data: bytes) -> None:
        """Sends data, and waits until the server has read them."""
        self.socket.send(data)
        self.loop.until(lambda: not self._unread(), "the server does not read")

    def _unread(self) -> int:
        """What the kernel still has of the data that were sent (unix(7), tcp(7))."""
        return int.from_bytes(fcntl.ioctl(self.socket, termios.TIOCOUTQ, bytes(4)), sys.byteorder)

    def read(self) -> bytes:
        """Reads until the server closes the connection."""
        self.loop.watch(self.socket.fileno(), self._read)
        self.loop.until(lambda: self.is_closed, "the server does not close the connection")
        return self.got

    def _read(self) -> None:
        try:
            chunk = self.socket.recv(1 << 20)
        except ConnectionResetError:  # as the server has not read all
            chunk = b""
        self.got += chunk
        if not chunk:
            self.loop.unwatch(self.socket.fileno())
            self.is_closed = True


Connect = Callable[..., Client]
"""Connects, and sends what it is given."""


@pytest.fixture
def connect(loop: SteppedLoop, tmp_path: Path) -> Iterator[Connect]:
    """A server with two pages, and what connects with it."""
    clients: list[Client] = []
    pages = {
        "/page": lambda: Response(HTTPStatus.OK, b"hello\n"),
        "/much": lambda: Response(HTTPStatus.SERVICE_UNAVAILABLE, MUCH),
    }
    path = tmp_path / "http.sock"
    server = HttpServer(loop, f"unix:{path}", pages)

    def connected(sent: bytes = b"") -> Client:
        clients.append(Client(loop, str(path)))
        clients[-1].send(sent)
        return clients[-1]

    yield connected
    server.close()
    assert not path.exists()
    assert loop.is_idle
    for client in clients:
        client.socket.close()


def test_a_page_is_answered_once_and_the_connection_closed_though_the_request_comes_in_pieces(connect: Connect) -> None:
    client = connect()
    for byte in GET:
        client.send(bytes([byte]))
    assert client.read() == OK


def test_a_long_page_comes_whole_and_once(connect: Connect) -> None:
    client = connect(GET_MUCH)
    client.send(GET)
    head, _, body = client.read().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert body == MUCH


STATUSES = {
    **{b"GET /page?name[]=x HTTP/1.0": 200, b"GET / HTTP/1.1": 404, b"GET http://node/page HTTP/1.1": 404},
    **{b"GET /\xff\x00 HTTP/1.1": 404, b"HEAD /page HTTP/1.1": 405, b"POST /page HTTP/1.1": 405},
    **{b"GET /page": 400, b"GET /page HTTP/2.0": 400, b"\x16\x03\x01 \xff": 400, b"": 400},
}


def test_the_first_line_decides_and_a_request_without_end_is_refused_at_its_limit(connect: Connect) -> None:
    for line, status in STATUSES.items():
        assert connect(line + b"\r\n\r\n").read().startswith(f"HTTP/1.1 {status} ".encode()), line
    assert connect(GET[:-4].ljust(MAX_REQUEST - 4, b"x") + b"\r\n\r\n").read() == OK
    client = connect(b"x" * MAX_REQUEST)
    client.send(b"x")
    assert client.read().startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("sent", [b"", b"GET /page HTTP/1.1\r\n", GET_MUCH])
def test_a_slow_client_is_dropped_and_holds_nobody_up(connect: Connect, loop: SteppedLoop, sent: bytes) -> None:
    slow = connect(sent)
    assert connect(GET).read() == OK
    loop.advance(CLIENT_TIMEOUT)
    assert len(slow.read()) < len(MUCH)


def test_more_connections_than_there_may_be_end_the_oldest(connect: Connect) -> None:
    oldest, *others = [connect(GET[:1]) for _ in range(MAX_CLIENTS + 1)]
    assert oldest.read() == b""
    for client in others:
        client.send(GET[1:])
        assert client.read() == OK


def test_clients_that_have_gone_or_were_answered_leave_nothing(connect: Connect, loop: SteppedLoop) -> None:
    before = open_descriptors()
    for sent in (b"", b"GET", GET_MUCH):
        gone = connect()
        gone.socket.send(sent)
        gone.socket.close()
    client = connect(GET)
    assert client.read() == OK
    client.socket.close()
    loop.until(lambda: open_descriptors() <= before, "a descriptor stays open")
    assert loop.is_idle


def test_what_is_not_read_ends_with_the_server(loop: SteppedLoop, tmp_path: Path) -> None:
    server = HttpServer(loop, f"unix:{tmp_path}/http", {"/much": lambda: Response(HTTPStatus.OK, MUCH)})
    client = Client(loop, f"{tmp_path}/http")
    client.send(GET_MUCH)
    server.close()
    assert len(client.read()) < len(MUCH)
    client.socket.close()


def test_without_a_descriptor_for_one_more_the_loop_rests(connect: Connect, loop: SteppedLoop) -> None:
    turns = count()
    ready, written = socket.socketpair()
    with ready, written:
        written.send(b"x")
        loop.watch(ready.fileno(), lambda: next(turns))
        client = connect()
        client.socket.send(GET)
        with at_most(0):
            loop.until(lambda: next(turns) > 10)
        loop.until(lambda: next(turns) > 30)
        with pytest.raises(BlockingIOError):
            client.socket.recv(1)
        loop.advance(PAUSE)
        assert client.read() == OK
        loop.unwatch(ready.fileno())


def test_a_client_without_an_answer_is_disconnected_and_the_next_one_is_answered(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = open_descriptors()
    with monkeypatch.context() as broken:
        broken.setattr(HttpServer, "serve", lambda *_: 1 / 0)
        client = connect()
        assert client.read() == b""
    client.socket.close()
    assert len(open_descriptors()) <= len(before)
    assert connect(GET).read() == OK
    assert caplog.text.count("a bug: ") == 1


@pytest.mark.parametrize("error", [errno.ECONNABORTED, errno.EMFILE])
def test_a_connection_that_has_ended_before_it_is_accepted_delays_no_other_and_a_server_that_pauses_can_be_closed(
    connect: Connect, loop: SteppedLoop, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(socket.socket, "accept", accept := failing(error))
        client = connect()
        loop.until(lambda: accept.called, "nobody accepts")
    if error == errno.ECONNABORTED:
        client.send(GET)
        assert client.read() == OK


def test_a_client_or_server_that_epoll_does_not_take_keeps_no_descriptor_and_later_clients_are_answered(
    connect: Connect, loop: SteppedLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """epoll has a limit for each user (fs.epoll.max_user_watches)."""
    connect()
    before = open_descriptors()
    watch = failing(errno.ENOSPC)
    with socket.socket(socket.AF_UNIX) as refused, monkeypatch.context() as full:
        full.setattr(Loop, "watch", watch)
        sockets.connect(refused, tmp_path / "http.sock")
        loop.until(lambda: watch.called, "nobody accepts")
        loop.advance(PAUSE)
        with pytest.raises(OSError, match="No space left") as error:
            HttpServer(loop, f"unix:{tmp_path}/other.sock", {})
    assert len(open_descriptors()) <= len(before), error.value
    loop.advance(PAUSE)
    assert connect(GET).read() == OK


# ---- addresses


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_it_listens_at_an_address_and_refuses_one_that_is_taken(loop: SteppedLoop, host: str) -> None:
    with socket.socket(family_of(host)) as held:  # it keeps the port from others, and does not listen
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            held.bind((host, 0))
        except OSError as error:
            pytest.skip(f"this machine has no address {host}: {error}")
        port = held.getsockname()[1]
        listen = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        with socket.socket(family_of(host)) as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind((host, port))
            other.listen()
            with pytest.raises(OSError, match="Address already in use"):
                HttpServer(loop, listen, {})
        server = HttpServer(loop, listen, {"/page": lambda: Response(HTTPStatus.OK, b"hello\n")})
        client = Client(loop, (host, port))
        client.send(GET)
        assert client.read() == OK
        client.socket.close()
        server.close()


def test_only_the_socket_of_a_killed_adapter_is_replaced(loop: SteppedLoop, tmp_path: Path) -> None:
    path, file = tmp_path / "http.sock", tmp_path / "file"
    file.write_text("kept")
    with sockets.listening(path):
        before = open_descriptors()
        for taken in (path, file):
            with pytest.raises(OSError, match="Address already in use") as refused:
                HttpServer(loop, f"unix:{taken}", {})
            assert open_descriptors() <= before, f"a descriptor is left: {refused.value}"
        Client(loop, str(path)).socket.close()
    assert file.read_text() == "kept"
    server = HttpServer(loop, f"unix:{path}", {})
    assert path.stat().st_mode & 0o777 == 0o600, "for its owner only"
    server.close()
    assert not path.exists()
