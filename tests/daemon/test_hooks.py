"""The running daemon injects hooks: when it asks for the event, what it answers, and how soon a file is in force."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adapter.nri import api

from .harness import COMMAND, SAFETY, Daemon, Node

CREATE_CONTAINER = 1 << 3


def hook(path: str = "/bin/true", stages: tuple[str, ...] = ("createRuntime", "poststop")) -> str:
    return json.dumps({"version": "1.0.0", "hook": {"path": path}, "when": {"always": True}, "stages": stages})


def configured(node: Node, hooks: dict[str, object], name: str = "containerd") -> tuple[Daemon, int]:
    daemon = node.spawn()
    daemon.registration()
    events = daemon.configure(node.settings(hooks=hooks), name=name).events
    daemon.call("Synchronize")
    return daemon, events


def created(daemon: Daemon, id_: str = "c1", timeout: float = SAFETY) -> api.CreateContainerResponse:
    request = api.CreateContainerRequest(
        pod=api.PodSandbox(id="p", name="p", namespace="default"), container=api.Container(id=id_, name=id_)
    )
    reply = daemon.call("CreateContainer", request, timeout)
    assert reply.code == 0, reply.message
    return api.CreateContainerResponse.FromString(reply.payload)


@pytest.mark.parametrize(
    ("enabled", "runtime", "asked"),
    [
        ("auto", "containerd", True),
        ("auto", "cri-o", False),
        ("auto", "docker", False),
        (True, "docker", True),
        (True, "cri-o", True),
        (False, "containerd", False),
    ],
)
def test_the_creation_of_containers_is_asked_for_where_hooks_are_ours_to_inject(
    node: Node, enabled: object, runtime: str, asked: bool
) -> None:
    _, events = configured(node, {"enabled": enabled}, runtime)
    assert bool(events & CREATE_CONTAINER) is asked


_CREATIONS_ONLY = "legacy plugins run at CreateContainer or not at all"


@pytest.mark.parametrize(
    ("runtime", "hooks", "lines"),
    [
        ("docker", {}, ["hooks are off: Docker refuses", _CREATIONS_ONLY]),
        ("cri-o", {}, ["hooks are off: CRI-O injects"]),
        ("cri-o", {"enabled": False}, []),  # whoever has switched them off knows why
    ],
)
def test_what_a_runtime_lacks_is_logged_once(
    node: Node, runtime: str, hooks: dict[str, object], lines: list[str]
) -> None:
    daemon, _ = configured(node, hooks, runtime)
    daemon.logged("registered with")
    for text in ("hooks are off: Docker refuses", "hooks are off: CRI-O injects", _CREATIONS_ONLY):
        assert len([line for line in daemon.log if text in line]) == lines.count(text)


def test_hooks_that_match_are_injected_into_the_stages_of_their_files(node: Node, tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(hook())
    daemon, _ = configured(node, {"directories": [str(tmp_path)]})
    response = created(daemon)
    assert [entry.path for entry in response.adjust.hooks.create_runtime] == ["/bin/true"]
    assert [entry.path for entry in response.adjust.hooks.poststop] == ["/bin/true"]
    node.still_serves(daemon)


def test_a_change_is_in_force_for_the_very_next_container(node: Node, tmp_path: Path) -> None:
    daemon, _ = configured(node, {"directories": [str(tmp_path)]})
    file = tmp_path / "one.json"
    for number in range(50):
        file.write_text(hook(stages=("prestart",)))
        assert created(daemon, f"with{number}").adjust.hooks.create_runtime
        file.unlink()
        assert not created(daemon, f"without{number}").HasField("adjust")


def test_without_watching_a_new_file_is_not_seen(
    node: Node, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    settings = tmp_path_factory.mktemp("own") / "adapter.yaml"
    settings.write_text(node.settings(hooks={"directories": [str(tmp_path)]}))
    daemon = node.spawn([COMMAND, "-disableWatch", "-config", settings])
    daemon.registration()
    daemon.configure()
    daemon.call("Synchronize")
    daemon.logged("registered with")  # which it says when everything has been read
    (tmp_path / "late.json").write_text(hook())
    assert not created(daemon).HasField("adjust")


def test_a_bad_hook_file_is_named_in_the_log_and_costs_no_container(node: Node, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"version": "1.0.0",')
    (tmp_path / "good.json").write_text(hook())
    daemon, _ = configured(node, {"directories": [str(tmp_path)]})
    assert created(daemon).adjust.hooks.create_runtime
    assert created(daemon, "c2").adjust.hooks.create_runtime
    daemon.logged("bad.json", "line 1")
    assert len([line for line in daemon.log if "bad.json" in line]) == 1


def test_changes_are_read_though_no_container_comes(node: Node, tmp_path: Path) -> None:
    """Again and again; each bad file is named when it is read."""
    daemon, _ = configured(node, {"directories": [str(tmp_path)]})
    daemon.logged("registered with")
    for name in ("one", "two", "three"):
        (tmp_path / f"{name}.json").write_text("[]")
        daemon.logged(f"{name}.json")
    node.still_serves(daemon)


def test_while_patterns_take_seconds_to_compile_containers_are_answered_in_time(node: Node, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(hook())
    daemon, _ = configured(node, {"directories": [str(tmp_path)]})
    assert created(daemon).adjust.hooks.create_runtime
    large = [f"\\pL{{10}}{number}" for number in range(1000)]
    (tmp_path / "b.json").write_text(hook().replace('{"always": true}', json.dumps({"commands": large})))
    assert len(created(daemon, "c2", 1.0).adjust.hooks.create_runtime) == 1, "the hooks that were in force before"
    daemon.logged("files are still being read", "in force before")
    node.still_serves(daemon)
