"""A stdout that cannot be written: a reader that has gone is no error to tell, a full disk is one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).with_name("v010-adapter")
BUFFERED: dict[str, str] = {}
UNBUFFERED = {"PYTHONUNBUFFERED": "1"}
"""Python writes at its end, or at each `print`."""
HELP = ["--help", "check -h"]  # which argparse prints; unbuffered, it ignores errors
REPORTS = ["check -o json", "install -dry-run", "demo"]
CASES = [(words, BUFFERED) for words in (*HELP, *REPORTS)] + [(words, UNBUFFERED) for words in REPORTS[:1]]


def told(stdout: int, words: str, environment: dict[str, str]) -> tuple[int, list[str]]:
    """Returns the exit code of a command with this stdout, and what it says on stderr but for warnings."""
    done = subprocess.run(
        [COMMAND, *words.split()],
        env={"PATH": os.defpath, **environment},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, [line for line in done.stderr.splitlines() if "warning:" not in line]


@pytest.mark.parametrize(("words", "environment"), CASES)
def test_a_reader_that_has_gone_is_not_complained_of(words: str, environment: dict[str, str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    assert told(writer, words, environment) == (1, [])
    os.close(writer)


@pytest.mark.parametrize(("words", "environment"), CASES)
def test_a_full_disk_is_one_line(words: str, environment: dict[str, str]) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    assert told(full, words, environment) == (1, ["v010-adapter: stdout: No space left on device"])
    os.close(full)


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
