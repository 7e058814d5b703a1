"""Metrics and probes of a plugin: `run(plugin, metrics="ADDRESS:PORT")`."""

from __future__ import annotations

import logging
import os
import re
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.client import HTTPConnection
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from prometheus_client import Counter
from prometheus_client.parser import text_string_to_metric_families

from nri import CallError, Context, NRIError, Plugin, api, metrics, run
from nri.metrics import Metrics
from nri.testing import Node
from nri.wire import Code

from ..rig.processes import at_most
from ..rig.waiting import LIMIT, until


class Client:
    def __init__(self, port: int) -> None:
        self.port = port

    def get(self, path: str) -> tuple[int, str]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            assert "text" in response.getheader("Content-Type", "")
            body = response.read()
            assert response.getheader("Content-Length") == str(len(body))
            return response.status, body.decode()
        finally:
            connection.close()

    def samples(self, name: str, **labels: str) -> dict[tuple[str, ...], float]:
        """The samples of a name with these labels, by their other labels but the plugin's, in order of the names."""
        status, text = self.get("/metrics")
        assert status == 200
        return {
            tuple(value for key, value in sorted(sample.labels.items()) if key not in labels): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        }


class Adjusting(Plugin):
    def create_container(self, request: api.CreateContainerRequest, context: Context) -> api.CreateContainerResponse:
        if request.container.name == "plain":
            return api.CreateContainerResponse(adjust=api.ContainerAdjustment())
        response = api.CreateContainerResponse(update=[api.ContainerUpdate(container_id=id_) for id_ in ("a", "b")])
        response.adjust.env.add(key="A", value="1")
        return response

    def start_container(self, request: api.StartContainerRequest, context: Context) -> None:
        raise CallError(Code.RESOURCE_EXHAUSTED, "none is left")

    def post_start_container(self, request: api.PostStartContainerRequest, context: Context) -> Any:
        return None

    def stop_container(self, request: api.StopContainerRequest, context: Context) -> None:
        raise KeyError("a bug")


class Coroutines(Adjusting):
    async def post_start_container(self, request: api.PostStartContainerRequest, context: Context) -> Any:
        return None


@pytest.mark.parametrize("plugin", [Adjusting(), Coroutines()], ids=["plain", "coroutines"])
def test_events_are_counted_by_method_and_status_with_their_time_and_changes(
    plugin: Plugin, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "nri.metrics")
    name = type(plugin).__name__.lower()
    own = {"plugin": f"20-{name}"}
    with Node() as node:
        serve = partial(run, plugin, name, "20", str(node.socket), [], metrics="127.0.0.1:0")
        running = threading.Thread(target=serve, daemon=True)
        running.start()
        node.accept()
        client = Client(int(caplog.text.rpartition("metrics and probes at http://127.0.0.1:")[2]))
        try:
            node.event("CreateContainer", name="x")
            node.event("CreateContainer", name="plain")
            node.event("StartContainer")
            node.event("StopContainer")
            node.event("PostStartContainer")  # an event comes when the one before it has been counted
            assert client.get("/readyz") == (200, "joined\n")
            assert client.get("/healthz") == (200, "ok\n")
            counts = client.samples("nri_plugin_invocations_total", **own)
            counts.pop(("", "PostStartContainer", "success"), None)
            assert counts == {
                ("", "Configure", "success"): 1.0,
                ("", "Synchronize", "success"): 1.0,
                ("", "CreateContainer", "success"): 2.0,
                ("resource_exhausted", "StartContainer", "error"): 1.0,
                ("unknown", "StopContainer", "error"): 1.0,
            }
            times = client.samples("nri_plugin_latency_seconds_count", operation="CreateContainer", **own)
            assert times == {(): 2.0}
            changes = client.samples("nri_plugin_adjustments_total", operation="CreateContainer", **own)
            assert changes == {("adjust",): 1.0, ("update",): 2.0}
            assert client.samples("nri_plugin_joined", **own) == {(): 1.0}
            assert client.samples("nri_plugin_joins_total", **own) == {(): 1.0}
            assert client.samples("nri_plugin_info", **own) == {("v0.12.3", "containerd", "v2.4.2"): 1.0}
        finally:
            node.stop()
            running.join(LIMIT)
            assert not running.is_alive()
        with pytest.raises(OSError, match="refused"):
            client.get("/healthz")


@pytest.fixture
def counted() -> Iterator[Metrics]:
    made = Metrics("127.0.0.1:0", "10-counted")
    try:
        yield made
    finally:
        made.close()


def test_a_plugin_is_ready_only_while_it_has_joined(counted: Metrics) -> None:
    client = Client(counted.port)
    assert client.get("/readyz") == (503, "the plugin has not joined a runtime\n")
    counted.joined()
    assert client.get("/readyz") == (200, "joined\n")
    counted.lost()
    assert client.get("/readyz") == (503, "the plugin has not joined a runtime\n")
    assert client.samples("nri_plugin_joined", plugin="10-counted") == {(): 0.0}
    counted.joined()
    Metrics("127.0.0.1:0", "10-counted").close()
    assert client.samples("nri_plugin_joined", plugin="10-counted") == {(): 0.0}, "the next one begins anew"


