"""The init container that switches NRI on in the node's runtime."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "deploy/image/switch-nri-on"
PLUGIN = "io.containerd.nri.v1.nri"
OFF = f"""\
version = 2
[plugins."{PLUGIN}"]
  disable = true
  socket_path = "/var/run/nri/nri.sock"
[debug]
  level = "info"
"""


class Node:
    """The files of a node, and a chroot that writes down what it is asked to run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        chroot = root / "bin/chroot"
        chroot.parent.mkdir()
        chroot.write_text(f'#!/bin/sh\necho "$@" >> {root}/ran\n')
        chroot.chmod(0o755)

    def runs(self, socket: str) -> None:
        (self.root / socket).parent.mkdir(parents=True)
        (self.root / socket).touch()

    def switch(self) -> tuple[int, str]:
        """Runs the script; returns its exit code and what it says."""
        line: list[str | Path] = [sys.executable, SCRIPT, self.root, self.root / "nri.sock"]
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


@pytest.mark.parametrize(
    "text",
    [OFF, OFF.replace("  disable = true\n", ""), OFF.replace('"', "'"), "version = 3\n", None],
    ids=["off", "no key", "other quotes", "no table", "no file"],
)
def test_nri_is_switched_on_in_containerd_which_restarts(node: Node, text: str | None) -> None:
    node.runs("run/containerd/containerd.sock")
    config = node.root / "etc/containerd/config.toml"
    if text is not None:
        config.parent.mkdir(parents=True)
        config.write_text(text)
    assert node.switch()[0] == 0
    before, after = tomllib.loads(text or "version = 2"), tomllib.loads(config.read_text())
    before.setdefault("plugins", {}).setdefault(PLUGIN, {})["disable"] = False
    assert after == before
    assert node.restarted == f"{node.root} systemctl restart containerd\n"


def test_cri_o_gets_a_drop_in(node: Node) -> None:
    node.runs("run/crio/crio.sock")
    assert node.switch()[0] == 0
    drop_in = node.root / "etc/crio/crio.conf.d/10-nri.conf"
    assert tomllib.loads(drop_in.read_text()) == {"crio": {"nri": {"enable_nri": True}}}
    assert node.restarted == f"{node.root} systemctl restart crio\n"


def test_where_nri_is_on_nothing_is_done(node: Node) -> None:
    node.runs("run/containerd/containerd.sock")
    (node.root / "nri.sock").touch()
    assert node.switch() == (0, "NRI is on\n")
    assert not (node.root / "etc").exists()
    assert node.restarted == ""


def test_what_says_that_nri_is_on_stays_as_it_is(node: Node) -> None:
    node.runs("run/containerd/containerd.sock")
    config = node.root / "etc/containerd/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(OFF.replace("true", "false"))
    assert node.switch() == (0, f"NRI is on in {config}\n")
    assert config.read_text() == OFF.replace("true", "false")
    assert node.restarted == ""


def test_a_configuration_that_cannot_be_patched_stays_as_it_was(node: Node) -> None:
    node.runs("run/containerd/containerd.sock")
    config = node.root / "etc/containerd/config.toml"
    config.parent.mkdir(parents=True)
    for text in ("[plugins.cri]\n", "version = [\n"):
        config.write_text(text)
        code, said = node.switch()
        assert (code, config.read_text()) == (1, text)
        assert said.startswith("containerd: ")
    assert node.restarted == ""
