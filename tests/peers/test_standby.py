"""Legacy plugins that stand by, under the runtime's side of NRI: each create and delete runs once, in order."""

from __future__ import annotations

from pathlib import Path

import pytest

from .build import NEWEST
from .harness import COMMAND, LEGACY_EVENTS, PATIENT, Chain, GoRuntime, golden

PODS = 10
NAMES = ("one", "two", "three")
LIFE = [recorded for recorded in golden("containerd-2.4.2") if recorded.event in LEGACY_EVENTS]


@pytest.mark.parametrize("standby", [1, 2])
def test_each_plugin_gets_each_request_once_and_as_a_fresh_one_would(tmp_path: Path, standby: int) -> None:
    """One event comes right behind the other: some find a process, the others start one."""
    got = {}
    for number in (0, standby):
        directory = tmp_path / str(number)
        directory.mkdir()
        chain = Chain(directory)
        for name in NAMES:
            chain.add(name, f'[ -s "{directory}/{name}.requests" ] || exit 1; echo \'{{"plugin":"{name}"}}\'')
        with GoRuntime(directory, NEWEST) as runtime:
            runtime.open(COMMAND, f"{chain.settings}  standby: {number}\n", **PATIENT)
            runtime.play("state")
            assert runtime.play("start").error == ""
            for pod in range(PODS):
                for recorded in LIFE:
                    ids = {"id": f"c-{pod}", "pod_sandbox_id": f"p-{pod}"}
                    container = recorded.container and {**recorded.container, **ids}
                    reply = runtime.event(recorded.event, {**recorded.pod, "id": f"p-{pod}"}, container)
                    assert (reply.error, len(reply.plugins)) == ("", 1)
        got[number] = {name: [line for line in chain.requests(name) if line] for name in NAMES}
    assert got[standby] == got[0]
    assert [len(requests) for requests in got[0].values()] == [PODS * len(LIFE)] * len(NAMES)
