"""Whose business sandboxes are: ours, or a runtime's that runs the plugins of the same conf.json for them itself."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

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

    def another(self) -> Path:
        return self.write(self.node.folder / "own.json")

    def link(self, make: Callable[[Path, Path], Any], of: Path) -> Path:
        link = self.node.folder / "link"
        make(of, link)
        return link

    def bridge(self, config: Path | None = None, sandboxes: str = "auto") -> Bridge:
        own = LegacySettings(config=str(config or self.conf_json), path=(str(self.node.folder),), sandboxes=sandboxes)
        self.node.bridge = Bridge(self.node.loop, own, str(self.root))
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


CONTAINERD = {  # and whether it runs sandboxes itself
    **dict.fromkeys(
        ["2.4.2", "v2.4.2", "2.4.2+unknown", "v2.0.14", "2.0.0-rc.1", "v3.0.0-beta.1", "10.1.0", "garbage", "unknown"],
        True,
    ),
    **dict.fromkeys(["", "dev-2025"], True),
    **dict.fromkeys(["1.7.35", "v1.7.35", "1.7.35+unknown", "v1.7.0-beta.2", "1.20.1"], False),
}
OTHERS = [
    *(("cri-o", version) for version in ("1.34.0", "2.0.0", "")),
    ("", ""),
    ("", "2.4.2"),
    ("Containerd-x", "2.4.2"),
]


def test_with_the_runtimes_own_conf_json_sandboxes_are_left_to_a_containerd_from_2_0_on(host: Host) -> None:
    host.bridge()
    assert host.ours(), "before the runtime is known"
    for version, itself in CONTAINERD.items():
        host.bridge().runtime_is("containerd", version)
        assert host.ours() is not itself, version
    for name, version in OTHERS:
        host.bridge().runtime_is(name, version)
        assert host.ours(), name


def test_what_is_configured_decides_whatever_the_runtime_and_containers_are_always_ours(host: Host) -> None:
    for name, version in (("containerd", "2.4.2"), ("containerd", "1.7.35"), ("cri-o", "1.34.0")):
        for sandboxes in ("always", "never"):
            host.bridge(sandboxes=sandboxes).runtime_is(name, version)
            assert host.ours() is (sandboxes == "always"), (name, version)
            answer = host.node.create("c1")
            host.node.wait(answer)
            assert answer.outcome == "ok"


def test_sandboxes_that_are_not_ours_get_no_delete_from_us_either(host: Host) -> None:
    host.bridge().runtime_is("containerd", "2.4.2")
    host.node.create_pod()
    assert host.node.delete_pod().outcome == "nothing to do"
    assert host.node.runs == []


CONFIGS: dict[str, tuple[Callable[[Host], Path], bool]] = {
    "another file": (Host.another, True),
    "a copy in the same folder": (lambda host: host.write(host.conf_json.with_name("own.json")), True),
    "the path itself": (lambda host: host.conf_json, False),
    "a symlink to it": (lambda host: host.link(os.symlink, host.conf_json), False),
    "a hard link to it": (lambda host: host.link(os.link, host.conf_json), False),
    "a link to its folder, like a mount of it": (
        lambda host: host.link(os.symlink, host.conf_json.parent) / "conf.json",
        False,
    ),
}


@pytest.mark.parametrize("config", CONFIGS)
def test_a_conf_json_is_the_runtimes_own_if_it_is_the_same_file(host: Host, config: str) -> None:
    path, ours = CONFIGS[config]
    host.bridge(path(host)).runtime_is("containerd", "2.4.2")
    assert host.ours() is ours


def test_which_file_it_is_is_looked_at_for_every_event(host: Host) -> None:
    own = host.another()
    host.bridge(own).runtime_is("containerd", "2.4.2")
    assert host.ours()
    host.conf_json.unlink()
    assert host.ours(), "the runtime has none"
    os.link(own, host.conf_json)
    assert not host.ours()


def test_the_host_root_is_where_the_runtimes_file_is_looked_for(tmp_path: Path) -> None:
    own = tmp_path / "etc/nri/conf.json"
    own.parent.mkdir(parents=True)
    own.write_text("{}")
    assert [is_runtimes_own(str(own), root) for root in (str(tmp_path), f"{tmp_path}/", "/")] == [True, True, False]


def test_that_sandboxes_are_left_is_logged_once_and_that_they_are_ours_is_not(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    host.bridge().runtime_is("containerd", "1.7.35")
    assert host.ours()
    host.node.loop.settle()
    assert "are left to" not in caplog.text
    caplog.clear()
    host.bridge().runtime_is("containerd", "2.4.2")
    assert [host.ours() for _ in range(3)] == [False] * 3
    host.node.loop.settle()
    [said] = [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
    assert all(word in said for word in ("containerd 2.4.2", "sandboxes", str(host.conf_json)))
