"""Programs that stand by for a running daemon: when they are there, when they are gone, and how events go with them."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from nri.wire import Code
from tests.rig.processes import gone
from tests.rig.waiting import limit

from ..rig.daemon import COMMAND, Daemon
from ..rig.machine import Machine, start
from ..rig.programs import Fifo

STANDBY = {"standby": 1}
NOTING = """cd '{0}'
IFS= read -r line
[ "$line" ] || {{ echo $$ >>empty; exit 1; }}
echo $$ >>pids
printf '%s\\n' "$line" >>good.requests
echo '{{}}'
"""
StandingBy = Callable[..., list[int]]


def plugin(node: Machine, name: str, script: str) -> Path:
    return node.plugin(name, f"echo >'{node.path}/started'; {script}")


@pytest.fixture(autouse=True)
def standing_by(node: Machine) -> Iterator[StandingBy]:
    """Waits until a daemon has so many children; returns them. Plugins say when they have started.

    `good` notes its pid with its request, and an empty stdin.
    """
    started = Fifo(node.path / "started")
    plugin(node, "good", NOTING.format(node.path))
    node.configure("good")

    def wait(daemon: Daemon, number: int = 1) -> list[int]:
        with limit(lambda: f"{number} processes never stood by, but {daemon.children()}"):
            while len(found := daemon.children()) != number or "Z" in found.values():
                if "Z" in found.values():
                    assert daemon.call("Nothing").code == Code.UNIMPLEMENTED  # a turn of the loop, which reaps
                else:
                    until_one_starts_or_ends(found)
            return sorted(found)

    def until_one_starts_or_ends(pids: Iterable[int]) -> None:
        with ExitStack() as stack:
            waits = [started.fd]
            for pid in pids:
                with suppress(ProcessLookupError):
                    waits.append(os.pidfd_open(pid))
                    stack.callback(os.close, waits[-1])
            if started.fd in select.select(waits, [], [])[0]:
                started.get()

    yield wait
    started.close()


def noted(node: Machine, name: str) -> list[int]:
    """The processes of the plugin that have got a request (`pids`), or an empty stdin (`empty`)."""
    path = node.path / name
    return [int(pid) for pid in path.read_text().split()] if path.exists() else []


def test_each_plugin_has_its_own_number_and_none_once_it_is_removed(node: Machine, standing_by: StandingBy) -> None:
    plugin(node, "other", node.record("other"))
    node.configure("good", "other", "absent")
    daemon = node.launch({"standby": 3, "plugins": {"other": {"standby": 1}, "absent": {"standby": 1}}})
    before = standing_by(daemon, 4)
    daemon.logged("registered with")
    assert not [line for line in daemon.log if "absent: " in line]
    node.configure("other")
    daemon.serves(start("c1"))
    gone(*before)
    standing_by(daemon)
    assert noted(node, "empty") == []


def test_only_the_adapter_that_has_served_the_last_event_has_any(node: Machine, standing_by: StandingBy) -> None:
    node.shared_state = "state"
    first = node.launch(STANDBY)
    standing_by(first)
    second = node.launch(STANDBY)
    assert second.children() == {}
    second.serves(start("c1"))
    standing_by(second)
    first.serves(start("c1"))  # it sees that the other one has served
    standing_by(first, 0)
    second.kill()
    first.serves(start("c2"))
    standing_by(first)


def test_sighup_replaces_them_and_the_end_kills_them(node: Machine, standing_by: StandingBy) -> None:
    daemon = node.spawn([COMMAND, "-config", node.file(STANDBY)]).handshake()
    (before,) = standing_by(daemon)
    os.kill(daemon.server, signal.SIGHUP)
    gone(before)
    left = standing_by(daemon)
    daemon.end()
    gone(*left)
    assert noted(node, "empty") == []
