"""conf.json and the programs of legacy plugins; who can write to what is configured."""

from __future__ import annotations

import os

import pytest

from .conftest import HOOK, Checked

# fmt: off
FAULTS: dict[str, list[str]] = {
    "": ["conf.json:1:1: the file is empty"],
    '{"plugins": [\n  {"type": "a",}]}': ["conf.json:2:15: a trailing comma"],
    '{"plugins": [{"typ": "konfine"}]}': [
        "conf.json:1:14: plugins[0].type is missing",
        "conf.json:1:22: plugins[0].typ is unknown and ignored; did you mean 'type'?"],
    '{"version": 1,\n"plugins": [\n{"type": 5},\n{"type": ""}, 7]}': [
        "conf.json:1:13: version: must be a string, not 1",
        "conf.json:3:10: plugins[0].type: must be a string, not 5",
        "conf.json:4:10: plugins[1].type: must be a name or an absolute path",
        "conf.json:4:15: plugins[2]: must be an object, not 7"],
    "[]": ["conf.json:1:1: must be an object, not an array"],
    '{"plugins": [], "Plugin": []}': ["conf.json:1:27: Plugin is unknown and ignored; did you mean 'plugins'?"],
    '{"plugins": [{"type": "a/b"}, {"type": "/none"}]}': [
        "conf.json:1:23: plugins[0].type: must be a name or an absolute path"],
    # To the schema, the second key is only a spelling that not everybody knows.
    '{"plugins": [\n{"type": "a", "TYPE": ""}]}': ["conf.json:2:1: plugins[0].type: missing or empty"],
}
# fmt: on


def test_every_fault_of_conf_json_has_its_line_and_column(node: Checked) -> None:
    for text, problems in FAULTS.items():
        node.write("conf.json", text)
        assert node.problems() == problems, text
    assert "note conf.json: none of its plugins runs" in node()
    path = node.folder / "conf.json"
    path.unlink()
    path.mkdir()
    assert node.problems() == ["conf.json: not a regular file"]
    path.rmdir()
    path.symlink_to("conf.json")
    assert node.problems() == ["conf.json: Too many levels of symbolic links"]


def test_what_the_original_client_tolerated_is_noted_and_never_called_unused(node: Checked) -> None:
    node.write("conf.json", '{"Version": "0.1", "plugins": []} trailing')
    assert node.part("legacy plugins") == [
        "note conf.json:1:13: Version is read as 'version', but not by everybody",
        "note conf.json: the text after the first JSON value is ignored",
        "ok conf.json: 0 plugins",
    ]
    for text in ("null", '{"plugins": null}'):
        node.write("conf.json", text)
        assert not any("none of its plugins runs" in line for line in node())
    node.program("a")
    for conf in ("[" * 5000 + "]" * 5000, "1" * 5000):
        node.write("conf.json", f'{{"plugins": [{{"type": "a", "conf": {conf}}}]}}')
        assert "ok conf.json: 1 plugin" in node()
    assert node.part("legacy plugins")[:2] == [
        "note conf.json: larger or deeper than can be checked",
        "ok conf.json: 1 plugin",
    ]
    assert node.code == 0


def test_a_program_that_cannot_be_started_is_a_problem(node: Checked) -> None:
    types = ["good", "none", "data", "script", "text", "/no/such", "directory"]
    node.write("conf.json", {"plugins": [{"type": type_} for type_ in types]})
    node.program("good")
    node.write("bin/data", "")
    node.program("script", "#!/no/such/interpreter -x\n")
    node.program("text", "echo hello\n")
    (node.folder / "bin/directory").mkdir()
    problems = node.problems()
    assert problems[0].startswith("none: not found in bin:")
    assert problems[1:] == [
        "data: bin/data is not an executable file: chmod +x bin/data",
        "script: bin/script needs the interpreter '/no/such/interpreter', which does not exist",
        "text: bin/text is neither a binary nor a script that begins with #!",
        "/no/such: not found",
        "directory: bin/directory is not an executable file",
    ]


def test_what_is_odd_about_a_plugin_that_can_be_started_is_noted(node: Checked) -> None:
    """A second entry that an installer has appended; a type that only the system has a program for; other events."""
    node.write("conf.json", {"plugins": [{"type": "a", "conf": {}}, {"type": "sh"}, {"type": "b"}, {"type": "a"}]})
    node.program("a")
    node.program("b")
    events = {"a": {"events": ["UpdateContainer", "CreateContainer"]}, "b": {"events": []}}
    node.settings["legacy"]["plugins"] = {**events, "konfine": {"onFailure": "ignore"}}
    assert node.part("legacy plugins") == [
        "ok conf.json: 4 plugins",
        "ok a: runs bin/a at CreateContainer, UpdateContainer",
        "note a: plugins[3] has no conf, another entry has one: it fails if it needs one",
        "note sh: runs /usr/bin/sh without conf, perhaps another program: there is no sh in bin",
        "ok b: runs bin/b without conf at no event",
        "note konfine: has settings, but is not in conf.json",
    ]


# ---- who can write to it


@pytest.fixture
def whole(node: Checked) -> Checked:
    """A node with a plugin and two hooks."""
    node.program("konfine")
    node.write("conf.json", {"plugins": [{"type": "absent"}, {"type": "konfine"}]})
    program = node.program("hook")
    node.write("one/a.json", {**HOOK, "hook": {"path": str(program)}})
    node.write("two/b.json", HOOK)
    return node


PLACES = {
    "conf.json": "conf.json: {} is world-writable",
    "bin/konfine": "konfine: bin/konfine: {} is world-writable",
    "one": "one/a.json: not used: {} is world-writable",
    "two/b.json": "two/b.json: not used: {} is world-writable",
    "bin/hook": "one/a.json: not used: its program bin/hook: {} is world-writable",
}


def test_what_is_world_writable_is_a_problem_of_what_needs_it(whole: Checked) -> None:
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
    whole.settings["trust"] = "off"
    assert whole.part("trust") == ["note off: files and programs are used even if others can write to them"]
    own = whole.write("other.yaml", whole.settings)
    own.chmod(0o666)
    assert whole("-config", str(own))[1] == "PROBLEM other.yaml: other.yaml is world-writable"


def test_what_a_group_can_write_is_a_note_for_each_place_and_no_problem(whole: Checked) -> None:
    program = whole.program("hook", "#!/usr/bin/env shell\n")
    whole.write("one/a.json", {**HOOK, "hook": {"path": str(program), "env": [f"PATH={whole.folder}/bin"]}})
    for name in ("konfine", "shell", "own"):
        whole.program(name, "#!/usr/bin/env own\n" if name == "konfine" else "#!/bin/sh\n")
    whole.settings["state"] = {"directory": str(whole.folder / "state")}
    (whole.folder / "state").mkdir()
    whole()
    places = ["own.yaml", "conf.json", "state", "bin", "bin/konfine", "bin/own", "one", "one/a.json", "bin/hook"]
    places.append("bin/shell")
    for name in places:
        (whole.folder / name).chmod(0o775)
    assert whole.part("trust") == [f"note {name} is writable for group {os.getegid()}" for name in places]


def test_another_list_where_installers_of_plugins_look_is_noted(node: Checked) -> None:
    node.write("conf.json", {"plugins": []})
    noted = (
        "note shared.json: another list, whose plugins the adapter does not run; "
        "containerd 2.0 to 2.4 run them for pods (legacy.config is conf.json)"
    )
    assert noted not in node()
    node.write("shared.json", {"plugins": []})
    assert noted in node()
    node.settings["legacy"]["config"] = str(node.folder / "shared.json")
    assert "note shared.json" not in "".join(node())
