from __future__ import annotations

from typing import Any

import pytest

from adapter.cli.simulate.difference import changes

Json = dict[str, Any]


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ({}, {}, []),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, ["- a.c 2", "+ a.c 3"]),
        ({"a": {"b": 1}}, {}, ["- a.b 1"]),
        ({"annotations": {}}, {"annotations": {"x.y/z": "1"}}, ['+ annotations[x.y/z] "1"']),
        ({"process": {"args": ["a", "b"]}}, {"process": {"args": ["a"]}},
            ['- process.args ["a", "b"]', '+ process.args ["a"]']),
        ({"env": ["A=1", "B=1"]}, {"env": ["B=1", "A=2"]}, ['- env[A] "A=1"', '+ env[A] "A=2"']),
        ({"env": ["A=1", "A=2"]}, {"env": ["A=1", "A=3"]}, ['- env[A]#2 "A=2"', '+ env[A]#2 "A=3"']),
        ({"mounts": [{"destination": "/m", "source": "a"}]}, {"mounts": []},
            ['- mounts[/m] {"destination": "/m", "source": "a"}']),
        ({"rules": [{"allow": True}]}, {"rules": [{"allow": True}, {"allow": False}]}, ['+ rules[1] {"allow": false}']),
    ],
    ids=["nothing", "changed", "gone", "dots", "args", "order", "twice", "named", "nameless"],
)  # fmt: skip
def test_changes_are_told_by_path_what_is_gone_first(before: Json, after: Json, lines: list[str]) -> None:
    assert [" ".join(change) for change in changes(before, after)] == lines
