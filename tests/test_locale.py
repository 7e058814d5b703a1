"""A locale that has ASCII only: every command works, and shows other letters as escapes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).with_name("v010-adapter")
ASCII = {"PATH": os.defpath, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: pä, annotations: {ключ: 漢字}}
spec: {containers: [{name: cé, image: i, command: [/bin/é]}]}
"""
HOOK = {
    "version": "1.0.0",
    "hook": {"path": "/bin/true"},
    "when": {"annotations": {"ключ": "字"}},
    "stages": ["poststop"],
}


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A folder with a configuration whose names and texts have all kinds of letters."""
    folder = tmp_path / "dépôt"
    for name in ("bin", "hooks"):
        (folder / name).mkdir(parents=True)
    plugin = folder / "bin/typé"
    plugin.write_text("#!/bin/sh\n")
    plugin.chmod(0o755)
    (folder / "pod.yaml").write_text(POD, encoding="utf-8")
    (folder / "hooks/hook.json").write_text(json.dumps(HOOK, ensure_ascii=False), encoding="utf-8")
    (folder / "conf.json").write_text('{"plugins": [{"type": "typé"}]}', encoding="utf-8")
    (folder / "own.yaml").write_text(
        f"legacy: {{config: {folder}/conf.json, path: [{folder}/bin]}}\nhooks: {{directories: [{folder}/hooks]}}\n",
        encoding="utf-8",
    )
    return folder


def ran(node: Path, *words: str, **environment: str) -> tuple[int, str]:
    done = subprocess.run(
        [COMMAND, *words], cwd=node, env={**ASCII, **environment}, capture_output=True, check=False, timeout=120
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done.returncode, (done.stdout + done.stderr).decode("ascii")


def test_check_finds_what_has_other_letters_in_its_path(node: Path) -> None:
    _, text = ran(node, "check", "-config", "own.yaml")
    assert r"typ\xe9: runs" in text
    assert r"d\xe9p\xf4t/bin/typ\xe9" in text
    assert r"d\xe9p\xf4t/hooks/hook.json: poststop: /bin/true" in text
    assert r"typ\u00e9: runs" in ran(node, "check", "-config", "own.yaml", "-o", "json")[1]


def test_every_command_escapes_other_letters(node: Path) -> None:
    for words, code, told in (
        ("hooks match -config own.yaml -container pod.yaml -o json", 0, r"\u6f22\u5b57"),
        ("simulate -plugin bin/typé -container pod.yaml", 1, r"10-typ\xe9: plugin 10-typ\xe9 failed to register"),
        ("status -directory dépôt", 3, r"state directory d\xe9p\xf4t"),
        ("status -config é.yaml", 2, r"\xe9.yaml: No such file"),
        ("-once -socket /é", 1, r"no runtime at /\xe9: No such file"),
        ("é", 2, r"\xe9: unknown command"),
    ):
        ended, text = ran(node, *words.split())
        assert (ended, told in text) == (code, True), text


def test_the_demo_and_help_work(node: Path) -> None:
    assert ran(node, "demo")[0] == 0
    assert ran(node, "-h")[0] == 0


def test_a_terminal_without_letters_needs_no_locale(node: Path) -> None:
    """Python's own setting for stdout counts, too."""
    _, text = ran(node, "check", "-config", "own.yaml", LC_ALL="C.UTF-8", PYTHONIOENCODING="ascii")
    assert r"d\xe9p\xf4t" in text
