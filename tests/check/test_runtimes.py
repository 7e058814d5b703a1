"""What is to be expected of the runtimes."""

from __future__ import annotations

import os
import socket

import pytest

from adapter.cli.check import runtimes
from adapter.legacy import sandboxes as sandboxes_module

from .conftest import HOOK, REQUIRED, Node


def caveats(node: Node) -> list[str]:
    """What is said of runtimes, but whether NRI is on."""
    notes = [line.removeprefix("note ") for line in node.part("runtime")[1:] if line.startswith("note ")]
    return [note for note in notes if "NRI is" not in note]


def with_plugins(node: Node, **plugins: dict[str, str]) -> None:
    node.program("a")
    node.write("conf.json", {"plugins": [{"type": "a"}]})
    node.settings["legacy"]["plugins"] = plugins


CRIO_STARTS = "CRI-O: a failed create fails a pod, but a container starts all the same, with a warning in its log"
CRIO_INJECTS = "CRI-O: it injects hooks itself, so the adapter does not (hooks.enabled: auto)"


def test_where_a_failure_is_only_a_warning_that_is_said(node: Node) -> None:
    assert caveats(node) == []
    with_plugins(node)
    assert caveats(node) == [CRIO_STARTS]
    node.settings["legacy"]["onFailure"] = "ignore"
    assert caveats(node) == []
    with_plugins(node, a={"onFailure": "fail"})
    assert caveats(node) == [CRIO_STARTS]


def test_of_the_runtimes_that_are_there_or_else_of_those_that_are_configured_is_told(node: Node) -> None:
    with_plugins(node)
    for socket_of, told in (("containerd", []), ("CRI-O", [CRIO_STARTS])):
        node.write(socket_of, "")
        assert caveats(node) == told
    for name in ("containerd", "CRI-O", "crio.conf"):
        (node.folder / name).unlink()
    assert caveats(node) == []
    (node.folder / "config.toml").unlink()
    assert caveats(node) == ["neither containerd nor CRI-O is here: no containerd, no CRI-O"]


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
    assert caveats(node) == [CRIO_INJECTS]
    node.settings["hooks"]["enabled"] = True
    assert "injected twice" in caveats(node)[0]


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
    assert caveats(node) == []  # this conf.json is not the one that containerd reads
    for module in (runtimes, sandboxes_module):
        monkeypatch.setattr(module, "DEFAULT_CONF_JSON", str(node.folder / "conf.json"))
    runs = f"from 2.0 on it runs the plugins there for pods itself, {so}"
    node.write("containerd", "")
    unread = "if its executable contains conf.json (here it cannot be read: Connection refused)"
    assert caveats(node) == [f"containerd: {unread}, {runs}"] * bool(so)
    (node.folder / "containerd").unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(node.folder / "containerd"))
        listener.listen()
        none = "its executable does not contain conf.json: it runs no plugins for pods, the adapter does"
        assert caveats(node) == [f"containerd: {none}"] * bool(so)
        monkeypatch.setattr(runtimes, "names_conf_json", lambda pid: pid == os.getpid())
        assert caveats(node) == [f"containerd: its executable contains conf.json: {runs}"] * bool(so)


def test_settings_and_events_without_effect_and_docker_are_noted(node: Node) -> None:
    node.settings["runtime"]["failRequest"] = True
    assert caveats(node) == [runtimes.FAIL_REQUEST]
    node.settings["runtime"]["failRequest"] = False
    node.settings["legacy"]["plugins"] = {"a": {"events": ["CreateContainer", "UpdatePodSandbox"]}}
    said = "it tells the adapter no UpdatePodSandbox: the plugin a needs a newer one for its events"
    assert caveats(node) == [f"containerd: before 2.3 {said}", f"CRI-O: up to 1.36 {said}"]
    node.settings["legacy"]["plugins"] = {}
    node.write("Docker", "")
    assert f"note {runtimes.DOCKER}" in node()
