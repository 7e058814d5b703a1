"""The commands as a whole: help names them all, and what they have in common means the same in each."""

from __future__ import annotations

import platform
import subprocess
import sys
from argparse import ArgumentParser
from importlib import import_module
from pathlib import Path

import pytest

from adapter import __version__, cli
from adapter.commands import COMMANDS, overview
from adapter.nri.stub import NRI_VERSION

COMMAND = Path(sys.executable).with_name("v010-adapter")


def parser(name: str) -> ArgumentParser:
    made = import_module(COMMANDS[name].module).parser()
    assert isinstance(made, ArgumentParser)
    return made


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What the command prints on stdout before it ends with 0."""
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("dash", ["-h", "--help"])
def test_help_has_one_line_for_each_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, dash: str
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    lines = [line.split(maxsplit=1) for line in said(capsys, dash).splitlines()]
    for name, command in COMMANDS.items():
        assert lines.count([name, command.line]) == 1


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("dash", ["-h", "--help"])
def test_each_command_explains_itself(capsys: pytest.CaptureFixture[str], name: str, dash: str) -> None:
    text = said(capsys, name, dash)
    assert text.startswith(f"usage: v010-adapter {name} ")
    assert "-h, --help" in text


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_is_as_wide_as_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    narrow = said(capsys, *name.split(), "-h")
    assert max(map(len, narrow.splitlines())) <= 80
    monkeypatch.setenv("COLUMNS", "200")
    assert len(said(capsys, *name.split(), "-h").splitlines()) <= len(narrow.splitlines())


@pytest.mark.parametrize("dash", ["-", "--"])
def test_the_version_is_that_of_the_adapter_of_python_and_of_nri(capsys: pytest.CaptureFixture[str], dash: str) -> None:
    expected = f"v010-adapter {__version__}, Python {platform.python_version()}, NRI {NRI_VERSION}\n"
    assert said(capsys, f"{dash}version") == expected


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("chek", "chek: unknown command; did you mean `check`?"),
        ("simulat", "simulat: unknown command; did you mean `simulate`?"),
        ("frob", f"frob: unknown command; known: {', '.join(COMMANDS)}"),
        ("\x1b", f"\\x1b: unknown command; known: {', '.join(COMMANDS)}"),
    ],
)
def test_an_unknown_command_is_one_line_with_the_nearest(
    capsys: pytest.CaptureFixture[str], word: str, told: str
) -> None:
    assert cli.main([word, "-h"]) == cli.USAGE == 2
    assert capsys.readouterr() == ("", f"v010-adapter: {told}\n")


def test_the_same_flag_means_the_same_in_every_command() -> None:
    flags: dict[str, set[tuple[object, ...]]] = {"-o": set(), "-v": set()}
    for name in COMMANDS:
        for action in parser(name)._actions:
            if {"-o", "--output", "-v", "--verbose"}.intersection(action.option_strings):
                choices = tuple(action.choices or ())
                told = (tuple(action.option_strings), type(action), action.dest, choices, action.help)
                flags[action.option_strings[0]].add(told)
    assert {first: len(kinds) for first, kinds in flags.items()} == {"-o": 1, "-v": 1}


@pytest.mark.parametrize("name", ["check", "hooks", "simulate", "status"])
def test_what_reports_has_json(name: str) -> None:
    assert "--output" in parser(name).format_help()


@pytest.mark.parametrize("flag", ["-o", "-output", "--output"])
def test_the_format_of_the_output_can_be_asked_for(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, flag: str
) -> None:
    assert cli.main(["status", "-directory", str(tmp_path), flag, "json"]) == 3
    assert capsys.readouterr().out.startswith("{")


def test_the_whole_command_line_takes_what_each_command_takes() -> None:
    whole = overview(in_full=True)
    assert vars(whole.parse_args(["check", "-o", "json"]))["output"] == "json"
    assert vars(whole.parse_args(["demo", "-v"]))["verbose"] is True


def test_help_of_the_daemon_loads_no_other_command() -> None:
    """It is what somebody sees first."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", COMMAND, "-h"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0
    assert "adapter.commands" in done.stderr
    assert not any(module in done.stderr for module in ("commands.check", "adapter.runtime", "shtab", "jsonschema"))
