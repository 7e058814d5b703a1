"""The Ansible role in examples/ gives the commands only flags that they have, and only variables that it defines."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import yaml

from adapter.cli.commands import COMMANDS

ROLE = Path(__file__).parents[1] / "examples/ansible/roles/v010_adapter"
TASKS = (ROLE / "tasks/main.yml").read_text()


def test_the_role_gives_each_command_flags_that_it_has() -> None:
    calls = re.findall(r"bin/v010-adapter\"?'?,? '?(\w+)(.*?)(?:\n {2}\w|\Z)", TASKS, re.DOTALL)
    used = {name: set(re.findall(r"(?<![\w-])-[a-z][a-z-]*", rest)) for name, rest in calls}
    assert used == {
        "simulate": {"-conf"},
        "install": {"-o", "-root", "-idx", "-external", "-dry-run"},
        "status": {"-wait"},
    }
    for name, flags in used.items():
        assert flags <= set(re.findall(r"-[a-z-]+", import_module(COMMANDS[name].module).parser().format_help())), name


def test_the_role_uses_only_variables_that_it_defines() -> None:
    defined = set(yaml.safe_load((ROLE / "defaults/main.yml").read_text()))
    used = {name for file in ROLE.glob("*/main.yml") for name in re.findall(r"\bv010_adapter_\w+", file.read_text())}
    registered = {task["register"] for task in yaml.safe_load(TASKS) if "register" in task}
    assert used == defined | registered
