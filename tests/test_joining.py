"""What an adapter makes of its runtime's Configure, when it begins to serve, and what it says of late answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nri import Context, api
from nri.events import mask
from v010_adapter.daemon.adapter import Adapter
from v010_adapter.monitoring import logs
from v010_adapter.settings import parse

from .rig.loop import SteppedLoop
from .rig.serving import Link, kill

FAILS = "runtime: {failRequest: true}"
OLD = "runtime.failRequest has no effect: the NRI of containerd 2.4.2 is older than 0.12.4"
NO_ENDS = "Docker tells of the creation of containers only: legacy plugins run at CreateContainer or not at all"
NO_HOOKS = "hooks are off: Docker refuses containers with injected hooks (hooks.enabled)"
CRIO_OFF = "hooks are off: CRI-O injects those of its own hooks_dir (hooks.enabled)"


def adapter_with(text: str, loop: SteppedLoop, file: str = "") -> Adapter:
    return Adapter(loop, parse(text, "here")[0]._replace(file=file), [], "name", Link())


def configure(adapter: Adapter, loop: SteppedLoop, **runtime: Any) -> int:
    """Returns the events that it asks for."""
    request = api.ConfigureRequest(**runtime)
    return adapter.configure(request, Context("Configure", 2, loop.time, loop.time())).events


@pytest.mark.parametrize(
    ("name", "nri", "text", "notes", "logged", "has_hooks"),
    [
        ("containerd", "v0.12.3", FAILS, [OLD], [OLD], True),
        ("containerd", "v0.12.3", "", [], [], True),
        ("containerd", "v0.12.4", FAILS, [], [], True),
        ("", "v0.12.3", FAILS, [], [], True),
        ("docker", "v0.12.5", FAILS, [], [NO_ENDS, NO_HOOKS], False),
        ("docker", "v0.12.5", "hooks: {enabled: false}", [], [NO_ENDS], False),
        ("docker", "v0.12.5", "hooks: {enabled: true}", [], [NO_ENDS], True),
        ("cri-o", "v0.12.5", "hooks: {enabled: auto}", [], [CRIO_OFF], False),
        ("cri-o", "v0.12.5", "hooks: {enabled: true}", [], [], True),
        ("cri-o", "v0.12.5", "hooks: {enabled: false}", [], [], False),  # whoever has switched them off knows why
    ],
)
def test_what_has_no_effect_with_a_runtime_is_told_and_creations_are_asked_for_where_hooks_are_ours_to_inject(
    loop: SteppedLoop,
    caplog: pytest.LogCaptureFixture,
    name: str,
    nri: str,
    text: str,
    notes: object,
    logged: object,
    has_hooks: bool,
) -> None:
    caplog.set_level("INFO")
    adapter = adapter_with(text, loop)
    asked = configure(adapter, loop, runtime_name=name, runtime_version="2.4.2", NRI_version=nri)
    assert (adapter.describe()["notes"], caplog.messages) == (notes, logged)
    assert bool(asked & mask(["CreateContainer"])) is has_hooks


def test_a_file_in_whose_place_the_runtime_has_sent_a_text_needs_no_restart(
    loop: SteppedLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels: list[str] = []
    monkeypatch.setattr(logs, "setup", lambda own: levels.append(own.level))
    file = tmp_path / "adapter.yaml"
    adapter = adapter_with("", loop, file=str(file))
    assert adapter.describe()["notes"] == []
    file.touch()
    assert [note.partition(":")[0] for note in adapter.describe()["notes"]] == ["restart needed"]
    configure(adapter, loop, config="log: {level: debug}\nnone: 1")
    described = adapter.describe()
    assert (described["notes"], len(described["faults"]), levels) == ([], 1, ["debug"])


@pytest.mark.parametrize("meanwhile", ["nothing", "an event", "a loss"])
def test_it_begins_in_the_next_turn_of_the_loop_or_at_an_event_that_comes_before_unless_the_runtime_goes(
    loop: SteppedLoop, tmp_path: Path, caplog: pytest.LogCaptureFixture, meanwhile: str
) -> None:
    caplog.set_level("INFO")
    earlier_boot = tmp_path / "state" / "containerd.earlier"
    earlier_boot.mkdir(parents=True)
    text = f"{{state: {{directory: {tmp_path}/state}}, hooks: {{enabled: false}}}}"
    adapter = adapter_with(text, loop)
    configure(adapter, loop, runtime_name="containerd", runtime_version="2.4.2")
    adapter.synchronize(api.SynchronizeRequest(), Context("Synchronize", 2, loop.time, loop.time()))
    begun = "registered with containerd 2.4.2: 0 pods, 0 containers"
    assert begun not in caplog.messages
    if meanwhile == "a loss":
        adapter.on_runtime_gone()
    elif meanwhile == "an event":
        stop = api.StopPodSandboxRequest(pod=api.PodSandbox(id="p"))
        adapter.stop_pod_sandbox(stop, Context("StopPodSandbox", 2, loop.time, loop.time()))
        assert begun in caplog.messages
    loop.settle()
    assert caplog.messages.count(begun) == (meanwhile != "a loss") == (not earlier_boot.exists())
    assert adapter._turns is not None
    kill(adapter._turns)


def test_its_reserve_depends_on_whether_the_runtime_keeps_late_plugins(
    loop: SteppedLoop,
) -> None:
    for nri, text, seconds in (
        *(("v0.12.4", "", 0.1), ("v0.12.5", "", 0.1), ("v0.12.3", "", 0.25), ("", "", 0.25)),
        *(("v0.12.3", "runtime: {reserve: 0}", 0), ("v0.12.5", "runtime: {reserve: 1.5}", 1.5)),
        ("v0.12.5", "runtime: {reserve: auto}", 0.1),
    ):
        adapter = adapter_with(text, loop)
        configure(adapter, loop, NRI_version=nri)
        assert adapter.reserve == seconds, (nri, text)


@pytest.mark.parametrize(("now", "lines"), [(1001.9, 0), (1002.1, 1)])
def test_an_answer_behind_the_deadline_is_logged(
    loop: SteppedLoop, now: float, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    adapter = adapter_with("", loop)
    loop.now = now
    adapter.answered(Context("StartContainer", 2, loop.time, 1000))
    text = "StartContainer was answered after its deadline: the runtime may drop the adapter"
    assert caplog.messages == [text] * lines
    told = adapter.describe()["events"]["StartContainer"]
    assert (told["late"], told["times"]["seconds"]) == (lines, pytest.approx(now - 1000))
