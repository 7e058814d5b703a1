"""The configuration file that `install` writes: every key with its default and its meaning, commented out.

On a node without a list of legacy plugins, the file names a list of the adapter's own, which is written, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from v010_adapter.settings import DEFAULT_CONF_JSON, RELOADED, SCHEMA, parse

HEADER = """\
# The configuration of v010-adapter: YAML, every key is optional. The values here are the defaults.
# To change one, remove the `#` before the key and before the name of its section. `v010-adapter check` finds mistakes.
# A change of a key with (restart) is in force when the adapter has restarted, of the others also after SIGHUP.
"""
LIST = "/etc/nri/v010-adapter.json"
"""The list of the adapter's own."""
EMPTY_LIST = '{"version": "0.1", "plugins": []}\n'
OWN_LIST = f"""\
# The list is the adapter's own: containerd 2.0 to 2.4 run the plugins of {DEFAULT_CONF_JSON} for pods themselves.
legacy:
  config: {LIST}
"""
"""What the file says in place of the two commented lines, if it names that list."""
_DEFAULT_LIST = re.compile("^#legacy:\n#  config: .*\n", re.MULTILINE)
COLUMN = 36
RESTART = " (restart)"
BY = {"plugins": "by type", "files": "by name"}
"""What the keys of a mapping of settings are."""


def text(*, own_list: bool = False) -> str:
    whole = HEADER + "\n" + "".join(f"#{line}\n" for line in reference().splitlines())
    return _DEFAULT_LIST.sub(OWN_LIST, whole) if own_list else whole


def names_own_list(content: str) -> bool:
    """Whether a configuration file names the list of the adapter's own."""
    return parse(content, "")[0].legacy.config == LIST


def reference() -> str:
    """Returns the keys with their defaults, for the documentation."""
    return "".join(f"{line}\n" for line in _lines(SCHEMA, "", RESTART))


def is_ours(content: str) -> bool:
    """Whether a version of `install` has written this file, and no administrator has set a key in it."""
    lines = [line for line in content.splitlines() if line[:1] not in ("", "#")]
    return content.startswith(HEADER.partition(":")[0]) and lines in ([], OWN_LIST.splitlines()[1:])


def _lines(schema: Mapping[str, Any], indent: str, mark: str) -> Iterator[str]:
    for name, key in schema.items():
        if not isinstance(key, dict):
            yield f"{f'{indent}{name}: {key.default} ':{COLUMN}}# {key.text}{mark}"
        elif "*" in key:
            yield f"{f'{indent}{name}: {{}} ':{COLUMN}}# {BY[name]}: {', '.join(key['*'])}{mark}"
        else:
            yield f"{indent}{name}:"
            yield from _lines(key, f"{indent}  ", "" if name in RELOADED else mark)
