"""Whose business sandboxes are: ours, or a runtime's that runs the plugins of the same conf.json for them itself."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from adapter.legacy.bridge import Bridge
from adapter.legacy.sandboxes import is_runtimes_own
from adapter.settings import DEFAULT_CONF_JSON, LegacySettings

from .node import Node


class Host:
    """A node's root in a folder, with a conf.json where containerd looks for it, and a bridge."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.root = node.folder / "host"
        self.conf_json = self.root / DEFAULT_CONF_JSON.lstrip("/")
        self.conf_json.parent.mkdir(parents=True)
        node.plugin("a")
        self.write(self.conf_json)

    def write(self, path: Path) -> Path:
        path.write_text(json.dumps({"plugins": [{"type": "a"}]}))
        return path

    def bridge(self, config: Path | None = None, sandboxes: str = "auto") -> Bridge:
        settings = LegacySettings(
            config=str(config or self.conf_json), path=(str(self.node.folder),), sandboxes=sandboxes
        )
        self.node.bridge = Bridge(self.node.loop, settings, str(self.root))
        return self.node.bridge

    def ours(self) -> bool:
        """Whether a pod's create runs plugins."""
        before = len(self.node.runs)
        answer = self.node.create_pod(f"pod{before}")
        if answer.outcome == "nothing to do":
            return False
        self.node.wait(answer)
        assert self.node.runs[before:] == [f"a create pod{before}"]
        return True


@pytest.fixture
def host(node: Node) -> Host:
    return Host(node)


RUNTIMES = [
    # name, version, whether it runs sandboxes itself
    ("containerd", "2.4.2", True),
    ("containerd", "v2.4.2", True),
    ("containerd", "2.4.2+unknown", True),
    ("containerd", "v2.0.14", True),
    ("containerd", "2.0.0-rc.1", True),
    ("containerd", "v3.0.0-beta.1", True),
    ("containerd", "10.1.0", True),
    ("containerd", "1.7.35", False),
    ("containerd", "v1.7.35", False),
    ("containerd", "1.7.35+unknown", False),
    ("containerd", "v1.7.0-beta.2", False),
    ("containerd", "1.20.1", False),
    ("containerd", "", True),
    ("containerd", "garbage", True),
    ("containerd", "unknown", True),
    ("containerd", "dev-2025", True),
    ("cri-o", "1.34.0", False),
    ("cri-o", "2.0.0", False),
    ("cri-o", "", False),
    ("", "", False),
    ("", "2.4.2", False),
    ("Containerd-like", "2.4.2", False),
]


@pytest.mark.parametrize(("name", "version", "itself"), RUNTIMES)
def test_with_the_runtimes_own_conf_json_sandboxes_are_left_to_a_containerd_from_2_0_on(
    host: Host, name: str, version: str, itself: bool
) -> None:
    host.bridge().runtime_is(name, version)
    assert host.ours() is not itself


@pytest.mark.parametrize(("sandboxes", "ours"), [("always", True), ("never", False)])
@pytest.mark.parametrize(("name", "version"), [("containerd", "2.4.2"), ("containerd", "1.7.35"), ("cri-o", "1.34.0")])
def test_what_is_configured_decides_whatever_the_runtime(
    host: Host, name: str, version: str, sandboxes: str, ours: bool
) -> None:
    host.bridge(sandboxes=sandboxes).runtime_is(name, version)
    assert host.ours() is ours


def test_before_the_runtime_is_known_sandboxes_are_ours(host: Host) -> None:
    host.bridge()
    assert host.ours()


def test_containers_are_always_ours(host: Host) -> None:
    for sandboxes in ("auto", "always", "never"):
        host.bridge(sandboxes=sandboxes).runtime_is("containerd", "2.4.2")
        answer = host.node.create(f"c-{sandboxes}")
        host.node.wait(answer)
        assert answer.outcome == "ok"
    assert len(host.node.runs) == 3


def test_sandboxes_that_are_not_ours_get_no_delete_from_us_either(host: Host) -> None:
    host.bridge().runtime_is("containerd", "2.4.2")
    host.node.create_pod()
    assert host.node.delete_pod().outcome == "nothing to do"
    assert host.node.runs == []


def another_file(host: Host) -> Path:
    return host.write(host.node.folder / "own.json")


def a_copy_in_the_same_folder(host: Host) -> Path:
    return host.write(host.conf_json.with_name("own.json"))


def the_path_itself(host: Host) -> Path:
    return host.conf_json


def a_symlink_to_it(host: Host) -> Path:
    link = host.node.folder / "link.json"
    link.symlink_to(host.conf_json)
    return link


def a_hard_link_to_it(host: Host) -> Path:
    link = host.node.folder / "link.json"
    os.link(host.conf_json, link)
    return link


def a_folder_that_is_a_symlink(host: Host) -> Path:
    """Like a mount of the host's /etc/nri at another place in the adapter's container."""
    (host.node.folder / "mounted").symlink_to(host.conf_json.parent)
    return host.node.folder / "mounted" / "conf.json"


CONFIGS: list[tuple[Callable[[Host], Path], bool]] = [
    (another_file, True),
    (a_copy_in_the_same_folder, True),
    (the_path_itself, False),
    (a_symlink_to_it, False),
    (a_hard_link_to_it, False),
    (a_folder_that_is_a_symlink, False),
]


@pytest.mark.parametrize(("config", "ours"), CONFIGS)
def test_a_conf_json_is_the_runtimes_own_if_it_is_the_same_file(
    host: Host, config: Callable[[Host], Path], ours: bool
) -> None:
    host.bridge(config(host)).runtime_is("containerd", "2.4.2")
    assert host.ours() is ours


def test_a_conf_json_that_the_runtime_has_none_of_is_ours(host: Host) -> None:
    host.conf_json.unlink()
    host.bridge(another_file(host)).runtime_is("containerd", "2.4.2")
    assert host.ours()


def test_which_file_it_is_is_looked_at_for_every_event(host: Host) -> None:
    own = another_file(host)
    host.bridge(own).runtime_is("containerd", "2.4.2")
    assert host.ours()
    host.conf_json.unlink()
    host.conf_json.symlink_to(own)
    assert not host.ours()
    host.conf_json.unlink()
    assert host.ours()


def test_the_host_root_is_where_the_runtimes_file_is_looked_for(tmp_path: Path) -> None:
    own = tmp_path / "etc/nri/conf.json"
    own.parent.mkdir(parents=True)
    own.write_text("{}")
    assert [is_runtimes_own(str(own), root) for root in (str(tmp_path), f"{tmp_path}/", "/")] == [True, True, False]


def test_that_sandboxes_are_left_is_logged_once(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    host.bridge().runtime_is("containerd", "2.4.2")
    for _ in range(3):
        assert not host.ours()
    host.node.loop.settle()
    [said] = [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
    assert "containerd 2.4.2" in said
    assert "sandboxes" in said
    assert str(host.conf_json) in said


def test_that_sandboxes_are_ours_needs_no_word(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    host.bridge().runtime_is("containerd", "1.7.35")
    assert host.ours()
    host.node.loop.settle()
    assert "are left to" not in caplog.text
