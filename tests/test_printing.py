"""What the commands print of hostile names and texts in a locale of ASCII only: escapes that neither move a cursor,
colour a terminal nor forge a line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).with_name("v010-adapter")
ASCII = {"PATH": os.defpath, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
EVIL = "é\x1b[2J\x1b]0;title\x07\nv010-adapter: all is well\r\x9b31m\u2028\u202e漢"
CONTAINERS = [{"name": EVIL, "command": [EVIL], "env": [{"name": EVIL, "value": EVIL}]}, {"name": f"{EVIL}2"}]
METADATA = {"name": EVIL, "namespace": EVIL, "annotations": {EVIL: EVIL}}
HOOK = {
    "version": "1.0.0",
    "hook": {"path": "/bin/true"},
    "when": {"annotations": {EVIL: "字"}},
    "stages": ["poststop"],
}

MATCH, SIMULATE = "hooks match", "simulate -plugin 10-true=/bin/true"


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A folder with such a path, and with files of such names and texts."""
    folder = tmp_path / EVIL
    own = {"legacy": {"config": f"{folder}/conf.json", "path": [str(folder)]}, "hooks": {"directories": [str(folder)]}}
    folder.mkdir()
    for name, content in {
        "pod.yaml": {"apiVersion": "v1", "kind": "Pod", "metadata": METADATA, "spec": {"containers": CONTAINERS}},
        f"container{EVIL}": {EVIL: EVIL, "id": [EVIL], "ociVersion": EVIL, "linux": EVIL},
        f"{EVIL}.json": HOOK,
        "bad.json": {"version": EVIL, "hook": {"path": f"/{EVIL}"}, EVIL: EVIL},
        "conf.json": {"plugins": [{"type": EVIL}, {"type": f"not {EVIL}"}]},
        "own.yaml": own,
        "bad.yaml": {EVIL: 1, "log": {"level": EVIL}, "legacy": {"config": f"/{EVIL}"}},
        "events": {"event": EVIL, "pod": {"id": EVIL}},
    }.items():
        is_yaml = name.endswith("yaml")
        text = "# 字\n" * is_yaml + json.dumps(content, ensure_ascii=is_yaml)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / EVIL).write_text("#!/bin/sh\n")
    (folder / EVIL).chmod(0o755)
    return folder


def printed(node: Path, *words: str, **environment: str) -> tuple[int, str]:
    """Returns the exit code, and all that a command prints, each line of which is as it should be."""
    done = subprocess.run(
        [COMMAND, *words], cwd=node, env={**ASCII, **environment}, capture_output=True, check=False, timeout=120
    )
    text = (done.stdout + done.stderr).decode("ascii")
    assert "Traceback" not in text
    for line in text.split("\n"):
        assert line.isprintable(), ascii(line)
        assert line != "v010-adapter: all is well"
    return done.returncode, text


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("check -config own.yaml", 1),
        ("check -config own.yaml -o json", 1),
        ("check -config bad.yaml", 1),
        ("check EVIL", 2),
        ("-config bad.yaml", 2),
        ("-once -socket /EVIL", 1),
        ("EVIL", 2),
        ("status -directory noEVIL", 3),
        ("status -o EVIL", 2),
        *(
            (f"{command} -container {file}", 2)
            for command in (MATCH, SIMULATE)
            for file in ("pod.yaml", "noEVIL", "containerEVIL")
        ),
        (f"{MATCH} -container pod.yaml -name EVIL", 0),
        ("hooks match -config own.yaml -container pod.yaml -name EVIL -o json", 1),
        (f"{SIMULATE} -events events", 2),
        ("simulate -plugin 10-EVIL=EVIL -events events", 2),
    ],
)
def test_what_is_hostile_is_escaped(words: str, code: int, node: Path) -> None:
    ended, text = printed(node, *(word.replace("EVIL", EVIL) for word in words.split()))
    assert ended == code, text
    assert (r"\u00e9\u001b[2J" if "json" in words.split()[-1:] else r"\xe9\x1b[2J") in text


def test_the_demo_and_help_work(node: Path) -> None:
    assert (printed(node, "demo")[0], printed(node, "-h")[0]) == (0, 0)


def test_a_terminal_without_letters_needs_no_locale(node: Path) -> None:
    """Python's own setting for stdout counts, too."""
    assert r"\xe9" in printed(node, "check", "-config", "own.yaml", LC_ALL="C.UTF-8", PYTHONIOENCODING="ascii")[1]
