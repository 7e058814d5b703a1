"""Fixtures of the running command: a node to start it on, and what its `status` says."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from v010_adapter.cli import command_line as cli
from v010_adapter.monitoring import status

from ..rig.machine import Machine
from ..rig.sockets import listening
from ..rig.waiting import LIMIT


class Asked(NamedTuple):
    code: int
    stdout: str
    stderr: str

    @property
    def adapter(self) -> dict[str, Any]:
        """What the one adapter tells, as JSON."""
        [found] = json.loads(self.stdout)["adapters"]
        return dict(found)


Ask = Callable[..., Asked]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Machine]:
    """A node without a daemon. Whatever a test does to those it starts, none may end up in a traceback."""
    made = Machine(tmp_path)
    try:
        yield made
    finally:
        made.close()
    for daemon in made.daemons:
        log = "\n".join(daemon.log)
        assert "Traceback" not in log, log


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    """The NRI socket of the runtime that this process plays."""
    with listening(tmp_path / "nri.sock") as made:
        yield made


@pytest.fixture
def asked(node: Machine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    monkeypatch.setattr(status, "ANSWER_TIMEOUT", LIMIT)
    (node.path / "none.yaml").write_text("")
    places = ["-directory", str(node.path / "state"), "-config", str(node.path / "none.yaml")]
    node.shared_state = "state"

    def ask(*options: str) -> Asked:
        capsys.readouterr()
        return Asked(cli.main(["status", *places, *options]), *capsys.readouterr())

    return ask
