"""Hook files: their faults, who masks whom, and whether their programs can be started."""

from __future__ import annotations

import json
import os
import stat
from contextlib import nullcontext
from pathlib import Path

import pytest

from adapter.commands.check import hook_files, program
from adapter.hooks.model import When
from tests.check.node import HOOK, Node

FAULTS: list[tuple[str, list[str]]] = [
    ("{", [":1:2: unexpected end"]),
    ('{"version": "1.0.0"}', [":1:1: hook is missing", ":1:1: stages is missing"]),
    ('{"version": "1.0.0", "hook": {}, "stages": []}', [":1:30: hook.path is missing"]),
    (
        '{"version": "1.0.0",\n"hook": {"path": "/x", "args": "x"},\n"stages": ["never", 5]}',
        [
            ":2:32: hook.args: must be an array, not a string",
            ':3:12: stages[0]: "never" is none of prestart, createRuntime, createContainer, startContainer, '
            "poststart, poststop, precreate",
            ":3:21: stages[1]: 5 is none of prestart, createRuntime, createContainer, startContainer, "
            "poststart, poststop, precreate",
        ],
    ),
    ('{"version": "2.0.0", "hook": {"path": "/x"}, "stages": []}', [":1:13: version: must be '1.0.0'"]),
    ('{"hook": {"path": "/x"}, "stages": []}', [":1:1: version is missing", ":1:10: hook must be a string"]),
    ('{"hook": "/x", "stage": [], "stages": []}', [":1:1: cannot have both stages and stage"]),
    ('{"hook": "/x"}', [":1:1: stages are missing"]),
    ('{"hook": "/bin/true", "stages": [],\n"cmds": ["("]}', [":2:10: "]),
    (
        '{"version": "1.0.0", "hook": {"path": "/none/x", "evn": []},\n"stages": ["prestart"],\n'
        '"when": {"annotations": {"a[": "b("},\n"commands": ["ok", "("]}}',
        [
            ": its program /none/x is not there",
            ":1:57: hook.evn is unknown and ignored; did you mean 'env'?",
            ":3:32: when.annotations.a[: the pattern 'a[': ",
            ":3:32: when.annotations.a[: the pattern 'b(': ",
            ":4:20: when.commands[1]: the pattern '(': ",
        ],
    ),
    (
        '{"hook": "/bin/true", "stages": ["prestart", "precreate"],\n"annotations": ["ok", "*", "("]}',
        [
            ":1:46: stages[1]: the stage 'precreate' is not enabled (hooks.precreate: true enables it)",
            ":2:23: annotations[1]: the pattern 'ok|*|(': ",
            ":2:28: annotations[2]: the pattern 'ok|*|(': ",
        ],
    ),
    ("[]", [":1:1: must be an object, not an array"]),
    ('{"version": "0.1.0"}', [":1:1: hook is missing", ":1:1: stages are missing"]),
    ("{}", [":1:1: hook is missing", ":1:1: stages are missing"]),
]


@pytest.mark.parametrize(("text", "faults"), FAULTS, ids=lambda value: str(value)[:40])
def test_every_fault_of_an_unusable_hook_has_its_line_and_column(node: Node, text: str, faults: list[str]) -> None:
    node.write("one/x.json", text)
    found = node.problems()
    assert "note one/x.json: not used" in node()
    assert len(found) == len(faults)
    pairs = zip(sorted(found), sorted(faults), strict=True)
    assert all(line.startswith(f"one/x.json{fault}") for line, fault in pairs), found


def test_what_works_but_does_not_do_what_it_seems_to_is_a_problem_of_a_hook_that_is_used(node: Node) -> None:
    hook = {"path": "/bin/true", "env": ["HOME"]}
    node.write("one/x.json", HOOK | {"hook": hook, "when": {"always": True, "hasBindMount": True}})
    assert [line.split(": ", 1)[1] for line in node.problems()] == [
        "hook.env[0]: must be KEY=VALUE",
        "when.hasBindMount is unknown and ignored; did you mean 'hasBindMounts'?",
    ]
    assert "ok one/x.json: createRuntime: /bin/true" in node()


