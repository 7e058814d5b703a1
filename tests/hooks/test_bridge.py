"""The hooks of this node: from a request of the runtime to the hooks in its answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapter.creation import Creation
from adapter.hooks import match
from adapter.hooks.bridge import HookBridge
from adapter.hooks.facts import Facts
from adapter.hooks.match import Matcher
from adapter.loop import Loop
from adapter.nri import Context, api
from adapter.nri.runtimes import Runtime
from adapter.settings import HooksSettings
from tests.hooks.hookdirs import later, text


def bridge(loop: Loop, place: Path) -> HookBridge:
    """A bridge that has read its files."""
    hooks = HookBridge(loop, HooksSettings(directories=(str(place),)))
    hooks._directories._now = later
    hooks.start(Runtime(nri=(0, 12, 5)))
    while hooks._reader._steps is not None:
        turn(loop)
    return hooks


def turn(loop: Loop) -> None:
    """Lets the loop serve what is ready."""
    loop.call_soon(loop.stop)
    loop.run()


def injected(hooks: HookBridge, *mounts: api.Mount) -> int:
    """The number of hooks that a container with these mounts gets."""
    request = api.CreateContainerRequest(container=api.Container(id="c", mounts=mounts))
    creation = Creation(request, Context("CreateContainer", 2.0, lambda: 0.0, 0.0))
    assert hooks.inject(creation) is None
    return len(creation.response.adjust.hooks.create_runtime)


@pytest.mark.parametrize("others", ["always", "commands"])
def test_mounts_are_looked_at_if_any_hook_asks_for_them(tmp_path: Path, others: str) -> None:
    other = {"always": b'{"always": true}', "commands": b'{"commands": ["x"]}'}[others]
    (tmp_path / "a.json").write_bytes(text().replace(b'{"always": true}', other))
    (tmp_path / "b.json").write_bytes(text().replace(b'{"always": true}', b'{"hasBindMounts": true}'))
    hooks = bridge(Loop(), tmp_path)
    mount = api.Mount(destination="/data", source="/srv", type="bind")
    assert injected(hooks, mount) - injected(hooks) == 1


def test_the_log_names_the_container_that_gets_hooks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a.json").write_bytes(text())
    loop = Loop()
    hooks = bridge(loop, tmp_path)
    caplog.set_level("INFO")
    pod, container = api.PodSandbox(namespace="default", name="web"), api.Container(id="c", name="nginx")
    request = api.CreateContainerRequest(pod=pod, container=container)
    hooks.inject(Creation(request, Context("CreateContainer", 2.0, lambda: 0.0, 0.0)))
    turn(loop)
    assert caplog.messages == ["hooks for container default/web/nginx (c): a.json"]


def test_each_synchronize_starts_the_bridge_but_the_files_are_watched_once(tmp_path: Path) -> None:
    loop = Loop()
    hooks = bridge(loop, tmp_path)
    watched = dict(loop._watched)
    hooks.start(Runtime(nri=(0, 8, 0)))
    turn(loop)
    assert loop._watched == watched
    assert len(watched) == 1


def test_only_short_keys_are_remembered_and_not_too_many(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(match, "USUAL_KEYS", 3)
    hook = text().replace(b'{"always": true}', b'{"annotations": {"^a$": "^b$"}}')
    (tmp_path / "a.json").write_bytes(hook)
    matcher: Matcher = bridge(Loop(), tmp_path)._directories.matcher
    for number in range(10):
        notes = {f"{number}.{other}": "" for other in range(3)}
        assert not matcher.match(Facts({**notes, "x" * (match.USUAL_KEY + 1): ""}, None, False))
        assert len(matcher.match(Facts({**notes, "a": "b"}, None, False))) == 1
        assert len(matcher._unmatched) <= 3
        assert all(len(key) <= match.USUAL_KEY for key in matcher._unmatched)
