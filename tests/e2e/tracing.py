"""A runtime that traces: its spans reach a listener, and the legacy plugins of its events, and the adapter's log."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from tests.e2e.launched import Syslog
from tests.e2e.pod import STATE, Cri, HarnessError, until
from tests.e2e.runtimes import Runtime

CONF = Path("/etc/nri/traced/conf.json")
SETTINGS = f"legacy: {{config: {CONF}}}\n"
SEEN = STATE / "seen"
REFUSED = "plugin: traced: not this one"
PLUGIN = (
    "traced",
    f"""#!/bin/sh
request=$(cat)
echo "${{TRACEPARENT-none}}" >> {SEEN}
case $request in *refuse-it*) echo '{{"error": "not this one"}}' ;; *) echo '{{"plugin": "traced"}}' ;; esac
""",
)


class Collector(ThreadingHTTPServer):
    """Takes spans by OTLP over HTTP."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        super().__init__(("127.0.0.1", 0), Handler)
        Thread(target=self.serve_forever, daemon=True).start()

    def has(self, trace: str) -> bool:
        """Whether a span of the trace has been exported: its id stands in it as 16 bytes."""
        return any(bytes.fromhex(trace) in body for body in self.bodies)


class Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *words: object) -> None:
        pass


def play(runtime: Runtime, syslog: Syslog) -> Iterator[str]:
    """The adapter is installed. A pod lives and dies, and a plugin refuses a second one."""
    collector = Collector()
    runtime.variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_address[1]}",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_SERVICE_NAME": "containerd",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
    }
    cri: Cri = runtime.start()
    until(lambda: syslog.has("registered with"), "the adapter to be registered")
    pod = cri.run_pod()
    cri("start", cri.create(pod))
    try:
        cri("start", cri.create(pod, "second", annotations={"refuse-it": ""}))
        yield "the plugin's refusal has not failed the container"
    except HarnessError:
        pass
    cri.end_pod(pod.id)
    spans = SEEN.read_text().split()
    if len(spans) < 4 or "none" in spans:
        yield f"plugins have got the spans {spans}"
        return
    traces = list(dict.fromkeys(span.split("-")[1] for span in spans))
    for trace in traces:
        until(lambda trace=trace: collector.has(trace), f"a span of {trace} to be exported")  # type: ignore[misc]
    lines = [line for line in syslog.lines if REFUSED in line]
    if not any(f"trace_id={trace} create of" in line for line in lines for trace in traces):
        yield f"the refusal is logged without its trace: {lines}"
    collector.shutdown()
