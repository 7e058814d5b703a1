"""A full node: what Synchronize lists is answered soon, in parts too, and its memory is returned."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from google.protobuf.json_format import ParseDict

from adapter.nri import api
from adapter.wire import Code
from tests.peers.harness import golden

from .harness import Daemon, Node, stop

CONTAINERS, PER_PART = 5000, 450
OURS = 0.1
"""Seconds of CPU that the answers to all parts may take besides decoding them."""
KEPT = 40 << 10
"""KiB that may stay of the 100 MiB that the answer takes."""


@pytest.fixture(scope="module")
def payloads() -> list[bytes]:
    """The parts of a Synchronize with 5000 pods of one container each, as containerd tells them."""
    [told] = [one for one in golden("containerd-2.4.2") if one.event == "StartContainer"]
    pod = ParseDict(dict(told.pod), api.PodSandbox(), ignore_unknown_fields=True)
    container = ParseDict(dict(told.container or {}), api.Container(), ignore_unknown_fields=True)
    container.state = api.CONTAINER_RUNNING
    parts = []
    for first in range(0, CONTAINERS, PER_PART):
        part = api.SynchronizeRequest(more=first + PER_PART < CONTAINERS)
        for number in range(first, min(first + PER_PART, CONTAINERS)):
            pod.id = container.pod_sandbox_id = f"p{number}"
            container.id = f"c{number}"
            part.pods.append(pod)
            part.containers.append(container)
        parts.append(part.SerializeToString())
    return parts


def registered(node: Node) -> Daemon:
    """A daemon that waits for the Synchronize."""
    daemon = node.spawn()
    daemon.registration()
    daemon.configure(node.settings())
    return daemon


def cpu(daemon: Daemon) -> float:
    """Seconds of CPU that the server has used."""
    return int(Path(f"/proc/{daemon.server}/schedstat").read_text().split()[0]) / 1e9


def decoding(payloads: list[bytes]) -> float:
    started = time.process_time()
    for payload in payloads:
        api.SynchronizeRequest.FromString(payload)
    return time.process_time() - started


def answering(daemon: Daemon, payloads: list[bytes]) -> float:
    started = cpu(daemon)
    assert all(daemon.call("Synchronize", payload).code == Code.OK for payload in payloads)
    return cpu(daemon) - started


def test_5000_containers_take_little_time_and_no_memory(node: Node, payloads: list[bytes]) -> None:
    daemon = registered(node)
    before = daemon.resident()
    times = [answering(daemon, payloads) - decoding(payloads) for _ in range(3)]
    assert min(times) < OURS, times
    for _ in range(300):
        assert daemon.call("CreateContainer").code == Code.OK
    assert daemon.resident() < before + KEPT


def test_an_event_right_behind_the_answer_finds_its_container(node: Node, payloads: list[bytes]) -> None:
    node.plugin("a", node.record("a"))
    node.configure("a")
    daemon = registered(node)
    assert all(daemon.call("Synchronize", payload).code == Code.OK for payload in payloads)
    last = f"c{CONTAINERS - 1}"
    assert daemon.call("StopContainer", stop(last)).code == Code.OK
    assert node.runs("a") == [("delete", last)]
