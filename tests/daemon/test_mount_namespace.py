"""The adapter in a container: programs of the node run among the node's files, the adapter keeps its own."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapter.wire import Code

from .harness import Daemon, Node, start, stop

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="entering a mount namespace needs root")


@pytest.fixture
def first_process(node: Node) -> Iterator[int]:
    """A process of the node, where there are a plugin and its interpreter; the adapter's container has neither."""
    node.plugin("of-the-node", node.record("of-the-node"), f"{node.bin}/interpreter")
    script = f"""
        cp {node.bin}/of-the-node {node.path}/kept
        mount -t tmpfs -o mode=755 tmpfs {node.bin}
        cp /bin/sh {node.bin}/interpreter
        mv {node.path}/kept {node.bin}/of-the-node
        echo ready
        exec sleep infinity"""
    line = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script]
    with subprocess.Popen(line, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        (node.bin / "of-the-node").unlink()
        yield process.pid
        process.kill()


def begin(node: Node, listener: socket.socket, namespace: str) -> Daemon:
    config = node.path / "adapter.yaml"
    config.write_text(node.settings(mountNamespace=namespace))
    return node.external("-config", config, "-socket", listener.getsockname(), listener=listener)


def test_a_plugin_of_the_node_runs_among_the_nodes_files(
    node: Node, listener: socket.socket, first_process: int
) -> None:
    """Each of the two needs modules and a conf.json, which the adapter finds where it is itself."""
    node.configure("of-the-node")
    daemon = begin(node, listener, f"/proc/{first_process}/ns/mnt").handshake()
    for method, request in (("StartContainer", start("c1")), ("StopContainer", stop("c1"))):
        assert daemon.call(method, request)[1:3] == (Code.OK, "")
    assert node.runs("of-the-node") == [("create", "c1"), ("delete", "c1")], daemon.log
    assert Path(f"/proc/{daemon.pid}/ns/mnt").readlink() == Path("/proc/self/ns/mnt").readlink()


def test_a_namespace_that_cannot_be_used_ends_the_adapter_with_its_name(node: Node) -> None:
    config = node.path / "adapter.yaml"
    config.write_text(node.settings(mountNamespace=f"{node.path}/absent"))
    daemon = node.external("-config", config, "-socket", node.path / "nri.sock")
    assert daemon.ended() == 2
    assert daemon.log == [f"v010-adapter: mountNamespace: {node.path}/absent: No such file or directory"]
