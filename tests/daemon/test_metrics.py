"""Metrics and probes of the real command: what a probe finds when all is well, and when it is not."""

from __future__ import annotations

import socket
from pathlib import Path

from tests.rig.sockets import connect

from ..rig.daemon import Daemon
from ..rig.machine import Machine, start, stop
from ..rig.waiting import LIMIT
from .conftest import Ask


def page(path: Path, name: str) -> tuple[int, str]:
    """A page's status and text."""
    with socket.socket(socket.AF_UNIX) as asked:
        asked.settimeout(LIMIT)
        connect(asked, path)
        asked.sendall(f"GET {name} HTTP/1.1\r\n\r\n".encode())
        text = b"".join(iter(lambda: asked.recv(1 << 16), b"")).decode()
    head, _, body = text.partition("\r\n\r\n")
    return int(head.split()[1]), body


def served(node: Machine, daemon: Daemon) -> Path:
    """Where a daemon serves metrics."""
    daemon.logged("metrics and probes at ")
    return node.path / "metrics.sock"


def listen(node: Machine) -> dict[str, str]:
    return {"listen": f"unix:{node.path}/metrics.sock"}


def test_events_programs_and_who_serves_are_told(node: Machine) -> None:
    node.shared_state = "state"
    node.configure("good")
    daemon = node.launch(metrics=listen(node))
    path = served(node, daemon)
    daemon.serves(start("c1"), start("c2"), stop("c1"))
    text = {*page(path, "/metrics")[1].splitlines()}
    assert {
        'v010_adapter_program_duration_seconds_count{outcome="done",program="good"} 3.0',
        'v010_adapter_event_duration_seconds_count{event="StartContainer"} 2.0',
        *("v010_adapter_serving 1.0", "v010_adapter_joined 1.0", "v010_adapter_joins_total 1.0"),
        "v010_adapter_owed_deletes 1.0",
    } <= text
    assert page(path, "/healthz") == (200, "ok\n")
    daemon.end()
    assert not path.exists()


def test_each_program_that_may_fail_has_its_series_before_it_has_run(node: Machine) -> None:
    """An alert cannot see a rise from nothing to 1."""
    node.configure("good", "other")
    folder = node.hook("edit", "/bin/true", "precreate")
    node.hook("trace", "/bin/true", "prestart")
    hooks = {"enabled": True, "directories": [str(folder)], "precreate": True}
    daemon = node.launch(hooks=hooks, metrics=listen(node))
    path = served(node, daemon)
    daemon.logged("edit.json is in force")
    text = page(path, "/metrics")[1]
    failures = [line for line in text.splitlines() if line.startswith("v010_adapter_program_failures_total")]
    programs = ("good", "other", "edit.json")
    assert failures == [f'v010_adapter_program_failures_total{{program="{name}"}} 0.0' for name in programs]


def test_an_adapter_without_a_runtime_is_healthy_and_not_ready(node: Machine, listener: socket.socket) -> None:
    daemon = node.external("-config", node.file(metrics=listen(node)), listener=listener)
    daemon.registration()
    path = served(node, daemon)  # the runtime takes its time to configure the adapter
    assert page(path, "/healthz") == (200, "ok\n")
    assert page(path, "/readyz") == (503, "joining\nnot joined with a runtime: joining\n")
    daemon.configure()
    daemon.serves("Synchronize")
    assert page(path, "/readyz") == (200, "joined\n")
    status, told = page(path, "/")
    paths = [line.split()[0] for line in told.splitlines()[1:]]
    assert (status, [page(path, one)[0] for one in paths]) == (200, [200, 200, 200]), told
    daemon.hang_up()
    daemon.logged("the runtime has closed the connection")
    assert page(path, "/readyz")[0] == 503
    daemon.accept(listener).handshake().serves("CreateContainer")
    assert "v010_adapter_joins_total 2.0\n" in page(path, "/metrics")[1]


def test_an_adapter_that_stands_by_and_joins_again_leaves_the_port_to_the_one_that_serves(
    node: Machine, listener: socket.socket, asked: Ask
) -> None:
    """Without a runtime it does not know who serves, and tries to have the port."""
    with socket.socket() as kept:  # from others: it does not listen
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        at = f"127.0.0.1:{kept.getsockname()[1]}"
        first = node.launch(metrics={"listen": at})
        first.logged(f"metrics and probes at {at}")
        first.serves(start("c1"))
        second = node.external("-config", node.file(metrics={"listen": at}), listener=listener).handshake()
        second.hang_up()
        second.logged(f"metrics.listen: {at}: Address already in use")
        second.accept(listener).handshake().serves(start("c1"))
        status = asked()
        assert (status.code, "Address already in use" in status.stdout) == (0, False), status
