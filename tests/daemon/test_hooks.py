"""The running daemon injects hooks: when it asks for the event, what it answers, and how soon a file is in force."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adapter.nri import api

from .harness import SAFETY, Daemon, Node

CREATE_CONTAINER = 1 << 3


def hook(stages: tuple[str, ...] = ("createRuntime", "poststop")) -> str:
    return json.dumps({"version": "1.0.0", "hook": {"path": "/bin/true"}, "when": {"always": True}, "stages": stages})


def configured(node: Node, hooks: dict[str, object], name: str = "containerd") -> tuple[Daemon, int]:
    daemon = node.spawn()
    daemon.registration()
    events = daemon.configure(node.settings(hooks=hooks), name=name).events
    daemon.call("Synchronize")
    daemon.logged("registered with")  # which it says when everything has been read
    return daemon, events


def created(daemon: Daemon, id_: str = "c1", timeout: float = SAFETY) -> api.CreateContainerResponse:
    pod = api.PodSandbox(id="p", name="p", namespace="default")
    request = api.CreateContainerRequest(pod=pod, container=api.Container(id=id_, name=id_))
    reply = daemon.call("CreateContainer", request, timeout)
    assert reply.code == 0, reply.message
    return api.CreateContainerResponse.FromString(reply.payload)


_CREATIONS_ONLY = "legacy plugins run at CreateContainer or not at all"
_OFF = {"docker": "hooks are off: Docker refuses", "cri-o": "hooks are off: CRI-O injects"}


@pytest.mark.parametrize(
    ("enabled", "runtime", "asked", "lines"),
    [
        ("auto", "containerd", True, []),
        ("auto", "cri-o", False, [_OFF["cri-o"]]),
        ("auto", "docker", False, [_OFF["docker"], _CREATIONS_ONLY]),
        (True, "docker", True, [_CREATIONS_ONLY]),
        (True, "cri-o", True, []),
        (False, "containerd", False, []),
        (False, "cri-o", False, []),  # whoever has switched them off knows why
    ],
)
def test_creations_are_asked_for_where_hooks_are_ours_to_inject_and_what_a_runtime_lacks_is_logged_once(
    node: Node, enabled: object, runtime: str, asked: bool, lines: list[str]
) -> None:
    daemon, events = configured(node, {"enabled": enabled}, runtime)
    assert bool(events & CREATE_CONTAINER) is asked
    for text in (*_OFF.values(), _CREATIONS_ONLY):
        assert len([line for line in daemon.log if text in line]) == lines.count(text)


def test_hooks_that_match_are_injected_and_a_change_is_in_force_for_the_very_next_container(
    node: Node, tmp_path: Path
) -> None:
    file = tmp_path / "one.json"
    file.write_text(hook())
    daemon, _ = configured(node, {"directories": [str(tmp_path)]})
    hooks = created(daemon).adjust.hooks
    assert [entry.path for entry in (*hooks.create_runtime, *hooks.poststop)] == ["/bin/true"] * 2
    for number in range(20):
        file.unlink()
        assert not created(daemon, f"without{number}").HasField("adjust")
        file.write_text(hook(("prestart",)))
        assert created(daemon, f"with{number}").adjust.hooks.create_runtime
    node.still_serves(daemon)


def test_bad_files_are_named_once_also_while_no_container_comes_and_cost_none(node: Node, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"version": "1.0.0",')
    (tmp_path / "good.json").write_text(hook())
    daemon, _ = configured(node, {"directories": [str(tmp_path)]})
    for id_ in ("c1", "c2"):
        assert created(daemon, id_).adjust.hooks.create_runtime
    daemon.logged("bad.json", "line 1")
    for name in ("one", "two"):
        (tmp_path / f"{name}.json").write_text("[]")
        daemon.logged(f"{name}.json")
    assert len([line for line in daemon.log if "bad.json" in line]) == 1
