"""However long an annotation is that a sample reads, what it makes of it is short."""

from __future__ import annotations

import json
from pathlib import Path

from .plugins import Shell, event, execute, run, sample

LONG = "a" * 250_000


def test_a_zone_is_the_name_of_one(shell: Shell) -> None:
    key = "example.com/timezone"
    answer = execute("timezone", event({key: LONG}), **shell)
    answer.is_error("timezone", f"annotation {key} has {len(LONG)} characters, at most 100")
    execute("timezone", event({key: "-a"}), **shell).is_error(
        "timezone", f"annotation {key} is not the name of a time zone"
    )


def test_a_line_of_the_log_has_the_beginning_of_each_name() -> None:
    request = sample("create-container")
    for name in ("sandbox-name", "sandbox-namespace", "container-name", "image-name"):
        request["spec"]["annotations"][f"io.kubernetes.cri.{name}"] = LONG
    line = run("logger", request).stderr
    assert line.count("a" * 512) == 4
    assert len(line) < 2300


def test_a_run_of_backslashes_is_passed_over_as_any_other_text(shell: Shell, tmp_path: Path) -> None:
    """An expression that looks for their end from each of them takes hours."""
    request = event({"key": "\\" * 250_000 + "x"}) | {"conf": {"directory": str(tmp_path)}}
    execute("dump", request, **shell)
    [file] = tmp_path.glob("*.json")
    assert json.loads(file.read_bytes()) == request
