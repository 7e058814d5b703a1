"""The adapter in a container: programs of the node run among the node's files, the adapter keeps its own."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from .harness import Node, start, stop

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="entering a mount namespace needs root")


def test_a_plugin_of_the_node_runs_among_the_nodes_files(node: Node, listener: socket.socket) -> None:
    """The node has a plugin and its interpreter, the adapter's container neither.

    Each of the two needs modules and a conf.json, which the adapter finds where it is itself.
    """
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
        try:
            assert process.stdout.readline() == b"ready\n"
            (node.bin / "of-the-node").unlink()
            node.configure("of-the-node")
            config = node.file(mountNamespace=f"/proc/{process.pid}/ns/mnt")
            daemon = node.external("-config", config, listener=listener).handshake()
            daemon.serves(start("c1"), stop("c1"))
        finally:
            process.kill()
    assert node.runs("of-the-node") == [("create", "c1"), ("delete", "c1")], daemon.log
    assert Path(f"/proc/{daemon.pid}/ns/mnt").readlink() == Path("/proc/self/ns/mnt").readlink()


def test_a_namespace_that_cannot_be_used_ends_the_adapter_with_its_name(node: Node) -> None:
    daemon = node.external("-config", node.file(mountNamespace=f"{node.path}/absent"))
    assert daemon.ended() == 2
    assert daemon.log == [f"v010-adapter: mountNamespace: {node.path}/absent: No such file or directory"]
