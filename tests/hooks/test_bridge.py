"""The hooks of this node: from a request of the runtime to the hooks in its answer, and what hooks are there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from adapter.hooks.bridge import HookBridge
from adapter.hooks.inject import adjustment
from adapter.hooks.match import NamedHook
from adapter.hooks.model import STAGES, Hook, When
from adapter.host import paths
from adapter.nri import api
from adapter.nri.runtimes import Runtime
from adapter.settings import HooksSettings

from .hookdirs import Watching, text


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes files that were just written for such that need no second look."""
    monkeypatch.setattr(paths, "TIMESTAMP_STEP", -(1 << 62))


def bridge(loop: Watching, place: Path) -> HookBridge:
    """A bridge that has read its files."""
    hooks = HookBridge(loop, HooksSettings(directories=(str(place),)))
    hooks.start(Runtime(nri=(0, 12, 5)))
    while not hooks.containers:
        loop.turn()
    return hooks


Creating = tuple[api.CreateContainerRequest, api.CreateContainerResponse, float]


def creation(mounts: Sequence[api.Mount] = ()) -> Creating:
    pod = api.PodSandbox(namespace="default", name="web")
    request = api.CreateContainerRequest(pod=pod, container=api.Container(id="c", name="nginx", mounts=mounts))
    return request, api.CreateContainerResponse(), 2.0


@pytest.mark.parametrize("other", ['{"always": true}', '{"commands": ["x"]}'])
def test_mounts_are_looked_at_if_any_hook_asks_for_them(tmp_path: Path, other: str) -> None:
    (tmp_path / "a.json").write_bytes(text(when=other))
    (tmp_path / "b.json").write_bytes(text(when='{"hasBindMounts": true}'))
    hooks = bridge(Watching(), tmp_path)
    mounted, bare = creation(mounts=[api.Mount(destination="/data", source="/srv", type="bind")]), creation()
    for one in (mounted, bare):
        hooks.inject(*one)
    injected = [[hook.args[1] for hook in response.adjust.hooks.create_runtime] for _, response, _ in (mounted, bare)]
    assert injected == ([["1", "1"], ["1"]] if "always" in other else [["1"], []])


def test_the_log_names_the_container_that_gets_hooks_and_they_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.json").write_bytes(text())
    loop = Watching()
    hooks = bridge(loop, tmp_path)
    caplog.set_level("INFO")
    for _ in range(2):
        hooks.inject(*creation())
    loop.turn()
    assert caplog.messages == ["hooks for container default/web/nginx (c): a.json"] * 2
    assert hooks.containers == {str(tmp_path / "a.json"): 2}


def test_each_synchronize_starts_the_bridge_but_the_files_are_watched_once(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(text())
    loop = Watching()
    hooks = bridge(loop, tmp_path)
    [watched] = loop.watched
    hooks.start(Runtime(nri=(0, 8, 0)))
    loop.turn()
    assert loop.watched == [watched]


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
