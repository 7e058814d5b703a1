"""The node of the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapter.cli.check import configuration, nri, runtimes
from tests.check.node import REQUIRED, REQUIRED_OF_CRIO, Node


@pytest.fixture
def node(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Node:
    monkeypatch.setattr(configuration, "PLUGINS", str(tmp_path / "plugins"))
    monkeypatch.setattr(configuration, "DROP_INS", str(tmp_path / "conf.d"))
    monkeypatch.setattr(configuration, "UNIT", str(tmp_path / "unit"))
    monkeypatch.setattr("adapter.settings.DEFAULT_PATH", str(tmp_path / "default.yaml"))
    monkeypatch.setattr(runtimes, "SOCKETS", {name: str(tmp_path / name) for name in ("containerd", "CRI-O")})
    monkeypatch.setattr(runtimes, "DOCKER_SOCKET", str(tmp_path / "Docker"))
    monkeypatch.setattr(nri, "CONTAINERD", str(tmp_path / "config.toml"))
    monkeypatch.setattr(nri, "CRIO", str(tmp_path / "crio.conf"))
    monkeypatch.setattr(nri, "CRIO_DROP_INS", str(tmp_path / "crio.conf.d"))
    node = Node(tmp_path, capsys)
    node.write("config.toml", REQUIRED)
    node.write("crio.conf", REQUIRED_OF_CRIO)
    return node
