"""However long an annotation is that a sample reads, what it makes of it is short."""

from __future__ import annotations

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
