"""What the report says of those who can write to what is configured."""

from __future__ import annotations

import os

import pytest

from .conftest import HOOK, Node


@pytest.fixture
def whole(node: Node) -> Node:
    """A node with a plugin and two hooks."""
    node.program("konfine")
    node.write("conf.json", {"plugins": [{"type": "konfine"}, {"type": "absent"}]})
    program = node.program("hook")
    node.write("one/a.json", {**HOOK, "hook": {"path": str(program)}})
    node.write("two/b.json", HOOK)
    return node


PLACES = {
    "conf.json": "conf.json: {} is world-writable: none of its plugins runs",
    "bin/konfine": "konfine: bin/konfine: {} is world-writable",
    "one": "one/a.json: not used: {} is world-writable",
    "two/b.json": "two/b.json: not used: {} is world-writable",
    "bin/hook": "one/a.json: not used: its program bin/hook: {} is world-writable",
}


def test_what_is_world_writable_is_a_problem_of_what_needs_it(whole: Node) -> None:
    before = whole.problems()
    for name, problem in PLACES.items():
        place = whole.folder / name
        mode = place.stat().st_mode
        place.chmod(0o777)
        assert [line for line in whole.problems() if line not in before] == [problem.format(name)]
        whole.settings["trust"] = "off"
        assert whole.problems() == before
        del whole.settings["trust"]
        place.chmod(mode)
    own = whole.write("other.yaml", whole.settings)
    own.chmod(0o666)
    assert whole("-config", str(own))[1] == "PROBLEM other.yaml: other.yaml is world-writable"


def test_a_mask_that_is_world_writable_does_not_mask(whole: Node) -> None:
    (whole.folder / "two").chmod(0o777)
    mask = whole.write("two/a.json", "")
    assert "two/a.json: not used: two is world-writable" in whole.problems()
    mask.unlink()
    mask.symlink_to("/dev/null")
    assert "two/a.json: not used: two is world-writable" in whole.problems()


def test_what_a_group_can_write_is_a_note_for_each_place_and_no_problem(whole: Node) -> None:
    program = whole.program("hook", "#!/usr/bin/env shell\n")
    whole.write("one/a.json", {**HOOK, "hook": {"path": str(program), "env": [f"PATH={whole.folder}/bin"]}})
    whole.program("shell")
    whole()
    for name in ("own.yaml", "conf.json", "bin", "bin/konfine", "bin/hook", "bin/shell", "one", "one/a.json"):
        (whole.folder / name).chmod(0o775)
    assert whole.part("trust") == [
        f"note {name} is writable for group {os.getegid()}"
        for name in ("own.yaml", "conf.json", "bin", "bin/konfine", "one", "one/a.json", "bin/hook", "bin/shell")
    ]


def test_where_nobody_looks_or_nothing_is_in_use_it_is_said_or_nothing_is(whole: Node) -> None:
    assert whole.part("trust") == []
    (whole.folder / "one").chmod(0o775)
    whole.settings["hooks"]["enabled"] = False
    assert whole.part("trust") == [], "hooks that are switched off do not count"
    whole.settings["trust"] = "off"
    assert whole.part("trust") == ["note off: files and programs are used even if others can write to them"]
