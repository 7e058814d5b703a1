"""Metrics and probes of a plugin over HTTP: /metrics for Prometheus, /healthz and /readyz for a kubelet.

The names and labels are those of containerd's metrics of plugins, without `containerd_` (containerd
internal/nri/metrics.go): the two sides of one call can be compared. They stand in the registry of prometheus-client,
with the metrics that a plugin makes there for itself.
"""

from __future__ import annotations

import logging
import time
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6, SHUT_RDWR
from threading import Thread
from typing import Any, NamedTuple

from nri.errors import NRIError
from nri.plugin import Context
from nri.proto import nri_pb2 as api
from nri.text import printable
from nri.wire import Code

log = logging.getLogger(__name__)

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0)
"""Seconds: the upper bounds of the histogram's buckets. NRI waits for two seconds."""
CLIENT_TIMEOUT = 10.0
"""Seconds that a client may be silent."""
PAUSE = 0.2
"""Seconds until connections are accepted again."""
TEXT = "text/plain; charset=utf-8"


class _Families(NamedTuple):
    invocations: Any
    latency: Any
    adjustments: Any
    joined: Any
    joins: Any
    info: Any


@cache
def _families() -> _Families:
    """Returns the metrics in prometheus-client's registry, which takes each name once."""
    from prometheus_client import Counter, Gauge, Histogram  # the extra `metrics`  # noqa: PLC0415

    of, call = "nri_plugin_", ("plugin", "operation")
    return _Families(
        Counter(f"{of}invocations", "Answers to the runtime's calls.", (*call, "status", "error")),
        Histogram(f"{of}latency_seconds", "Time from a call to its answer.", call, buckets=BOUNDS),
        Counter(f"{of}adjustments", "Changes that answers have asked for.", (*call, "type")),
        Gauge(f"{of}joined", "Whether the plugin has joined a runtime.", ("plugin",)),
        Counter(f"{of}joins", "How often the plugin has joined a runtime.", ("plugin",)),
        Gauge(f"{of}info", "The runtime that was joined last.", ("plugin", "runtime", "runtime_version", "nri")),
    )


