"""What an adapter makes of its runtime's Configure, and when it begins to serve after Synchronize."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri import Context, api
from v010_adapter.daemon.adapter import Adapter
from v010_adapter.monitoring import logs
from v010_adapter.settings import parse

from .rig.loop import SteppedLoop
from .rig.serving import Link, kill

FAILS = "runtime: {failRequest: true}"
OLD = "runtime.failRequest has no effect: the NRI of containerd 2.4.2 is older than 0.12.4"
NO_ENDS = "Docker tells of the creation of containers only: legacy plugins run at CreateContainer or not at all"
NO_HOOKS = "hooks are off: Docker refuses containers with injected hooks (hooks.enabled)"


@pytest.mark.parametrize(
    ("name", "nri", "text", "notes", "logged"),
    [
        ("containerd", "v0.12.3", FAILS, [OLD], [OLD]),
        ("containerd", "v0.12.3", "", [], []),
        ("containerd", "v0.12.4", FAILS, [], []),
        ("", "v0.12.3", FAILS, [], []),
        ("docker", "v0.12.5", FAILS, [], [NO_ENDS, NO_HOOKS]),
        ("docker", "v0.12.5", "hooks: {enabled: false}", [], [NO_ENDS]),
    ],
)
def test_what_has_no_effect_with_a_runtime_is_told(
    loop: SteppedLoop, caplog: pytest.LogCaptureFixture, name: str, nri: str, text: str, notes: object, logged: object
) -> None:
    caplog.set_level("INFO")
    adapter = Adapter(loop, parse(text, "here")[0], [], "name", Link())
    request = api.ConfigureRequest(runtime_name=name, runtime_version="2.4.2", NRI_version=nri)
    adapter.configure(request, Context("Configure", 2, loop.time, loop.time()))
    assert (adapter.describe()["notes"], caplog.messages) == (notes, logged)


def test_a_file_in_whose_place_the_runtime_has_sent_a_text_needs_no_restart(
    loop: SteppedLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels: list[str] = []
    monkeypatch.setattr(logs, "setup", lambda own: levels.append(own.level))
    file = tmp_path / "adapter.yaml"
    adapter = Adapter(loop, parse("", "here")[0]._replace(file=str(file)), [], "name", Link())
    assert adapter.describe()["notes"] == []
    file.touch()
    assert [note.partition(":")[0] for note in adapter.describe()["notes"]] == ["restart needed"]
    request = api.ConfigureRequest(config="log: {level: debug}\nnone: 1")
    adapter.configure(request, Context("Configure", 2, loop.time, loop.time()))
    described = adapter.describe()
    assert (described["notes"], len(described["faults"]), levels) == ([], 1, ["debug"])


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
