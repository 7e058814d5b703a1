"""What the Go runtime, in three versions, makes of plugins' adjustments and updates; and that it lives through them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ..processes import impatience
from .harness import Chain, GoRuntime, Host, golden
from .test_runtime import CONTAINER, NAME, POD, launched

UNSOLICITED = {"v0.8.0": False, "v0.10.0": False, "v0.12.0": False, "v0.12.5": True}
EVENTS = """  plugins:
    adjusting: {events: [CreateContainer]}
    asking: {events: [StartContainer]}
"""
STATE = {"make_pods": 1, "make_containers": 1}


@pytest.fixture(scope="module")
def shared(version: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    directory = tmp_path_factory.mktemp("host")
    chain = Chain(directory)
    with launched(chain, directory, version, EVENTS, STATE) as runtime:
        yield Host(runtime, chain)


def saying(**result: object) -> str:
    return f"cat <<'END'\n{json.dumps(result)}\nEND"


def test_many_concurrent_events_with_updates_deadlock_no_runtime(chain: Chain, tmp_path: Path, version: str) -> None:
    """With NRI up to 0.12.0 twenty concurrent events with unsolicited updates may be enough."""
    wish = {"updates": [{"id": "container0", "resources": {"cpu": {"shares": 512}}}]}
    chain.add("asking")
    (chain.bin / "asking").write_text(f"#!/bin/sed 1d\n{json.dumps(wish)}\n")  # the fastest without a compiler
    with launched(chain, tmp_path, version, EVENTS, STATE) as runtime:
        with impatience("the runtime is stuck", 120):
            reply = runtime.event("StartContainer", POD, CONTAINER, parallel=24, repeat=4)
            stopped = runtime.event("StopContainer", POD, {**CONTAINER, "id": "another"})
        assert (list(reply.errors), reply.names) == ([], [NAME])
        assert bool(runtime.play("updates").updates) == UNSOLICITED[version]
        assert bool(stopped.update) != UNSOLICITED[version]


def test_an_update_without_an_answer_that_carries_it_is_sent_by_itself(host: Host, version: str) -> None:
    """Or waits for the next that can; either way it arrives."""
    host.chain.add("asking", saying(updates=[{"id": "container0", "resources": {"cpu": {"cpus": "1"}}}]))
    host.runtime.event("StartContainer", POD, CONTAINER)
    carried = host.runtime.event("StopContainer", POD, {**CONTAINER, "id": "another"}).update
    alone = [update for updates in arrived(host.runtime, UNSOLICITED[version]) for update in updates]
    [update] = [*carried, *alone]
    assert update["container_id"] == "container0"
    assert update["linux"]["resources"]["cpu"]["cpus"] == "1"
    assert bool(alone) == UNSOLICITED[version]


def arrived(runtime: GoRuntime, awaited: bool) -> Sequence[Sequence[Mapping[str, Any]]]:
    """The unsolicited updates that have come; waits for the first if one must come."""
    with impatience("no update comes"):
        while True:
            updates = runtime.play("updates").updates
            if updates or not awaited:
                return updates


def test_every_recorded_creation_can_be_answered_with_its_own_spec(host: Host) -> None:
    """The whole spec of a request, unchanged, is no wish at all."""
    echo = """sed -n 's/.*"spec":\\(.*\\),"labels":.*,"event":.*/{"spec":\\1}/p' "$0.request" """
    host.chain.add("adjusting", f'tail -n 1 "${{0%/*}}/../adjusting.requests" >"$0.request"; {echo}')
    for recorded in golden():
        if recorded.event == "CreateContainer":
            reply = host.runtime.event("CreateContainer", recorded.pod, recorded.container)
            assert (recorded.source, reply.error) == (recorded.source, "")
            assert not list(leaves(reply.adjust))


def leaves(value: object) -> Iterator[object]:
    """What is in a message besides empty messages, of which the runtime sends some."""
    for inside in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from leaves(inside)
    if not isinstance(value, dict | list | None):
        yield value


def test_what_a_runtime_is_too_old_for_is_refused_by_name(host: Host, version: str) -> None:
    """It would drop it without a word."""
    host.chain.add("adjusting", saying(spec={"process": {"args": ["true"]}}))
    reply = host.runtime.event("CreateContainer", POD, CONTAINER)
    if version in ("v0.12.0", "v0.12.5"):
        assert (reply.error, (reply.adjust or {})["args"][-1]) == ("", "true")
    else:
        assert "process.args: needs NRI 0.10.0, the runtime has 0.8.0: older runtimes drop it" in reply.error