def test_a_plugin_is_healthy_unless_a_call_waits_beyond_its_deadline(counted: Metrics) -> None:
    client, clock = Client(counted.port), SimpleNamespace(now=0.0)
    call, other = (Context(name, 2.0, lambda: clock.now, 0.0) for name in ("StartContainer", "CreateContainer"))
    counted.called(call)
    counted.called(other)
    clock.now = 2.0
    assert client.get("/healthz") == (200, "ok\n")
    clock.now = 2.1
    assert client.get("/healthz") == (503, "no answer within the deadline: CreateContainer, StartContainer\n")
    counted.answered(call, None)
    counted.answered(other, api.CreateContainerResponse(update=[api.ContainerUpdate(container_id="a")]))
    assert client.get("/healthz") == (200, "ok\n")
    late = client.samples("nri_plugin_invocations_total", plugin="10-counted")
    assert late == {("deadline_exceeded", name, "error"): 1.0 for name in ("StartContainer", "CreateContainer")}
    assert client.samples("nri_plugin_latency_seconds_sum", plugin="10-counted") == {
        ("StartContainer",): 2.1,
        ("CreateContainer",): 2.1,
    }
    assert client.samples("nri_plugin_adjustments_total", plugin="10-counted") == {}, "the runtime takes none"
    clock.now, other.status = 2.0, 99
    counted.answered(other, None)
    assert ("unknown_code", "CreateContainer", "error") in client.samples(
        "nri_plugin_invocations_total", plugin="10-counted"
    )
    clock.now = 2.1
    counted.called(call)
    counted.lost()
    assert client.get("/healthz") == (200, "ok\n")


def test_the_runtime_that_was_joined_last_is_the_one_that_is_shown(counted: Metrics) -> None:
    for version in ("v1", "v2"):
        counted.configured(api.ConfigureRequest(runtime_name="x\n", runtime_version=version, NRI_version="v3"))
    shown = Client(counted.port).samples("nri_plugin_info", plugin="10-counted")
    assert shown == {("v3", "x\\n", "v2"): 1.0}


def test_other_paths_name_the_pages(counted: Metrics) -> None:
    client = Client(counted.port)
    assert client.get("/") == (200, "/metrics\n/healthz\n/readyz\n")
    assert client.get("/metric")[0] == 404
    assert client.get("/healthz?probe=1")[0] == 200


def test_metrics_of_a_plugins_own_are_on_the_page(counted: Metrics) -> None:
    Counter("own_devices_found", "A plugin's own.").inc(3)
    assert Client(counted.port).samples("own_devices_found_total") == {(): 3.0}


def test_a_client_that_goes_away_disturbs_nobody(
    counted: Metrics, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    for sent in (b"", b"GET", b"\0" * 1000, b"GET /metrics HTTP/1.1\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", counted.port), timeout=LIMIT) as client:
            client.sendall(sent)
    with caplog.at_level(logging.DEBUG, "nri.metrics"):
        with socket.create_connection(("127.0.0.1", counted.port), timeout=LIMIT) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # its end is a reset
        until(lambda: "ConnectionResetError" in caplog.text, "the client's end is logged")
        assert Client(counted.port).get("/healthz") == (200, "ok\n")
    assert '"GET /healthz HTTP/1.1" 200' in caplog.text
    assert capfd.readouterr() == ("", "")


def test_a_client_that_is_silent_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "CLIENT_TIMEOUT", 0.01)
    try:
        made = Metrics("[::1]:0", "10-silent")
    except NRIError as error:
        pytest.skip(f"this machine has no IPv6: {error}")
    try:
        with socket.create_connection(("::1", made.port), timeout=LIMIT) as client:
            assert client.recv(1) == b""
    finally:
        made.close()


def test_without_a_descriptor_for_one_more_client_the_thread_rests(
    counted: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection stays ready until it is accepted."""
    rests: list[float] = []
    goes_on = threading.Event()

    def rest(seconds: float) -> None:
        rests.append(seconds)
        goes_on.wait(LIMIT)

    monkeypatch.setattr(metrics, "time", Mock(sleep=rest))
    with socket.socket() as client:
        os.close(free := os.dup(client.fileno()))
        with at_most(free):
            client.connect(("127.0.0.1", counted.port))
            until(lambda: rests, "the thread rests")
        goes_on.set()
        client.settimeout(LIMIT)
        client.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.0 200")
    assert rests == [metrics.PAUSE]


def test_an_address_that_cannot_be_used_is_named(counted: Metrics) -> None:
    for listen, why in {
        f"127.0.0.1:{counted.port}": "Address already in use",
        "9090": "no port; it must be ADDRESS:PORT",
        "127.0.0.1:http": "invalid literal",
        "127.0.0.1:99999": "port must be 0-65535",
        "nowhere.invalid:1": "",
    }.items():
        with pytest.raises(NRIError, match=f"^metrics: {re.escape(listen)}: .*{why}"):
            Metrics(listen, "10-x")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.setattr(metrics, "_families", metrics._families.__wrapped__)  # what was made once stays
    with pytest.raises(SystemExit, match="metrics need the package prometheus-client: the extra `metrics` of nri"):
        run(Plugin(), "x", "10", "/nowhere", [], metrics="127.0.0.1:0")
