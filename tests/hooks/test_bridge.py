"""The hooks of this node: from a request of the runtime to the hooks in its answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri import api
from nri.runtimes import Runtime
from v010_adapter.events.hooks import HookBridge
from v010_adapter.hooks.match import NamedHook, adjustment
from v010_adapter.hooks.model import STAGES, Hook, When
from v010_adapter.host import paths
from v010_adapter.programs.runner import Runner
from v010_adapter.settings import HooksSettings

from .hookdirs import Watching, text

POD = api.PodSandbox(namespace="default", name="web")
BIND = api.Mount(destination="/data", source="/srv", type="bind")


@pytest.mark.parametrize("other", ['{"always": true}', '{"commands": ["x"]}'])
def test_a_container_gets_the_hooks_that_match_and_the_log_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, other: str
) -> None:
    """Mounts are looked at if any hook asks for them."""
    monkeypatch.setattr(paths, "TIMESTAMP_STEP", -(1 << 62))  # files that were just written need no second look
    (tmp_path / "a.json").write_bytes(text(1, when=other))
    (tmp_path / "b.json").write_bytes(text(2, when='{"hasBindMounts": true}'))
    loop = Watching()
    hooks = HookBridge(loop, HooksSettings(directories=(str(tmp_path),)), Runner(loop))
    hooks.start(Runtime(nri=(0, 12, 5)))
    loop.until_in_force(hooks)
    [watched] = loop.watched
    hooks.start(Runtime(nri=(0, 8, 0)))  # at the next Synchronize
    loop.turn()
    assert loop.watched == [watched]
    caplog.set_level("INFO")
    caplog.clear()
    of_a = ["1"] if "always" in other else []
    for mounts, versions in (([BIND], [*of_a, "2"]), ([], of_a)):
        response = api.CreateContainerResponse()
        container = api.Container(id="c", name="nginx", mounts=mounts)
        assert hooks.update(2.0) is None
        hooks.inject(api.CreateContainerRequest(pod=POD, container=container), response, 2.0)
        assert [hook.args[1] for hook in response.adjust.hooks.create_runtime] == versions
    loop.turn()
    told = ["a.json, b.json", "a.json"] if of_a else ["b.json"]
    assert caplog.messages == [f"hooks for container default/web/nginx (c): {files}" for files in told]
    assert hooks.containers == {f"{tmp_path}/a.json": 2 * len(of_a), f"{tmp_path}/b.json": 1}


def test_precreate_hooks_stand_by_and_others_do_not(tmp_path: Path) -> None:
    for name, stage in (("a", "prestart"), ("b", "precreate"), ("c", "precreate")):
        (tmp_path / f"{name}.json").write_bytes(text(name).replace(b"prestart", stage.encode()))
    for standby in (0, 2):
        loop = Watching()
        hooks = HookBridge(
            loop, HooksSettings(directories=(str(tmp_path),), precreate=True, standby=standby), Runner(loop)
        )
        hooks.start(Runtime(nri=(0, 12, 5)))
        loop.until_in_force(hooks)
        found = [(program.argv[1], count) for program, count in hooks.standby_programs()]
        assert found == [("b", 2), ("c", 2)] * (standby > 0)


# ---- what hooks become in NRI's terms


def named(path: str, *stages: str, timeout: int | None = None) -> NamedHook:
    return NamedHook(f"{path}.json", "", Hook(path, (path, "-x"), ("A=b",), timeout, When(), stages))


def injected(*hooks: NamedHook) -> dict[str, list[str]]:
    """Paths by NRI's field names."""
    message = adjustment(hooks)
    fields = message.hooks.ListFields() if message is not None else []
    return {field.name: [hook.path for hook in hooks] for field, hooks in fields}


FIELDS = ("create_runtime", "create_runtime", "create_container", "start_container", "poststart", "poststop")


def test_hooks_are_injected_with_all_they_have_by_their_stages_and_in_their_order() -> None:
    for timeout in (None, 1, 10**9):
        hook = api.Hook(path="a", args=["a", "-x"], env=["A=b"])
        if timeout is not None:
            hook.timeout.value = timeout
        expected = api.ContainerAdjustment(hooks=api.Hooks(poststop=[hook]))
        assert adjustment([named("a", "poststop", timeout=timeout)]) == expected
    for stage, field in zip(STAGES, FIELDS, strict=True):
        assert injected(named("a", stage)) == {field: ["a"]}
    several = [named("b", "poststop", "poststart"), named("a", "prestart", "createRuntime"), named("c", "poststop")]
    in_twice = {"create_runtime": ["a", "a"]}  # as upstream does
    assert injected(*several) == {"poststop": ["b", "c"], "poststart": ["b"], **in_twice}
    assert injected(named("a", "precreate", "poststop")) == {"poststop": ["a"]}
    # What no runtime would run is no adjustment.
    assert [adjustment(hooks) for hooks in ([], [named("a")], [named("a", "precreate")])] == [None] * 3
