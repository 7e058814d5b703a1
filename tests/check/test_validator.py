"""Whether containerd creates containers while the adapter is missing."""

from __future__ import annotations

import os

import pytest

from adapter.cli.check import nri, validator
from tests.check.node import HOOK, REQUIRED, REQUIRED_OF_CRIO, Node

OK = ["config.toml: containerd >= 2.2 creates no container while the adapter is missing"]
ALSO_CREATED = "config.toml: containerd: containers are also created while the adapter is missing: default_validator."
NOT_LISTED = [f"{ALSO_CREATED}required_plugins does not list it"]
NOT_ENABLED = [f"{ALSO_CREATED}enable is not true"]


@pytest.fixture
def node(node: Node) -> Node:
    """A node with a hook, so that the adapter matters."""
    node.write("one/a.json", HOOK)
    node.settings["hooks"]["enabled"] = True
    return node


OF_CRIO = "crio.conf: CRI-O: containers are also created while the adapter is missing: default_validator."


def told(node: Node) -> list[str]:
    """What is said of containerd's configuration, without the status, which must not be a problem."""
    lines = [line for line in node() if "toml" in line and "NRI is" not in line]
    assert node.code == 0, lines
    return [line.split(" ", 1)[1] for line in lines]


def test_without_plugins_and_hooks_nothing_is_said(node: Node) -> None:
    assert told(node) == OK
    (node.folder / "one/a.json").unlink()
    assert told(node) == []


def test_crio_has_its_own_settings(node: Node) -> None:
    node.write("CRI-O", "")
    for text, said in (
        (REQUIRED_OF_CRIO, "crio.conf: CRI-O >= 1.36 creates no container while the adapter is missing"),
        (REQUIRED_OF_CRIO.replace("true", "false"), f"{OF_CRIO}nri_enable_default_validator is not true"),
        (REQUIRED_OF_CRIO.replace("v010", "x"), f"{OF_CRIO}nri_validator_required_plugins does not list it"),
        (REQUIRED, f"{OF_CRIO}nri_validator_required_plugins does not list it"),
    ):
        node.write("crio.conf", text)
        assert said in [line.partition(" ")[2] for line in node()]


def test_both_settings_decide(node: Node) -> None:
    for old, new, expected in (
        ("", "", OK),
        (REQUIRED, "", NOT_LISTED),
        ("v010-adapter", "v010", NOT_LISTED),
        ("v010-adapter", "00-v010-adapter", OK),
        ("v010-adapter", "10-v010-adapter", NOT_LISTED),
        ("true", "false", NOT_ENABLED),
        ("enable = true", "", NOT_ENABLED),
        ("io.containerd.nri.v1.nri", "io.containerd.grpc.v1.cri", NOT_LISTED),
        ("required_plugins", "required_plugins = 3\n#", NOT_LISTED),
        ("required_plugins", "required_plugins = 'v010-adapter'\n#", NOT_LISTED),
        ("required_plugins", "required_plugins = [[], {}]\n#", NOT_LISTED),
    ):
        node.write("config.toml", REQUIRED.replace(old, new))
        assert told(node) == expected, (old, new)
    (node.folder / "config.toml").unlink()
    node.write("containerd", "")
    assert told(node) == NOT_LISTED


def test_the_names_are_those_of_the_links(node: Node) -> None:
    (node.folder / "plugins/10-bridge").symlink_to(node.program("v010-adapter"))
    assert told(node) == NOT_LISTED
    for name in ("bridge", "10-bridge"):
        node.write("config.toml", REQUIRED.replace("v010-adapter", name))
        assert told(node) == OK


def test_an_imported_file_overrides(node: Node) -> None:
    (node.folder / "more").mkdir()
    for pattern in (f"{node.folder}/more/*.toml", "more/*.toml", "./more/.b.toml"):
        imports = f"imports = ['{pattern}', 'missing.toml']\n"
        node.write("config.toml", imports + REQUIRED)
        node.write("more/.b.toml", imports + REQUIRED.replace("true", "false"))  # which imports itself
        assert told(node) == NOT_ENABLED
        node.write("config.toml", imports)
        node.write("more/.b.toml", REQUIRED)
        assert told(node) == OK


def test_a_file_that_cannot_be_understood_or_read_is_named(node: Node) -> None:
    node.write("config.toml", "imports = ['more.toml']\n" + REQUIRED)
    table = "[plugins.'io.containerd.nri.v1.nri']\ndefault_validator = "
    wrong = ["plugins = 3", f"{table}3", f"{table}'abc'", "imports = [3]"]
    for text, reason in (
        (b"imports = [", "Invalid value (at end of document)"),
        (b"a = " + b"[" * 5000, "nested too deeply"),
        *((text.encode(), "a value has the wrong type") for text in wrong),
    ):
        node.write("more.toml", text)
        assert node.problems() == [f"more.toml: {reason}: containerd may not start"]
    node.write("more.toml", b"\xff")
    assert node.problems() == ["more.toml:1: no text: the byte 0xff is not UTF-8: containerd may not start"]
    (node.folder / "more.toml").unlink()
    os.mkfifo(node.folder / "more.toml")
    assert node.problems() == ["more.toml: not a regular file: containerd may not start"]
    (node.folder / "config.toml").unlink()
    (node.folder / "config.toml").mkdir()
    assert node.problems() == ["config.toml: not a regular file: containerd may not start"]


def test_the_files_are_below_the_hosts_root(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nri, "CONTAINERD", "/config.toml")
    node.write("config.toml", "imports = ['/more.toml']\n")
    node.write("more.toml", REQUIRED)
    [entry] = validator.check("containerd", str(node.folder), {"v010-adapter"}, hooks=True)
    assert entry.status == "ok"
