#!/opt/v010-adapter/bin/python3 -I
"""Counts containers for Prometheus. It needs the package prometheus-client.

Labels are what the administrator knows: namespaces and events. A pod's name as a label would let pod authors fill the
memory with time series.
"""

import argparse

from prometheus_client import Counter, Gauge, start_http_server

from nri import Context, Plugin, api, run

EVENTS = Counter("nri_container_events", "Events of containers", ["namespace", "event"])
RUNNING = Gauge("nri_containers_running", "Containers that run")


class Metrics(Plugin):
    """Knows which containers run."""

    def __init__(self) -> None:
        """Begins without containers; each Synchronize has those that are there."""
        self._running: set[str] = set()
        RUNNING.set_function(lambda: len(self._running))

    def synchronize(self, request: api.SynchronizeRequest, context: Context) -> None:
        self._running = {one.id for one in request.containers if one.state == api.CONTAINER_RUNNING}

    def start_container(self, request: api.StartContainerRequest, context: Context) -> None:
        EVENTS.labels(request.pod.namespace, "start").inc()
        self._running.add(request.container.id)

    def stop_container(self, request: api.StopContainerRequest, context: Context) -> None:
        EVENTS.labels(request.pod.namespace, "stop").inc()
        self._running.discard(request.container.id)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(allow_abbrev=False, epilog="-name, -idx and -socket are the stub's")
    parser.add_argument("--port", type=int, default=9465, help="where Prometheus asks")
    options, words = parser.parse_known_args()
    server, _ = start_http_server(options.port)
    print(f"metrics are on port {server.server_port}", flush=True)
    run(Metrics(), "metrics", "90", words=words, reconnect=True)
