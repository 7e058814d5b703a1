"""What the commands print of hostile files: nothing that moves a cursor, colours a terminal or forges a line."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest

from adapter.cli import command_line as cli

EVIL = "a\x1b[2J\x1b]0;title\x07\nv010-adapter: all is well\r\x9b31m\u2028\u202e"


def printed(capfd: pytest.CaptureFixture[str], *words: object) -> str:
    """Returns all that a command prints, each line of which is as it should be."""
    cli.main(list(map(str, words)))
    out, err = capfd.readouterr()
    for line in (out + err).split("\n"):
        assert line.isprintable(), ascii(line)
        assert line != "v010-adapter: all is well"
    return out + err


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    """A manifest that somebody has sent, with two containers of such names."""
    containers = [{"name": EVIL, "command": [EVIL], "env": [{"name": EVIL, "value": EVIL}]}, {"name": f"{EVIL}2"}]
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": EVIL, "namespace": EVIL, "annotations": {EVIL: EVIL}},
    }
    file = tmp_path / "pod.yaml"
    file.write_text(json.dumps({**manifest, "spec": {"containers": containers}}))
    return file


COMMANDS = [("hooks", "match"), ("simulate", "-plugin", "10-true=/bin/true")]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_the_containers_of_a_pod_and_a_file_that_is_none_or_is_not_there(
    command: tuple[str, ...], pod: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert r"\x1b[2J" in printed(capfd, *command, "-container", pod)
    assert printed(capfd, *command, "-container", pod, "-name", EVIL)
    evil = tmp_path / EVIL
    assert r"\x1b[2J" in printed(capfd, *command, "-container", evil)
    evil.write_text(json.dumps({EVIL: EVIL, "id": [EVIL], "ociVersion": EVIL, "linux": EVIL}))
    assert r"\x1b[2J" in printed(capfd, *command, "-container", evil)


def test_a_configuration_with_such_a_key_and_such_a_path(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / f"{EVIL}.yaml"
    config.write_text(json.dumps({EVIL: 1, "log": {"level": EVIL}, "legacy": {"config": f"/{EVIL}"}}))
    for words in ("check -config", "-config", "hooks match -container x -config"):
        assert r"\x1b[2J" in printed(capfd, *words.split(), config)


def test_the_files_that_a_check_finds(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    hooks = tmp_path / EVIL
    hooks.mkdir()
    (hooks / f"{EVIL}.json").write_text(json.dumps({"version": EVIL, "hook": {"path": f"/{EVIL}"}, EVIL: EVIL}))
    conf = tmp_path / "conf.json"
    conf.write_text(json.dumps({"plugins": [{"type": EVIL}]}))
    config = tmp_path / "own.yaml"
    config.write_text(json.dumps({"hooks": {"directories": [str(hooks)]}, "legacy": {"config": str(conf)}}))
    assert r"\x1b[2J" in printed(capfd, "check", "-config", config)


def test_what_a_recording_tells(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    recording = tmp_path / "events.jsonl"
    recording.write_text(json.dumps({"event": EVIL, "pod": {"id": EVIL}}))
    assert r"\x1b[2J" in printed(capfd, "simulate", "-plugin", "10-true=/bin/true", "-events", recording)


def test_arguments_that_a_shell_has_made_of_names_in_a_directory(capfd: pytest.CaptureFixture[str]) -> None:
    for words in (["check", EVIL], ["-once", EVIL], ["status", "-o", EVIL], [EVIL]):
        with suppress(SystemExit):
            cli.main(words)
        out, err = capfd.readouterr()
        assert r"\x1b[2J" in err
        assert all(line.isprintable() for line in (out + err).split("\n"))
        assert "v010-adapter: all is well" not in err.split("\n")