class Metrics:
    """The metrics and probes of one plugin. They are served from the constructor's call until `close`."""

    def __init__(self, listen: str, plugin: str) -> None:
        """Takes `ADDRESS:PORT` and the plugin's `NN-NAME`. Port 0 is a free one: see `port`.

        Raises NRIError if prometheus-client is not installed, or if the address cannot be used.
        """
        try:
            self._families = _families()
            from prometheus_client import exposition  # noqa: PLC0415
        except ImportError:
            raise NRIError("metrics need the package prometheus-client: the extra `metrics` of nri") from None
        self._generate, self._type = exposition.generate_latest, exposition.CONTENT_TYPE_PLAIN_0_0_4
        self._plugin = plugin
        self._runtime: tuple[str, ...] = ()
        """The name and version of the runtime, and its version of NRI; empty before the first Configure."""
        self._calls: set[Context] = set()
        """The calls without an answer."""
        self._set_joined(is_joined=False)
        try:
            self._server = _server(listen, self._page)
        except (OSError, ValueError, OverflowError) as error:
            raise NRIError(f"metrics: {listen}: {getattr(error, 'strerror', None) or error}") from None
        self.port: int = self._server.server_address[1]
        """The port that is served."""
        self._thread = Thread(target=self._server.serve, name="nri-metrics", daemon=True)
        self._thread.start()
        log.info("metrics and probes at http://%s:%d", listen.rpartition(":")[0], self.port)

    def close(self) -> None:
        """Ends the server."""
        self._server.end()
        self._thread.join()
        self._server.server_close()

    # What the session tells

    def configured(self, request: api.ConfigureRequest) -> None:
        """The runtime has described itself."""
        if self._runtime:
            self._families.info.remove(self._plugin, *self._runtime)
        told = request.runtime_name, request.runtime_version, request.NRI_version
        self._runtime = tuple(map(printable, told))
        self._families.info.labels(self._plugin, *self._runtime).set(1)

    def joined(self) -> None:
        """The plugin has joined a runtime."""
        self._families.joins.labels(self._plugin).inc()
        self._set_joined(is_joined=True)

    def lost(self) -> None:
        """The connection with the runtime has ended."""
        self._calls.clear()
        self._set_joined(is_joined=False)

    def called(self, context: Context) -> None:
        """The runtime calls the plugin."""
        self._calls.add(context)

    def answered(self, context: Context, reply: Any) -> None:
        """A call has been answered. An answer after the deadline is an error: the runtime counts it so."""
        self._calls.discard(context)
        of = self._plugin, context.method
        self._families.latency.labels(*of).observe(context.elapsed())
        code = Code.DEADLINE_EXCEEDED if context.remaining() < 0 else context.status
        error = "" if code == Code.OK else Code(code).name.lower() if code in {*Code} else "unknown_code"
        self._families.invocations.labels(*of, "error" if error else "success", error).inc()
        if not error and reply is not None:
            for type_, number in _changes(reply):
                self._families.adjustments.labels(*of, type_).inc(number)

    def _set_joined(self, *, is_joined: bool) -> None:
        self._is_joined = is_joined
        self._families.joined.labels(self._plugin).set(is_joined)

    # What clients see

    def _page(self, path: str) -> tuple[HTTPStatus, str, bytes]:
        """Returns the status, the type and the body of a page."""
        if path == "/metrics":
            from prometheus_client import REGISTRY  # noqa: PLC0415

            return HTTPStatus.OK, self._type, self._generate(REGISTRY)
        if path == "/healthz":
            overdue = sorted({call.method for call in tuple(self._calls) if call.remaining() < 0})
            text = f"no answer within the deadline: {', '.join(overdue)}" if overdue else "ok"
            return _said(text, is_well=not overdue)
        if path == "/readyz":
            return _said(
                "joined" if self._is_joined else "the plugin has not joined a runtime", is_well=self._is_joined
            )
        status = HTTPStatus.OK if path == "/" else HTTPStatus.NOT_FOUND
        return status, TEXT, b"/metrics\n/healthz\n/readyz\n"


def _said(text: str, *, is_well: bool) -> tuple[HTTPStatus, str, bytes]:
    return HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE, TEXT, f"{text}\n".encode()


def _changes(reply: Any) -> list[tuple[str, int]]:
    """Returns the types and the numbers of the changes that an answer asks for; the types are containerd's."""
    fields = {field.name: value for field, value in reply.ListFields()}
    adjusts = "adjust" in fields and reply.adjust != api.ContainerAdjustment()
    counts = {"adjust": int(adjusts), "update": len(fields.get("update", ())), "evict": len(fields.get("evict", ()))}
    return [(type_, number) for type_, number in counts.items() if number]


def _server(listen: str, page: Any) -> Any:
    """Returns a server that listens. Raises OSError, and ValueError for an address without a port."""
    host, colon, port = listen.rpartition(":")
    if not colon:
        raise ValueError("no port; it must be ADDRESS:PORT")

    class Handler(BaseHTTPRequestHandler):
        timeout = CLIENT_TIMEOUT

        def do_GET(self) -> None:
            status, type_, body = page(self.path.partition("?")[0])
            self.send_response(status)
            self.send_header("Content-Type", type_)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *words: Any) -> None:
            log.debug(format, *words)

    class Server(ThreadingHTTPServer):
        address_family = AF_INET6 if host.startswith("[") else AF_INET
        is_ending = False

        def serve(self) -> None:
            """Serves until `end`. It sleeps until a client comes; serve_forever wakes twice a second."""
            while not self.is_ending:
                self.handle_request()

        def end(self) -> None:
            self.is_ending = True
            self.socket.shutdown(SHUT_RDWR)  # wakes `serve`

        def get_request(self) -> Any:
            try:
                return super().get_request()
            except OSError:  # no descriptor or memory: the connection stays ready, and the thread would only try again
                if not self.is_ending:
                    time.sleep(PAUSE)
                raise

        def handle_error(self, request: Any, client_address: Any) -> None:
            log.debug("a client of the metrics has gone", exc_info=True)

    return Server((host.strip("[]"), int(port)), Handler)
