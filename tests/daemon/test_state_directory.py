"""A state directory that is removed, or cannot be written, while adapters use it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from pathlib import Path

import pytest

from v010_adapter.monitoring.status import ask

from ..rig.daemon import Daemon, spawn
from ..rig.machine import SOON, Machine, patched, start, stop
from ..rig.mounts import OWN_MOUNTS, require_mounts
from ..rig.sockets import listening
from ..rig.waiting import until


@pytest.fixture(autouse=True)
def shared(node: Machine) -> None:
    node.configure("good")
    node.shared_state = "state"


def test_a_record_that_cannot_be_written_is_a_fault_until_it_can_be(node: Machine) -> None:
    state = node.path / "state"
    daemon = node.launch(patch=SOON)
    daemon.logged("registered with")
    [own] = state.glob("test.*")
    (own / "+pod-1+c1").mkdir()
    daemon.serves(start("c1"))
    [told] = ask(str(state))
    assert (told["faults"], told["configuration_errors"]) == ([told["state_fault"]], 0)
    assert told["state_fault"].startswith(f"{own}/+pod-1+c1: Is a directory: what is owed is forgotten")
    (own / "+pod-1+c1").rmdir()
    daemon.logged("the records have all that is owed again")
    [told] = ask(str(state))
    assert (told["faults"], told["state_fault"]) == ([], "")
    assert (own / "+pod-1+c1").read_bytes().count(b'"at"') == 1


def test_an_adapter_whose_records_cannot_be_written_ends_when_the_one_beside_it_can_read_them(node: Machine) -> None:
    first = node.launch(patch=f"{SOON}; daemon.GRACE = 0.01")
    second = node.launch(patch=SOON)
    second.logged("registered with")
    [own] = (node.path / "state").glob("test.*")
    (own / "+pod-1+c1").mkdir()
    for daemon in (first, second):
        daemon.serves(start("c1"))
    first.signal(signal.SIGTERM)
    first.logged("this process stays until the other adapters can read its records")
    second.serves(start("c2"), stop("c2"))  # meanwhile the first looks again
    (own / "+pod-1+c1").rmdir()
    assert first.ended() == 0
    assert len([line for line in first.log if "this process stays" in line]) == 1
    assert "still busy" not in first.log[-1]
    second.serves(stop("c1"))
    assert {("create", "c1"), ("delete", "c1")} < {*node.runs()}


def test_no_adapter_joins_beside_one_whose_records_cannot_be_written(node: Machine, listener: socket.socket) -> None:
    first = node.launch(patch=SOON)
    first.logged("registered with")
    [own] = (node.path / "state").glob("test.*")
    (own / "+pod-1+c1").mkdir()
    first.serves(start("c1"))
    second = node.external(fresh=True)
    second.logged(f"{own}: an adapter cannot write its records there: another adapter serves, and this one waits")
    until(lambda: sorted(one["unfit"] for one in ask(f"{node.path}/state")) == [False, True], "status does not tell")
    (own / "+pod-1+c1").rmdir()
    second.accept(listener).handshake()
    first.kill()
    second.serves(stop("c1"))
    assert node.runs() == [("create", "c1"), ("delete", "c1")]


# ---- a mount of itself, as in a container


MOUNTED = (*OWN_MOUNTS, "sh", "-ec", 'mount --bind "$0" "$1"; shift; exec "$@"')


@pytest.fixture
def mount(node: Machine) -> tuple[Path, Path]:
    """The state directory on the host, and where adapters have it mounted, each in a mount namespace of its own."""
    host, inside = node.path / "host", node.path / "inside"
    for path in (host, inside):
        path.mkdir()
    require_mounts()
    return host, inside


def contained(node: Machine, mount: tuple[Path, Path], name: str) -> Daemon:
    """An adapter that has the state directory as a mount, and has joined a runtime."""
    host, inside = mount
    host.mkdir(exist_ok=True)
    socket_ = node.path / f"{name}.sock"
    words: list[str | Path] = [*MOUNTED, host, inside, *patched(SOON), "-config", node.file(), "-socket", socket_]
    with listening(socket_) as listener:
        environ = {"PATH": os.defpath, "RUNTIME_DIRECTORY": str(inside)}
        return node.keep(spawn(words, environ, {}, fresh=True)).accept(listener).handshake()


def test_an_adapter_whose_mounted_directory_was_removed_ends_and_the_next_one_mounts_the_new_directory(
    node: Machine, mount: tuple[Path, Path]
) -> None:
    host, _ = mount
    first = contained(node, mount, "first")
    first.serves(start("c1"))
    shutil.rmtree(host)
    first.logged("the state directory was removed under its mount: this process ends, and its successor mounts it")
    assert first.ended() == 1
    assert not host.exists(), "nothing is made again at the path of the host"
    second, third = contained(node, mount, "second"), contained(node, mount, "third")
    for event in (start("c2"), stop("c2")):
        second.serves(event)
        third.serves(event)
    assert node.runs() == [("create", "c1"), ("create", "c2"), ("delete", "c2")], "the two share the new directory"
