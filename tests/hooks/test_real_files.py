"""Hook files that other projects install: which containers get the hooks, and what `check` says of the templates."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adapter.cli.check import faults
from adapter.hooks.match import Matcher, NamedHook
from adapter.hooks.model import parse
from tests.hooks.real_files import CONTAINERS, FILES, installed


@pytest.mark.parametrize(("content", "letters", "placeholders"), FILES.values(), ids=FILES)
def test_a_file_of_another_project(content: dict[str, Any], letters: str, placeholders: list[str]) -> None:
    text = json.dumps(installed(content)).encode()
    matcher = Matcher([NamedHook("x.json", "", parse(text, precreate=True))])
    assert "".join(letter for letter, facts in CONTAINERS.items() if matcher.match(facts)) == letters
    assert [entry for entry in faults.find(text, "x.json") if "version is missing" not in entry.message] == []
    found = faults.placeholders(json.dumps(content).encode(), "x.json")
    assert [entry.message.split()[1] for entry in found] == placeholders
