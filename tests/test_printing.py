"""What the commands print of hostile names and texts in a locale of ASCII only: escapes, and no forged line."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from .rig.brief import few
from .rig.daemon import MEASURED, WITH_VARIABLES

ASCII = {"PATH": os.defpath, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", **MEASURED}
EVIL = "é\x1b[2J\x1b]0;title\x07\nv010-adapter: all is well\r\x9b31m\u2028\u202e漢"
CONTAINER = {"name": EVIL, "command": [EVIL], "env": [{"name": EVIL, "value": EVIL}]}
METADATA = {"name": EVIL, "namespace": EVIL, "annotations": {EVIL: EVIL}}
HOOK = {
    "version": "1.0.0",
    "hook": {"path": "/bin/true"},
    "when": {"annotations": {EVIL: "字"}},
    "stages": ["poststop"],
}


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A folder with such a path, and with files of such names and texts."""
    folder = tmp_path / EVIL
    folder.mkdir()
    for name, content in {
        "pod.yaml": {"apiVersion": "v1", "kind": "Pod", "metadata": METADATA, "spec": {"containers": [CONTAINER]}},
        f"{EVIL}.json": HOOK,
        "conf.json": {"plugins": [{"type": EVIL}]},
        "own.yaml": {"legacy": {"config": f"{folder}/conf.json"}, "hooks": {"directories": [str(folder)]}},
        "bad.yaml": {EVIL: 1, "log": {"level": EVIL}, "legacy": {"config": f"/{EVIL}"}},
        "events": {"event": EVIL, "pod": {"id": EVIL}},
    }.items():
        is_yaml = name.endswith("yaml")
        text = "# 字\n" * is_yaml + json.dumps(content, ensure_ascii=is_yaml)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.skipif(
    not __file__.isascii(), reason="Python itself cannot start in this locale: the path of the clone is no ASCII"
)
@pytest.mark.parametrize(
    ("words", "code"),
    few(
        [
            *(("check -config own.yaml", 1), ("check -config own.yaml -o json", 1), ("check EVIL", 2), ("EVIL", 2)),
            *(("-config bad.yaml", 2), ("-once -socket /EVIL", 1), ("status -directory noEVIL", 3)),
            ("hooks match -config own.yaml -container pod.yaml -o json", 1),
            ("simulate -plugin 10-EVIL=/bin/true -container pod.yaml", 2),
            ("simulate -plugin 10-true=/bin/true -events events", 2),
        ],
        3,
    ),
)
def test_what_is_hostile_is_escaped(words: str, code: int, node: Path) -> None:
    environments: list[dict[str, str]] = [{}]
    if words == "check -config own.yaml":  # Python's own setting for stdout counts, too
        environments.append({"LC_ALL": "C.UTF-8", "PYTHONIOENCODING": "ascii"})
    for environment in environments:
        command = [*WITH_VARIABLES, *(word.replace("EVIL", EVIL) for word in words.split())]
        env = {**ASCII, **environment}
        done = subprocess.run(command, cwd=node, env=env, capture_output=True, check=False)
        text = (done.stdout + done.stderr).decode("ascii")
        assert done.returncode == code, text
        assert (r"\u00e9\u001b[2J" if words.endswith("json") else r"\xe9\x1b[2J") in text
        assert all(line.isprintable() and line != "v010-adapter: all is well" for line in text.split("\n")), text
