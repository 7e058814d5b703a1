"""When an adapter that a runtime has synchronized begins to serve."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri import Context, api
from v010_adapter.daemon.adapter import Adapter
from v010_adapter.settings import parse

from .rig.loop import SteppedLoop
from .rig.serving import Link, kill


@pytest.mark.parametrize("with_event", [False, True])
def test_it_begins_in_the_next_turn_of_the_loop_or_at_an_event_that_comes_before(
    loop: SteppedLoop, tmp_path: Path, caplog: pytest.LogCaptureFixture, *, with_event: bool
) -> None:
    caplog.set_level("INFO")
    text = f"{{state: {{directory: {tmp_path}/state}}, hooks: {{enabled: false}}}}"
    adapter = Adapter(loop, parse(text, "here")[0], [], "name", Link())
    context = Context("Synchronize", 2, loop.time, loop.time())
    adapter.configure(api.ConfigureRequest(runtime_name="containerd", runtime_version="2.4.2"), context)
    adapter.synchronize(api.SynchronizeRequest(), context)
    begun = "registered with containerd 2.4.2: 0 pods, 0 containers"
    assert begun not in caplog.messages
    if with_event:
        stop = api.StopPodSandboxRequest(pod=api.PodSandbox(id="p"))
        adapter.stop_pod_sandbox(stop, Context("StopPodSandbox", 2, loop.time, loop.time()))
        assert begun in caplog.messages
    loop.settle()
    assert caplog.messages.count(begun) == 1
    assert adapter._turns is not None
    kill(adapter._turns)
