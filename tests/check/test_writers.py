"""What the report says of those who can write to what is configured."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .node import HOOK, Node


@pytest.fixture
def whole(node: Node) -> Node:
    """A node with a plugin and two hooks."""
    node.program("konfine")
    node.write("conf.json", {"plugins": [{"type": "konfine"}, {"type": "absent"}]})
    program = node.program("hook")
    node.write("one/a.json", {**HOOK, "hook": {"path": str(program)}})
    node.write("two/b.json", HOOK)
    return node


PLACES = {"conf.json": "conf.json: {} is world-writable: none of its plugins runs",
    "bin/konfine": "konfine: bin/konfine: {} is world-writable", "one": "one/a.json: not used: {} is world-writable",
    "two/b.json": "two/b.json: not used: {} is world-writable",
    "bin/hook": "one/a.json: not used: its program bin/hook: {} is world-writable"}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_what_is_world_writable_is_a_problem_of_what_needs_it(whole: Node, name: str) -> None:
    before = whole.problems()
    (whole.folder / name).chmod(0o777)
    after = whole.problems()
    assert [line for line in after if line not in before] == [PLACES[name].format(name)]
    assert whole.code == 1
    whole.settings["trust"] = "off"
    assert whole.problems() == before


def test_a_mask_that_is_world_writable_does_not_mask(whole: Node) -> None:
    (whole.folder / "two").chmod(0o777)
    for mask in ("", "/dev/null"):
        (whole.folder / "two/a.json").unlink(missing_ok=True)
        (whole.folder / "two/a.json").symlink_to(mask) if mask else whole.write("two/a.json", "")
        assert "two/a.json: not used: two is world-writable" in whole.problems()


def test_a_configuration_that_is_world_writable_is_a_problem_and_the_defaults_are_looked_at(
    whole: Node, tmp_path: Path
) -> None:
    own = whole.write("other.yaml", whole.settings)
    own.chmod(0o666)
    assert whole("-config", str(own))[1] == "PROBLEM other.yaml: other.yaml is world-writable"
    assert whole.code == 1


def test_what_a_group_can_write_is_a_note_for_each_place_and_no_problem(whole: Node) -> None:
    whole.write("own.yaml", whole.settings)
    for name in ("own.yaml", "conf.json", "bin", "bin/konfine", "bin/hook", "one", "one/a.json", "two/b.json"):
        (whole.folder / name).chmod(0o775)
    lines = whole()
    group = os.getegid()
    assert lines[lines.index("trust") + 1 : lines.index("runtime")] == [
        f"note {name} is writable for group {group}"
        for name in ("own.yaml", "conf.json", "bin", "bin/konfine", "one", "one/a.json", "two/b.json", "bin/hook")
    ]


def test_where_nobody_looks_or_nothing_is_in_use_it_is_said_or_nothing_is(whole: Node) -> None:
    assert "trust" not in whole()
    (whole.folder / "one").chmod(0o775)
    whole.settings["hooks"]["enabled"] = False
    assert "trust" not in whole(), "hooks that are switched off do not count"
    whole.settings["trust"] = "off"
    lines = whole()
    assert lines[lines.index("trust") + 1 : lines.index("runtime")] == [
        "note off: files and programs are used whoever can write to them"
    ]


def test_an_interpreter_is_looked_for_in_the_path_of_its_hook(whole: Node) -> None:
    program = whole.program("hook", "#!/usr/bin/env shell\n")
    whole.program("shell").chmod(0o775)
    hook = {"path": str(program), "env": [f"PATH={whole.folder}/bin"]}
    whole.write("one/a.json", {**HOOK, "hook": hook})
    assert f"note bin/shell is writable for group {os.getegid()}" in whole()