def test_comments_are_left_alone_beside_what_is_unknown(node: Node) -> None:
    node.write("one/x.json", HOOK | {"//": "a comment", "_why": 1, "$schema": "x", "comment": "unknown"})
    (problem,) = node.problems()
    assert "comment is unknown" in problem


def test_keys_in_another_case_are_noted_and_not_called_missing(node: Node) -> None:
    node.write("one/x.json", '{"Version": "1.0.0", "HOOK": {"Path": "/bin/true"}, "stages": [], "when": {}}')
    assert node.problems() == []
    assert "note one/x.json:1:13: Version is read as 'version', but not by everybody" in node()


def test_a_masked_file_is_named_with_the_one_that_masks_it(node: Node) -> None:
    node.write("one/x.json", HOOK)
    node.write("two/x.json", HOOK)
    lines = node()
    assert "note one/x.json: masked by two/x.json" in lines
    assert "ok one: 1 file, 0 hooks in force" in lines
    assert node.code == 0


def test_files_that_mask_on_purpose_are_no_problem(node: Node) -> None:
    for name in ("x", "y"):
        node.write(f"one/{name}.json", HOOK)
    os.utime(node.write("two/x.json", ""), ns=(0, 0))
    (node.folder / "two/y.json").symlink_to("/dev/null")
    lines = node()
    assert "ok two/x.json: empty: masks files of its name in the directories before" in lines
    assert "ok two/y.json: a link to /dev/null: masks files of its name in the directories before" in lines
    assert [line for line in lines if "one/" in line] == [
        "note one/x.json: masked by two/x.json",
        "note one/y.json: masked by two/y.json",
    ]
    assert node.code == 0


def test_a_hook_without_its_program_is_a_problem(node: Node) -> None:
    node.write("one/x.json", HOOK | {"hook": {"path": "/no/such/program"}})
    (problem,) = node.problems()
    assert problem.startswith("one/x.json: not used: ")
    assert "/no/such/program" in problem


def test_a_program_that_is_there_but_cannot_be_started_is_a_problem(node: Node) -> None:
    node.write("one/x.json", HOOK | {"hook": {"path": str(node.write("bin/data", ""))}})
    assert node.problems() == ["one/x.json: not used: its program bin/data: not an executable file"]


def test_programs_of_hooks_are_looked_for_where_the_node_is(node: Node) -> None:
    program_file = node.folder / "host/only/there"
    program_file.parent.mkdir(parents=True)
    program_file.write_bytes(b"\x7fELF")
    program_file.chmod(0o755)
    node.write("one/x.json", HOOK | {"hook": {"path": "/only/there"}})
    node.settings["hostRoot"] = str(node.folder / "host")
    assert node.problems() == []


def test_a_directory_that_is_none_and_files_that_are_none_are_problems(node: Node) -> None:
    (node.folder / "two").rmdir()
    node.write("two", "")
    (node.folder / "one/x.json").mkdir()
    (node.folder / "one/gone.json").symlink_to("nowhere")
    problems = node.problems()
    assert any(line.startswith("one/x.json: ") for line in problems)
    assert any(line.startswith("two: ") for line in problems)
    assert len([line for line in problems if line.startswith("one/x.json: ")]) == 1


def test_other_files_of_the_directory_are_not_looked_at(node: Node) -> None:
    for name in ("x.JSON", "x.json.bak", "README"):
        node.write(f"one/{name}", "{")
    assert node.problems() == []
    assert [line for line in node() if line.startswith("note one/")] == [
        "note one/x.JSON: not a hook file: its name does not end in .json"
    ]


def test_hooks_that_are_switched_off_are_not_looked_at(node: Node) -> None:
    node.settings["hooks"]["enabled"] = False
    node.write("one/x.json", "{")
    lines = node()
    assert lines[lines.index("hooks") + 1 : lines.index("runtime")] == ["note switched off (hooks.enabled)"]
    node.write("one/x.json", HOOK)
    assert node.caveats() == []
    assert node.code == 0


