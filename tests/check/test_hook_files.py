"""Hook files: their faults, who masks whom, and whether their programs can be started."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from v010_adapter.hooks.directory import JOURNAL, SYSTEMD_CAT
from v010_adapter.host import paths

from .conftest import HOOK, Checked

STAGES = "prestart, createRuntime, createContainer, startContainer, poststart, poststop, precreate"
NOT_ENABLED = "the stage 'precreate' is not enabled (hooks.precreate: true enables it)"
# fmt: off
FAULTS: dict[str, list[str]] = {
    "{": [":1:2: unexpected end"],
    "[]": [":1:1: must be an object, not an array"],
    "{}": [":1:1: hook is missing", ":1:1: stages are missing"],
    '{"version": "0.1.0"}': [":1:1: hook is missing", ":1:1: stages are missing"],
    '{"version": "1.0.0"}': [":1:1: hook is missing", ":1:1: stages is missing"],
    '{"version": "1.0.0", "hook": {}, "stages": []}': [":1:30: hook.path is missing"],
    '{"version": "1.0.0",\n"hook": {"path": "/x", "args": "x"},\n"stages": ["never", 5]}': [
        ":2:32: hook.args: must be an array, not a string",
        f':3:12: stages[0]: "never" is none of {STAGES}', f":3:21: stages[1]: 5 is none of {STAGES}"],
    '{"version": "2.0.0", "hook": {"path": "/x"}, "stages": []}': [":1:13: version: must be '1.0.0'"],
    '{"hook": {"path": "/x"}, "stages": []}': [":1:1: version is missing", ":1:10: hook must be a string"],
    '{"hook": "/x", "stage": [], "stages": []}': [":1:1: cannot have both stages and stage"],
    '{"version": "1.0.0", "hook": {"path": "/none/x", "evn": []},\n"stages": ["prestart"],\n'
    '"when": {"annotations": {"a[": "b("},\n"commands": ["ok", "("]}}': [
        ":1:57: hook.evn is unknown and ignored; did you mean 'env'?",
        ":3:32: when.annotations.a[: the pattern 'a[': "],
    '{"hook": "/etc", "stages": ["prestart"], "cmds": ["("]}': [
        ":1:51: cmds[0]: the pattern '(': "],
    '{"hook": "/bin/true", "stages": ["prestart", "precreate"],\n"annotations": ["ok", "*", "("]}': [
        f":1:46: stages[1]: {NOT_ENABLED}"],
}
# fmt: on


def test_what_the_schema_or_the_parser_finds_in_an_unusable_hook_has_its_line_and_column(node: Checked) -> None:
    for text, faults in FAULTS.items():
        node.write("one/x.json", text)
        found = sorted(line.replace(": not used: ", ": ") for line in node.problems())
        assert sum(": not used: " in line for line in node.problems()) == 1
        assert len(found) == len(faults), found
        for line, fault in zip(found, sorted(faults), strict=True):
            assert line.startswith(f"one/x.json{fault}")


X = "one/x.json"
MASKS = "masks files of its name in earlier directories"
# fmt: off
# Files, the problems, and other lines of the report.
NODES: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "what works but does not do what it seems to is a problem of a hook that is used": (
        {X: HOOK | {"hook": {"path": "/bin/true", "env": ["HOME"]}, "when": {"always": True, "hasBindMount": True}}},
        [f"{X}:1:60: hook.env[0]: must be KEY=VALUE",
        f"{X}:1:111: when.hasBindMount is unknown and ignored; did you mean 'hasBindMounts'?"],
        [f"ok {X}: createRuntime: /bin/true"]),
    "comments are left alone beside what is unknown": ({X: HOOK | {"//": "a comment", "_why": 1, "$schema": "x",
        "comment": "unknown"}},
        [f"{X}:1:165: comment is unknown and ignored; known here: version, hook, when, stages"], []),
    "keys in another case are noted and not called missing": (
        {X: '{"Version": "1.0.0", "HOOK": {"Path": "/bin/true"}, "stages": [], "when": {"always": true}}'}, [],
        [f"note {X}:1:13: Version is read as 'version', but not by everybody"]),
    "a masked file is named with the one that masks it": ({X: HOOK, "two/x.json": HOOK}, [],
        [f"note {X}: masked by two/x.json", "ok one: 1 file, 0 hooks in force"]),
    "other files of the directory are not looked at": ({"one/x.JSON": "{", "one/README": "{"},
        [], ["note one/x.JSON: not a hook file: its name does not end in .json"]),
    "hooks that no container gets are noted": ({"one/b.json": HOOK | {"stages": []},
        "one/c.json": HOOK | {"stages": ["prestart", "createRuntime"]}}, [],
        ["note one/b.json: no container gets this hook: it has no stages",
        "note one/c.json: injected twice: prestart and createRuntime are the same stage"]),
    "one fault is one problem": ({
        "one/a.json": HOOK | {"hook": {"path": "bin/x"}}, "one/b.json": HOOK | {"hook": {"path": "@P@/x"}},
        "one/c.json": {"hook": "__P__/x", "stages": ["prestart"]}, "one/d.json": HOOK | {"stages": ["preStart"]},
        "one/e.json": '{"version": "1.0.0",\n"hook": {"path": "/bin/true",},\n"stages": []}',
        "one/f.json": HOOK | {"hook": {"path": "/{{x}}"}}},
        ["one/a.json:1:39: not used: hook.path: must be an absolute path",
        "one/b.json:1:39: not used: hook.path: @P@ is a placeholder that nobody has replaced",
        "one/c.json:1:10: not used: hook: __P__ is a placeholder that nobody has replaced",
        f'one/d.json:1:90: not used: stages[0]: "preStart" is none of {STAGES}',
        "one/e.json:2:29: not used: a trailing comma",
        "one/f.json:1:39: not used: hook.path: {{x}} is a placeholder that nobody has replaced"], []),
    "a placeholder of a hook that is used, also as a key": ({
        X: HOOK | {"hook": {"path": "/bin/true", "args": ["x", "{{ .M }}"]}},
        "two/.y.json": HOOK | {"when": {"annotations": {"^@KEY@$": "."}}}},
        [f"{X}:1:66: hook.args[1]: {{{{ .M }}}} is a placeholder that nobody has replaced",
        "two/.y.json:1:89: when.annotations.^@KEY@$: @KEY@ is a placeholder that nobody has replaced"],
        [f"ok {X}: createRuntime: /bin/true", "ok two/.y.json: createRuntime: /bin/true"]),
    "a name is shown harmlessly and as far as it is text": ({"one/\033[2J.json": "{", "one/\udcff.json": HOOK},
        ["one/\\x1b[2J.json:1:2: not used: unexpected end"], ["ok one/\\udcff.json: createRuntime: /bin/true"]),
}
# fmt: on


@pytest.mark.parametrize(("files", "problems", "lines"), NODES.values(), ids=NODES)
def test_hook_files_are_reported(node: Checked, files: dict[str, Any], problems: list[str], lines: list[str]) -> None:
    for name, content in files.items():
        node.write(name, content)
    assert node.problems() == problems
    told = node()
    assert [line for line in lines if line not in told] == []
    assert (node.code, "\033" in node.out) == (bool(problems), False)
    node.settings["hooks"]["precreate"] = True
    assert node.problems() == [problem for problem in problems if NOT_ENABLED not in problem]


def limits(node: Checked, **settings: Any) -> list[str]:
    node.settings["hooks"] |= settings
    return [line for line in node.part("hooks") if "limit" in line]


def test_the_limits_of_all_hooks_are_added_up_but_not_those_that_no_creation_waits_for(node: Checked) -> None:
    adds_up = "the limits of all hooks but poststop add up to"
    stages = {"a": ["createRuntime", "poststart"], "b": ["precreate", "poststop"], "c": ["createRuntime", "poststop"]}
    for name, of_name in stages.items():
        hook = {"path": "/bin/true", **({"timeout": 40} if name == "a" else {})}
        node.write(f"one/{name}.json", HOOK | {"hook": hook, "stages": of_name})
    endless = "note no limit: c.json: a hook that hangs blocks its container for ever (hooks.timeout)"
    assert limits(node, precreate=True) == [endless]
    assert limits(node, timeout=9) == [f"ok {adds_up} 89 s"]
    assert limits(node, timeout=10) == [f"note {adds_up} 90 s; a kubelet waits 120 s for a call"]
    for number in range(4):
        node.write(f"two/{number}.json", HOOK)
    assert limits(node, timeout=0)[0].startswith("note no limit: 0.json, 1.json, 2.json, 3.json, c.json: ")
    for number in range(4, 7):
        node.write(f"two/{number}.json", HOOK)
    node.write("one/a.json", HOOK | {"hook": {"path": "/bin/true", "timeout": 90}})
    assert limits(node, timeout=0) == [
        "note no limit: 0.json, 1.json, 2.json, 3.json, 4.json, and 3 more: a hook that hangs blocks its container for"
        " ever (hooks.timeout)",
        f"note {adds_up} 90 s; a kubelet waits 120 s for a call",
    ]
    assert node.code == 0


def test_settings_of_a_file_that_is_not_there_are_named(node: Checked) -> None:
    node.write(X, HOOK)
    node.settings["hooks"]["files"] = {"x.json": {"notIn": []}, "y.json": {"notIn": ["a"]}}
    named = [line for line in node.part("hooks") if "hooks.files" in line]
    assert named == ["note y.json: has settings (hooks.files), but is in none of the directories"]


def test_what_the_journal_lacks_is_a_problem(node: Checked) -> None:
    node.settings["hooks"]["output"] = "journal"
    node.settings["hostRoot"] = str(node.folder / "host")
    left_out = "(hooks.output: journal); the runtime gets what hooks print"
    assert f"{SYSTEMD_CAT}: No such file or directory {left_out}" in node.problems()
    node.write(f"host{SYSTEMD_CAT}", "\x7fELF").chmod(0o755)
    node.write("host/run/x", "")
    assert f"{SYSTEMD_CAT}: {JOURNAL} does not exist {left_out}" in node.problems()
    node.write(f"host{JOURNAL}", "")
    node.write(X, HOOK)
    node.write("host/bin/true", "\x7fELF").chmod(0o755)
    assert not any("its program" in line for line in node.problems()), "programs are below hostRoot, too"
    assert "ok what hooks print goes to the journal" in node.part("hooks")
    assert not any(line.startswith(SYSTEMD_CAT) for line in node.problems())


def test_files_that_mask_on_purpose_are_no_problem(node: Checked) -> None:
    for name in ("x", "y"):
        node.write(f"one/{name}.json", HOOK)
    os.utime(node.write("two/x.json", ""), ns=(0, 0))
    (node.folder / "two/y.json").symlink_to("/dev/null")
    assert [line for line in node.part("hooks") if ".json" in line] == [
        "note one/x.json: masked by two/x.json",
        "note one/y.json: masked by two/y.json",
        f"ok two/x.json: empty: {MASKS}",
        f"ok two/y.json: a link to /dev/null: {MASKS}",
    ]
    assert node.code == 0


def test_a_directory_that_is_none_and_a_file_that_is_none_are_problems(node: Checked) -> None:
    (node.folder / "two").rmdir()
    node.write("two", "")
    (node.folder / "one/x.json").mkdir()
    assert [problem.split(":")[0] for problem in node.problems()] == ["one/x.json", "two"]


def test_hooks_that_are_switched_off_are_not_looked_at(node: Checked) -> None:
    node.settings["hooks"]["enabled"] = False
    for content in ("{", HOOK):
        node.write(X, content)
        assert node.part("hooks") == ["note switched off (hooks.enabled)"]
        assert not any("it injects hooks itself" in line for line in node())
        assert node.code == 0


def test_a_hook_that_no_container_gets_is_a_problem(node: Checked) -> None:
    node.write("one/a.json", HOOK | {"when": {}})
    node.write("one/b.json", {"hook": "/bin/true", "stages": ["prestart"]})
    node.write("one/c.json", HOOK | {"when": {"always": False}})  # somebody has switched it off
    never = "no container gets this hook: it has no condition"
    assert node.problems() == [f"one/a.json: {never}", f"one/b.json: {never}"]
    assert "note one/c.json: no container gets this hook: always is false" in node()
    assert "ok one: 3 files, 1 hook in force" in node()


def test_a_pattern_whose_program_is_large_is_named_with_its_place(node: Checked) -> None:
    slow = ".{0,1000}x"
    node.write("one/a.json", HOOK | {"when": {"annotations": {"^io\\.example$": slow}}})
    node.write("one/b.json", {"hook": "/bin/true", "annotations": [slow, "^(true|yes)$"], "stages": ["prestart"]})
    node.write("one/c.json", HOOK | {"when": {"commands": ["^/usr/bin/[a-z]+$", "[ab]c?"]}})
    a, b = node.problems()
    assert a.startswith("one/a.json:1:")
    assert a.endswith(
        "when.annotations.^io\\.example$: the pattern '.{0,1000}x' has 9005 instructions, more than 1000: "
        "slow for long annotations"
    )
    assert b.startswith("one/b.json: the pattern '.{0,1000}x|^(true|yes)$' has ")


def test_a_key_of_a_runtime_that_is_not_there_is_named(node: Checked) -> None:
    node.write(X, HOOK | {"when": {"annotations": {"^io\\.kubernetes\\.container\\.name$": "^web$", ".*": "x"}}})
    hint = "io.kubernetes.container.name is a key of CRI-O; containerd has io.kubernetes.cri.container-name"
    for runtime, told in (("CRI-O", False), ("containerd", True)):
        node.write(runtime, "")
        assert any(hint in line for line in node() if line.startswith(f"note {X}:1:")) is told


INTERPRETERS = {"#!": "", "#! ": "", "#!\n": "", "#!/nowhere": "/nowhere", "#! \t/bin/sh\r\n": "/bin/sh\\r"}


def test_a_program_can_be_started_by_anybody_and_a_script_if_its_interpreter_is_there(tmp_path: Path) -> None:
    """Spaces and arguments are no part of the interpreter."""
    file = tmp_path / "x"
    for mode, text in (
        (0o700, "\x7fELF"),
        (0o610, "#!/bin/sh"),
        (0o601, "#! \t/bin/sh\t-e\n"),
        (0o755, "#!/bin/sh -e x\r\n"),
    ):
        file.write_text(text, newline="")
        file.chmod(mode)
        assert paths.start_fault(str(file)) == "", text
    for text, interpreter in INTERPRETERS.items():
        file.write_text(text, newline="")
        assert paths.start_fault(str(file)) == f"needs the interpreter '{interpreter}', which does not exist"
