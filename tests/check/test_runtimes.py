"""What is to be expected of the runtimes."""

from __future__ import annotations

import os
import socket

import pytest

from adapter.cli.check import runtimes
from adapter.legacy import sandboxes as sandboxes_module
from tests.check.node import HOOK, REQUIRED, Node


def with_plugins(node: Node, **plugins: dict[str, str]) -> None:
    node.program("a")
    node.write("conf.json", {"plugins": [{"type": "a"}]})
    node.settings["legacy"]["plugins"] = plugins


CRIO_STARTS = "CRI-O: a failed create fails a pod, but a container starts all the same, with a warning in its log"
CRIO_INJECTS = "CRI-O: it injects hooks itself, so the adapter does not (hooks.enabled: auto)"


def test_where_a_failure_is_only_a_warning_that_is_said(node: Node) -> None:
    assert node.caveats() == []
    with_plugins(node)
    assert node.caveats() == [CRIO_STARTS]
    node.settings["legacy"]["onFailure"] = "ignore"
    assert node.caveats() == []
    with_plugins(node, a={"onFailure": "fail"})
    assert node.caveats() == [CRIO_STARTS]


def test_only_the_runtime_that_is_there_is_told_of(node: Node) -> None:
    with_plugins(node)
    node.write("containerd", "")
    assert node.caveats() == []
    node.write("CRI-O", "")
    assert node.caveats() == [CRIO_STARTS]


def test_without_sockets_the_runtimes_that_are_configured_count(node: Node) -> None:
    with_plugins(node)
    assert node.caveats() == [CRIO_STARTS]
    (node.folder / "crio.conf").unlink()
    assert node.caveats() == []
    (node.folder / "config.toml").unlink()
    assert node.caveats() == ["neither containerd nor CRI-O is here: no containerd, no CRI-O"]


def test_a_validator_that_rejects_hooks_is_a_problem_where_hooks_are(node: Node) -> None:
    (node.folder / "crio.conf").unlink()
    node.write("config.toml", f"{REQUIRED}reject_oci_hook_adjustment = true\n")
    with_plugins(node)
    assert node.problems() == []
    node.write("one/x.json", HOOK)
    text = "containerd: default_validator.reject_oci_hook_adjustment fails every container that gets a hook"
    assert node.problems() == [f"config.toml: {text}"]


def test_whose_hooks_are_injected_on_crio_is_said(node: Node) -> None:
    node.write("one/x.json", HOOK)
    assert node.caveats() == [CRIO_INJECTS]
    node.settings["hooks"]["enabled"] = True
    assert "injected twice" in node.caveats()[0]


@pytest.mark.parametrize(
    ("sandboxes", "so"),
    [
        ("auto", "so the adapter leaves pods to it"),
        ("always", "so with legacy.sandboxes: always they are run twice"),
        ("never", ""),
    ],
)
def test_who_runs_plugins_for_pods_on_containerd_is_said(
    node: Node, sandboxes: str, so: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_plugins(node)
    node.settings["legacy"] |= {"sandboxes": sandboxes, "onFailure": "ignore"}
    assert node.caveats() == []  # this conf.json is not the one that containerd reads
    for module in (runtimes, sandboxes_module):
        monkeypatch.setattr(module, "DEFAULT_CONF_JSON", str(node.folder / "conf.json"))
    runs = f"from 2.0 on it runs the plugins there for pods itself, {so}"
    node.write("containerd", "")
    unread = "if its executable contains conf.json (here it cannot be read: Connection refused)"
    assert node.caveats() == [f"containerd: {unread}, {runs}"] * bool(so)
    (node.folder / "containerd").unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(node.folder / "containerd"))
        listener.listen()
        none = "its executable does not contain conf.json: it runs no plugins for pods, the adapter does"
        assert node.caveats() == [f"containerd: {none}"] * bool(so)
        monkeypatch.setattr(runtimes, "names_conf_json", lambda pid: pid == os.getpid())
        assert node.caveats() == [f"containerd: its executable contains conf.json: {runs}"] * bool(so)


def test_a_setting_without_effect_is_noted(node: Node) -> None:
    node.settings["runtime"]["failRequest"] = True
    assert node.caveats() == [runtimes.FAIL_REQUEST]


def test_events_that_an_older_runtime_does_not_tell_are_said(node: Node) -> None:
    node.settings["legacy"]["plugins"] = {"a": {"events": ["CreateContainer", "UpdatePodSandbox"]}}
    said = "it tells the adapter no UpdatePodSandbox: the plugin a needs a newer one for its events"
    assert node.caveats() == [f"containerd: before 2.3 {said}", f"CRI-O: up to 1.36 {said}"]


def test_what_docker_lacks_is_said_where_it_is(node: Node) -> None:
    assert not any("Docker" in line for line in node())
    node.write("Docker", "")
    assert [line for line in node() if "Docker" in line] == [f"note {runtimes.DOCKER}"]
