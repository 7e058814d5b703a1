"""The configuration file that is installed: every key, commented out, with its default."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from adapter import settings
from adapter.cli.install import example
from adapter.settings import Settings, parse

LINES = example.text().removeprefix(example.HEADER).strip().splitlines()


def keys(schema: Mapping[str, Any]) -> Iterator[str]:
    for name, key in schema.items():
        if name != "*":
            yield name
            yield from keys(key) if isinstance(key, dict) else ()


def test_as_it_is_written_it_sets_nothing_and_without_the_marks_every_key_to_its_default() -> None:
    assert parse(example.text(), "") == (Settings(), [])
    assert [f"#{line}" for line in example.reference().splitlines()] == LINES
    default = Settings(state_directory=settings.state_directory(Settings(), "v010-adapter"))
    assert parse(example.reference(), "") == (default, [])


def test_it_has_every_key_and_an_explanation_of_each() -> None:
    assert [line.split(":")[0].strip("# ") for line in LINES] == list(keys(settings.SCHEMA))
    assert all(line.endswith(":") or len(line.partition(" # ")[2]) > 3 for line in LINES)
    assert max(map(len, LINES)) < 120


def test_the_defaults_of_a_plugins_own_keys_are_those_of_all_plugins_or_stand_for_none() -> None:
    of_all, of_one = settings.SCHEMA["legacy"], settings.SCHEMA["legacy"]["plugins"]["*"]
    assert {name: key for name, key in of_one.items() if name in of_all} == {
        name: of_all[name] for name in of_one.keys() - {"events"}
    }


def test_a_file_is_an_installations_until_a_key_is_set() -> None:
    assert example.is_ours(example.text())
    assert example.is_ours(example.text().replace("#trust: strict", "#trust: loose"))  # another version's
    assert not example.is_ours(example.text().replace("#trust: strict", "trust: strict"))
    assert not example.is_ours("# mine\n")
