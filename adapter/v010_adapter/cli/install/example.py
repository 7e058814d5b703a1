"""The configuration file that `install` writes: every key with its default and its meaning, commented out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from v010_adapter.settings import RELOADED, SCHEMA

HEADER = """\
# The configuration of v010-adapter: YAML, every key is optional. The values here are the defaults.
# To change one, remove the `#` before the key and before the name of its section. `v010-adapter check` finds mistakes.
# A change of a key with (restart) is in force when the adapter has restarted, of the others also after SIGHUP.
"""
COLUMN = 36
RESTART = " (restart)"
BY = {"plugins": "by type", "files": "by name"}
"""What the keys of a mapping of settings are."""


def text() -> str:
    return HEADER + "\n" + "".join(f"#{line}\n" for line in reference().splitlines())


def reference() -> str:
    """Returns the keys with their defaults, for the documentation."""
    return "".join(f"{line}\n" for line in _lines(SCHEMA, "", RESTART))


def is_ours(content: str) -> bool:
    """Whether a version of `install` has written this file, and no administrator has set a key in it."""
    return content.startswith(HEADER.partition(":")[0]) and all(line[:1] in ("", "#") for line in content.splitlines())


def _lines(schema: Mapping[str, Any], indent: str, mark: str) -> Iterator[str]:
    for name, key in schema.items():
        if not isinstance(key, dict):
            yield f"{f'{indent}{name}: {key.default} ':{COLUMN}}# {key.text}{mark}"
        elif "*" in key:
            yield f"{f'{indent}{name}: {{}} ':{COLUMN}}# {BY[name]}: {', '.join(key['*'])}{mark}"
        else:
            yield f"{indent}{name}:"
            yield from _lines(key, f"{indent}  ", "" if name in RELOADED else mark)
