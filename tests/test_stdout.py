"""A stdout that cannot be written: a reader that has gone is no error to tell, a full disk is one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).with_name("v010-adapter")
UNBUFFERED = {"PYTHONUNBUFFERED": "1"}
"""Python writes at each `print`, else at its end."""
# argparse prints help; unbuffered, it ignores errors.
CASES: list[tuple[str, dict[str, str]]] = [
    (words, {}) for words in ("--help", "check -h", "check -o json", "install -dry-run", "demo")
]
CASES += [("check -o json", UNBUFFERED)]


@pytest.mark.parametrize(("words", "environment"), CASES)
def test_a_reader_that_has_gone_is_not_complained_of_and_a_full_disk_is_one_line(
    words: str, environment: dict[str, str]
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    full = os.open("/dev/full", os.O_WRONLY)
    for stdout, told in ((writer, []), (full, ["v010-adapter: stdout: No space left on device"])):
        command = [str(COMMAND), *words.split()]
        env = {"PATH": os.defpath, **environment}
        done = subprocess.run(command, env=env, stdout=stdout, stderr=-1, text=True, check=False, timeout=120)
        assert done.returncode == 1
        assert [line for line in done.stderr.splitlines() if "warning:" not in line] == told
        os.close(stdout)


@pytest.mark.parametrize("words", ["check", "status -wait 0.1", "demo"])
def test_a_stream_that_the_caller_has_closed_changes_nothing_else(words: str, tmp_path: Path) -> None:
    def done(redirection: str) -> subprocess.CompletedProcess[str]:
        shell = ["/bin/sh", "-c", f'exec "$0" "$@" {redirection}', str(COMMAND), *words.split()]
        shell += ["-directory", str(tmp_path)] if words.startswith("status") else []
        return subprocess.run(shell, capture_output=True, text=True, check=False, timeout=120)

    whole, without_stdout, without_stderr = done(""), done(">&-"), done("2>&-")
    assert without_stdout.returncode == without_stderr.returncode == whole.returncode
    assert (without_stdout.stdout, without_stdout.stderr.count("\n")) == ("", whole.stderr.count("\n"))
    assert (without_stderr.stderr, without_stderr.stdout.count("\n")) == ("", whole.stdout.count("\n"))