def test_hooks_that_no_container_gets_are_noted(node: Node) -> None:
    node.write("one/a.json", HOOK | {"when": {}})
    node.write("one/b.json", HOOK | {"stages": []})
    node.write("one/c.json", HOOK | {"stages": ["prestart", "createRuntime"]})
    notes = [line for line in node() if line.startswith("note one/")]
    assert notes == [
        "note one/a.json: no container gets this hook: its conditions never hold",
        "note one/b.json: no container gets this hook: it has no stages",
        "note one/c.json: injected twice: prestart and createRuntime are the same stage",
    ]


@pytest.mark.parametrize(
    ("when", "never"),
    [
        (When(), True),
        (When(always=True), False),
        (When(always=False), True),
        (When(always=False, commands=("x",)), True),
        (When(has_bind_mounts=False, always=True), True),
        (When(commands=("x",)), False),
        (When(annotations=(("", ""),)), False),
        (When(any_of=True), True),
        (When(any_of=True, has_bind_mounts=False), True),
        (When(any_of=True, has_bind_mounts=False, commands=("x",)), False),
        (When(any_of=True, annotations=((".*", ""),)), False),
    ],
)
def test_conditions_that_never_hold_are_known(when: When, never: bool) -> None:
    assert hook_files.never(when) is never


def test_a_name_with_what_a_terminal_obeys_is_shown_harmlessly(node: Node) -> None:
    node.write("one/\033[2J.json", "{")
    node()
    assert "\033" not in node.out
    assert "\\x1b[2J.json" in node.out


def test_a_name_that_is_no_text_is_shown_as_far_as_it_is(node: Node) -> None:
    Path(os.fsdecode(os.fsencode(node.folder / "one") + b"/\xff.json")).write_text(json.dumps(HOOK))
    assert node()[6:8] == ["ok one: 1 file, 1 hook in force", "ok one/\\udcff.json: createRuntime: /bin/true"]
    assert node.code == 0


def test_a_program_that_only_its_owner_may_start_can_be_started(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"\x7fELF")
    file.chmod(stat.S_IXUSR | stat.S_IRUSR)
    assert program.fault(str(file)) == ""


@pytest.mark.parametrize(
    ("line", "interpreter"),
    [("#!", ""), ("#! ", ""), ("#!\n", ""), ("#!/nowhere", "/nowhere"), ("#! \t/bin/sh\r\n", "/bin/sh\\r")],
)
def test_a_script_needs_its_interpreter(tmp_path: Path, line: str, interpreter: str) -> None:
    file = tmp_path / "x"
    file.write_bytes(line.encode())
    file.chmod(0o755)
    assert program.fault(str(file)) == f"needs the interpreter '{interpreter}', which is not there"


@pytest.mark.parametrize("line", ["#!/bin/sh", "#! \t/bin/sh\t-e\n", "#!/bin/sh -e x\r\n"])
def test_spaces_and_arguments_are_no_part_of_the_interpreter(tmp_path: Path, line: str) -> None:
    file = tmp_path / "x"
    file.write_bytes(line.encode())
    file.chmod(0o755)
    assert program.fault(str(file)) == ""


def test_it_tells_which_directory_takes_long(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(hook_files, "telling", lambda doing: told.append(doing) or nullcontext())  # type: ignore[func-returns-value]
    for name in ("x", "y"):
        node.write(f"one/{name}.json", HOOK)
    node()
    assert told == [f"checking 2 hook files in {node.folder}/one", f"checking 0 hook files in {node.folder}/two"]


@pytest.mark.parametrize("enabled", [False, True])
def test_precreate_hooks_are_in_order_where_they_are_enabled(node: Node, enabled: bool) -> None:
    node.settings["hooks"]["precreate"] = enabled
    node.write("one/edit.json", HOOK | {"stages": ["precreate"]})
    problems = node.problems()
    assert ("ok one/edit.json: precreate: /bin/true" in node()) is enabled
    assert any("the stage 'precreate' is not enabled" in problem for problem in problems) is not enabled


def test_a_pattern_whose_program_is_large_is_named_with_its_place(node: Node) -> None:
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
