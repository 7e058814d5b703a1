"""The init container that switches NRI on in the node's runtime."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.rig.sockets import bind

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "deploy/image/switch-nri-on"
DUMPS = ROOT / "tests/check/configurations"
"""What `containerd config default` and `crio config` print."""
PLUGIN = "io.containerd.nri.v1.nri"
OFF = f"""\
version = 2
[plugins."{PLUGIN}"]
  disable = true
  socket_path = "/var/run/nri/nri.sock"
[debug]
  level = "info"
"""
INDENTED = f"""\
[plugins]
  [plugins."{PLUGIN}"]
    socket_path = "/run/nri.sock"
    disable = true
  [plugins."io.containerd.other.v1.other"]
    disable = true
"""


class Node:
    """The files of a node, and a chroot that writes down what it is asked to run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.config = root / "etc/containerd/config.toml"
        chroot = root / "bin/chroot"
        chroot.parent.mkdir()
        chroot.write_text(f'#!/bin/sh\necho $SYSTEMD_OFFLINE "$@" >> {root}/ran\n')
        chroot.chmod(0o755)

    def runs(self, socket: str) -> None:
        (self.root / socket).parent.mkdir(parents=True)
        (self.root / socket).touch()

    def configure(self, text: str) -> None:
        self.config.parent.mkdir(parents=True, exist_ok=True)
        self.config.write_text(text)

    def switch(self) -> tuple[int, str]:
        """Runs the script; returns its exit code and what it says."""
        line: list[str | Path] = [sys.executable, SCRIPT, self.root, self.root / "nri.sock", "auto"]
        environment = {"PATH": f"{self.root}/bin:{os.defpath}"}
        done = subprocess.run(line, capture_output=True, text=True, env=environment, check=False)
        return done.returncode, done.stdout + done.stderr

    @property
    def restarted(self) -> str:
        ran = self.root / "ran"
        return ran.read_text() if ran.exists() else ""


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


TEXTS = {
    "off": OFF,
    "no key": OFF.replace("  disable = true\n", ""),
    "other quotes": OFF.replace('"', "'"),
    "indented": "version = 2\n" + INDENTED,
    "no table": "version = 2\n",
    "no file": None,
    "1.7.35": (DUMPS / "containerd-1.7.35.toml").read_text(),
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_nri_is_switched_on_in_containerd_which_restarts(node: Node, text: str | None) -> None:
    node.runs("run/containerd/containerd.sock")
    if text is not None:
        node.configure(text)
    assert node.switch()[0] == 0
    before, after = tomllib.loads(text or "version = 2"), tomllib.loads(node.config.read_text())
    before.setdefault("plugins", {}).setdefault(PLUGIN, {})["disable"] = False
    assert after == before
    assert node.restarted == f"0 {node.root} systemctl restart containerd\n"


def test_cri_o_gets_a_drop_in(node: Node) -> None:
    node.runs("run/crio/crio.sock")
    assert node.switch()[0] == 0
    drop_in = node.root / "etc/crio/crio.conf.d/99-nri.conf"
    assert tomllib.loads(drop_in.read_text()) == {"crio": {"nri": {"enable_nri": True}}}
    assert node.restarted == f"0 {node.root} systemctl restart crio\n"


def test_where_nri_is_served_nothing_is_done_and_a_socket_that_was_left_is_not_served(node: Node) -> None:
    node.runs("run/containerd/containerd.sock")
    with socket.socket(socket.AF_UNIX) as served:
        bind(served, node.root / "nri.sock")
        served.listen()
        assert node.switch() == (0, "NRI is on\n")
    assert not (node.root / "etc").exists()
    assert node.restarted == ""
    assert node.switch()[0] == 0  # the runtime was killed
    assert node.restarted


def test_what_says_that_nri_is_on_or_cannot_be_patched_stays_as_it_is(node: Node) -> None:
    node.runs("run/containerd/containerd.sock")
    on = OFF.replace("true", "false")
    node.configure(on)
    assert node.switch() == (0, "NRI is on in /etc/containerd/config.toml\n")
    assert node.config.read_text() == on
    for text in (
        "[plugins.cri]\n",
        "version = [\n",
        f"version = 3\ndisabled_plugins = ['{PLUGIN}']\n",
        OFF.replace("disable = true", "disable = false\n  disable_connections = true"),
        f"version = 3\n[plugins]\n  '{PLUGIN}'.disable = true\n",
    ):
        node.configure(text)
        code, said = node.switch()
        assert (code, node.config.read_text()) == (1, text)
        assert said.startswith("containerd: ")
    assert node.restarted == ""
