"""What a fleet's tools need of `install`: an index, and a result that a program reads."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from .conftest import LINK, PROGRAM, UNIT, WANTED, YAML, Node

Form = tuple[str, ...]
MADE = {(): [YAML, LINK], ("-external",): [YAML, UNIT, WANTED]}


def results(node: Node, *words: str) -> dict[str, Any]:
    """Runs `install` and returns what it tells of each thing."""
    assert node("install", *words, "-o", "json") == 0
    told = json.loads(node.out)
    assert told["changed"] is any(thing["changed"] for thing in told["things"])
    return {thing["path"][1:]: (thing["result"], thing["changed"]) for thing in told["things"]}


def test_each_thing_is_told_as_changed_or_not_and_a_second_time_nothing_is(node: Node, form: Form) -> None:
    before = node.files()
    made = dict.fromkeys(MADE[form], ("made", True))
    assert results(node, *form, "-dry-run") == made
    assert node.files() == before
    assert results(node, *form) == made
    assert results(node, *form) == dict.fromkeys(MADE[form], ("is there", False))
    node.write(YAML, "trust: off\n")
    assert results(node, *form)[YAML] == ("kept", False)
    assert json.loads(node.out)["next"][-1] == "v010-adapter status"


def test_what_is_in_the_way_and_what_is_wrong_are_told_too(node: Node, form: Form) -> None:
    node.link("opt/nri/plugins/20-other", "/nowhere/other")
    node.write("etc/containerd/config.toml", "version = 3\n[plugins.'io.containerd.nri.v1.nri']\ndisable = true\n")
    results(node, *form)
    told = json.loads(node.out)
    assert [entry["status"] for entry in told["nri"]] == ["problem"]
    assert told["problems"] == []
    assert [text.rpartition(": ")[2] for text in told["warnings"]] == ["no runtime starts"]
    other = ("-external",) if not form else ()
    assert node("install", *other, "-o", "json") == 1
    told = json.loads(node.out)
    assert (told["changed"], told["things"]) == (False, [])
    assert "the adapter would run twice" in told["problems"][0]


def test_an_index_is_kept_until_another_is_asked_for(node: Node, form: Form) -> None:
    def installed() -> str:
        if form:
            return (node.root / UNIT).read_text().partition(" -idx ")[2][:2]
        [link] = (node.root / LINK).parent.iterdir()
        assert os.readlink(link) == PROGRAM
        return link.name.removesuffix("-v010-adapter")

    before = node.files()
    assert results(node, *form, "-idx", "90")
    assert installed() == "90"
    assert not any(changed for _, changed in results(node, *form).values())
    assert ("removed", True) in results(node, *form, "-idx", "10", "-dry-run").values() or form
    assert installed() == "90"
    assert any(changed for _, changed in results(node, *form, "-idx", "10").values())
    assert installed() == "10"
    assert node("uninstall") == 0
    assert node.files() == before


def test_a_plugin_of_the_same_name_that_is_not_this_program_stays(node: Node) -> None:
    """Upstream's v010-adapter is a binary."""
    node.write("opt/upstream/v010-adapter", "\x7fELF")
    link = node.link("opt/nri/plugins/10-v010-adapter", "/opt/upstream/v010-adapter")
    assert set(results(node)) == {YAML, LINK}
    assert "run twice" in node.err
    assert node("install", "-idx", "10") == 1
    assert "10-v010-adapter is there, and not from an installation of the adapter" in node.err
    node("uninstall")
    assert os.readlink(link) == "/opt/upstream/v010-adapter"


def test_upstreams_link_with_the_default_index_is_in_the_way_and_stays(node: Node) -> None:
    node.write("opt/upstream/v010-adapter", "\x7fELF")
    link = node.link(LINK, "/opt/upstream/v010-adapter")
    assert node("install") == 1
    assert node("uninstall") == 0
    assert os.readlink(link) == "/opt/upstream/v010-adapter"


def test_a_node_on_which_no_runtime_is_found_is_told_how_to_restart_any(node: Node) -> None:
    (node.root / "run/containerd/containerd.sock").unlink()
    results(node)
    command = "systemctl restart containerd    # or crio"
    assert json.loads(node.out)["next"][0] == command
    node("uninstall")
    assert node.out.endswith(f"\n    {command}\n")


@pytest.mark.parametrize("index", ["7", "007", "x0", ""])
def test_an_index_is_two_digits(node: Node, index: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        node("install", "-idx", index)
