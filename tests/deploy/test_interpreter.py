"""Which interpreters are as slow as nobody's: the bundle is not built with one."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from deploy.interpreter import shortcoming
from tests.rig.programs import Programs

DEPLOY = Path(__file__).parents[2] / "deploy"
USED = "-fprofile-use -fprofile-correction"
WITHOUT, DEBUG = "built without --enable-optimizations", "built with --with-pydebug"


@pytest.mark.parametrize(
    ("values", "lacks"),
    [
        ({"CONFIG_ARGS": "'--prefix=/usr' '--enable-shared'", "PGO_PROF_USE_FLAG": ""}, ""),  # Debian's and Ubuntu's
        ({"CONFIG_ARGS": "'--enable-optimizations' '--with-lto'", "PGO_PROF_USE_FLAG": USED}, ""),
        ({"CONFIG_ARGS": "'--prefix=/opt' '--enable-shared'", "PGO_PROF_USE_FLAG": USED}, WITHOUT),
        ({"CONFIG_ARGS": "'--enable-optimizations'", "PGO_PROF_USE_FLAG": USED, "Py_DEBUG": 1}, DEBUG),
        ({}, WITHOUT),
    ],
)
def test_an_interpreter_that_is_built_without_a_profile_is_told(values: dict[str, Any], lacks: str) -> None:
    assert shortcoming(values) == lacks


@pytest.mark.parametrize("forced", [False, True])
def test_the_bundle_is_not_built_with_such_an_interpreter_unless_it_is_asked_for(tmp_path: Path, forced: bool) -> None:
    shutil.copytree(DEPLOY / "bundle", tmp_path / "deploy/bundle")
    script = 'echo "python $*"\ncase $1 in */interpreter.py) exit 1 ;; *) exit 7 ;; esac'
    Programs(tmp_path / ".venv/bin").shell("python", script)
    environ = {**os.environ, "UNOPTIMISED": "1" if forced else ""}
    line = [tmp_path / "deploy/bundle/build", tmp_path / "bundle.tar.gz"]
    ended = subprocess.run(line, env=environ, capture_output=True, text=True, check=False)
    assert ended.returncode == (7 if forced else 1), ended
    assert ("UNOPTIMISED=1" in ended.stderr) is not forced
