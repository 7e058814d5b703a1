"""What the command makes of its arguments, and the exit codes that it ends with."""

from __future__ import annotations

import errno
import gc
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import nri
from nri import Identity
from nri.errors import NRIError, RegistrationError
from nri.stub import NRI_VERSION
from v010_adapter import __version__, settings
from v010_adapter.cli import command_line as cli
from v010_adapter.cli import version
from v010_adapter.cli.arguments import COMMANDS
from v010_adapter.daemon import daemon, process_setup
from v010_adapter.daemon.daemon import Origin
from v010_adapter.errors import ConfigError
from v010_adapter.settings import Settings

from .rig.daemon import COMMAND


class Runs:
    """What the command would have run."""

    settings = Settings()
    errors: Sequence[ConfigError] = ()
    who = Identity("", "")
    socket: str | None = None
    """The path that a connection was asked for with, None if none was."""
    exit_code = 0

    def connect(self, path: str = "", environ: Any = None) -> int:
        self.socket = path
        return 99

    def daemon(self, own: Settings, errors: list[ConfigError], who: Identity, reread: Any, origin: Origin) -> Runs:
        self.settings, self.errors, self.who, self.reread, self.origin = own, errors, who, reread, origin
        return self

    def run(self, trunk: int | None) -> int:
        assert (trunk or (self.origin.connect and self.origin.connect())) == 99
        return self.exit_code


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Runs]:
    made = Runs()
    monkeypatch.setattr(nri, "connect", made.connect)
    monkeypatch.setattr(process_setup, "prepare", lambda own, errors: None)
    monkeypatch.setattr(daemon, "Daemon", made.daemon)
    monkeypatch.setattr(settings, "DEFAULT_PATH", str(tmp_path / "default.yaml"))
    monkeypatch.setattr(sys, "argv", ["/opt/nri/plugins/10-file"])
    for name in ("NRI_PLUGIN_NAME", "NRI_PLUGIN_IDX", "NRI_PLUGIN_SOCKET"):
        monkeypatch.delenv(name, raising=False)
    yield made
    gc.enable()  # the command turns it off for its start


@pytest.fixture
def launched(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a plugin that a runtime launched."""
    for name, value in (("NAME", "env"), ("IDX", "42"), ("SOCKET", "3")):
        monkeypatch.setenv(f"NRI_PLUGIN_{name}", value)


# ---- run


def test_without_arguments_its_file_names_it_at_the_default_socket(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    for words in ([], ["run"]):
        assert cli.main(words) == 0
        assert (runs.who, runs.socket) == (Identity("file", "10"), "/var/run/nri/nri.sock")
        assert (runs.settings, runs.errors) == (Settings(), [])
    monkeypatch.setattr(sys, "argv", ["10-file", "-idx", "33"])
    runs.exit_code = 7
    assert cli.main() == 7, "the daemon's exit code"
    assert runs.who == Identity("file", "33"), "the arguments of the process"


@pytest.mark.usefixtures("launched")
def test_a_launched_plugin_is_what_its_environment_says_unless_it_is_asked_for_more(runs: Runs) -> None:
    assert cli.main([]) == 0
    assert (runs.who, runs.socket) == (Identity("env", "42"), "")
    assert cli.main(["-idx", "33", "-socket", "/run/nri.sock"]) == 0
    assert (runs.who, runs.socket) == (Identity("env", "33"), "/run/nri.sock")


def test_flags_are_taken_as_go_takes_them(runs: Runs) -> None:
    for run, dash, socket, equals in product(([], ["run"]), ("-", "--"), ("socket", "socket-path"), "= "):
        given = {"idx": "33", "name": "mine", socket: "/run/nri.sock"}
        words = " ".join(f"{dash}{flag}{equals}{value}" for flag, value in given.items())
        assert cli.main([*run, *words.split()]) == 0
        assert (runs.who, runs.socket) == (Identity("mine", "33"), "/run/nri.sock"), words


def test_the_configuration_is_the_file_that_is_given_or_the_default_and_flags_change_what_they_say_alone(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, level in (("default", "error"), ("other", "warning")):
        Path(f"{name}.yaml").write_text(f"log: {{level: {level}, format: json}}\n")
    for words, level, watch in (
        ([], "error", True),
        (["-config", "other.yaml"], "warning", True),
        (["-disableWatch"], "error", False),
        *(([flag], "debug", True) for flag in ("-v", "-verbose", "--verbose")),
    ):
        assert cli.main(words) == 0
        assert runs.settings.log._asdict() == {"level": level, "format": "json", "target": "auto", "secrets": False} | {
            "runs": False
        }
        assert runs.settings.hooks.watch is watch
    assert cli.main(["-config", "other.yaml", "-verbose"]) == 0
    Path("other.yaml").write_text("log: {level: error}\n")
    monkeypatch.chdir("/")
    again, errors = runs.reread()
    assert (again.log.level, again.log.format, errors) == ("debug", "text", []), "read again with the flags"


def test_switches_take_the_values_that_go_takes(runs: Runs) -> None:
    for words, is_on in (("1 t T TRUE true True", True), ("0 f F FALSE false False", False)):
        for dash, word in product(("-", "--"), words.split()):
            for earlier in ([], [f"{dash}disableWatch={not is_on}", f"{dash}verbose={not is_on}"]):
                assert cli.main([*earlier, f"{dash}disableWatch={word}", f"{dash}verbose={word}"]) == 0
                assert runs.settings.hooks.watch is not is_on
                assert (runs.settings.log.level == "debug") is is_on
    for wrong in ("-verbose=", "-verbose=yes", "-disableWatch=tRUE", "-socket=true=1 x"):
        with pytest.raises(SystemExit):
            cli.main(wrong.split())


def test_it_lingers_for_a_number_of_seconds_if_it_is_told_to(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    for words, seconds in (([], 0), (["-linger", "0"], 0), (["-linger", "18"], 18), (["--linger=0.5"], 0.5)):
        assert cli.main(words) == 0
        assert runs.origin.linger == seconds
    with pytest.raises(SystemExit):
        cli.main(["-linger", "-1"])
    assert "'-1' is not a number of seconds" in capsys.readouterr().err


# ---- what goes wrong


WRONG = "one: 1\ntwo: 2\nlog: {level: debug}\n"


def test_each_mistake_in_the_configuration_is_a_line_and_exit_code_2_before_anything_is_connected(
    runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "default.yaml").write_text(WRONG)
    assert cli.main([]) == cli.USAGE == 2
    told = [line.partition(": unknown key")[0] for line in capsys.readouterr().err.splitlines()]
    assert told == [f"v010-adapter: {tmp_path}/default.yaml:{place}" for place in ("1: one", "2: two")]
    assert runs.socket is None


@pytest.mark.usefixtures("launched")
def test_a_launched_daemon_runs_with_mistakes(runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "default.yaml").write_text(WRONG)
    assert cli.main([]) == 0
    assert [error.place for error in runs.errors] == [f"{tmp_path}/default.yaml:{line}" for line in (1, 2)]
    assert runs.settings.log.level == "debug"
    assert capsys.readouterr().err == ""


def test_an_expected_error_is_one_line_and_a_bug_is_not_passed_off_as_one(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = {ConfigError("a.yaml:1", "wrong"): 2, RegistrationError("no runtime at x"): 1, NRIError("else"): 1}
    for error, exit_code in expected.items():
        monkeypatch.setattr(process_setup, "prepare", Mock(side_effect=error))
        assert cli.main([]) == exit_code
        assert capsys.readouterr().err == f"v010-adapter: {error}\n"
    monkeypatch.setattr(process_setup, "prepare", Mock(side_effect=KeyError("oops")))
    with pytest.raises(KeyError):
        cli.main([])
    monkeypatch.setattr(version, "main", Mock(side_effect=OSError(errno.EMFILE, "too many")))
    with pytest.raises(OSError, match="too many"):
        cli.main(["version"])


def test_unknown_arguments_are_named_with_exit_code_2(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ("-unknown", "--unknown x", "run frobnicate", "-idx", "-sock /run/nri.sock", "--verb", "-verbose=maybe")
    for words in wrong:
        with pytest.raises(SystemExit) as caught:
            cli.main(words.split())
        assert caught.value.code == 2
        assert words.removeprefix("run ").split()[0].split("=")[0] in capsys.readouterr().err.splitlines()[-1]
    for idx in ("1", "123", "x1"):
        assert cli.main(["-idx", idx, "-socket", "/run/nri.sock"]) == 2
        assert f"-idx: plugin index {idx!r}: two digits" in capsys.readouterr().err
    assert runs.socket is None


# ---- as a process


LAUNCHED = {"NRI_PLUGIN_SOCKET": "0"}
NEEDLESS = """argparse asyncio jsonschema multiprocessing prometheus_client re2 socket subprocess yaml nri.testing
v010_adapter.cli.arguments difflib platform shtab"""
OTHERS = "v010_adapter.cli.check v010_adapter.cli.simulate nri.testing shtab jsonschema"


@pytest.mark.parametrize(
    ("words", "environ", "needed", "needless"),
    [([], LAUNCHED, "nri.stub", NEEDLESS), (["-h"], {}, "v010_adapter.cli.arguments", OTHERS)],
)
def test_a_daemon_that_a_runtime_waits_for_and_help_load_nothing_that_they_do_not_need(
    words: list[str], environ: dict[str, str], needed: str, needless: str
) -> None:
    """Exec to registered is what a node's start takes longer by; help is what somebody sees first."""
    env = {**environ, "PYTHONPROFILEIMPORTTIME": "1", "PATH": os.defpath}
    done = subprocess.run(
        [sys.executable, COMMAND, *words],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert needed in loaded
    assert loaded & {*needless.split()} == set()


# ---- the commands as a whole


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What the command prints on stdout before it ends with 0."""
    try:
        assert cli.main(words) == 0
    except SystemExit as ended:
        assert ended.code == 0  # noqa: PT017 - argparse's own help ends so
    return capsys.readouterr().out


def test_help_has_one_line_for_each_command_and_each_explains_itself_as_wide_as_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    text = said(capsys, "--help")
    lines = [line.split(maxsplit=1) for line in text.splitlines()]
    for flag in ("-idx", "-name", "-socket", "-socket-path", "-config", "-v", "-verbose", "-version"):
        assert f"{flag} " in text or f"{flag}," in text
    for path in (nri.DEFAULT_SOCKET, settings.DEFAULT_PATH):
        assert path in "".join(text.split())
    for name, command in COMMANDS.items():
        assert lines.count([name, command.line]) == 1
        assert said(capsys, name, "--help").startswith(f"usage: v010-adapter {name} ")
    for name in ("", *COMMANDS):
        monkeypatch.setenv("COLUMNS", "80")
        narrow = said(capsys, *name.split(), "-h")
        assert "-h, --help" in narrow
        assert max(map(len, narrow.splitlines())) <= 80
        monkeypatch.setenv("COLUMNS", "200")
        assert len(said(capsys, *name.split(), "-h").splitlines()) <= len(narrow.splitlines())


def test_each_flag_is_shown_once_with_its_text_each_help_has_examples_and_commands_come_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for name in COMMANDS:
        text = said(capsys, name, "-h")
        flags = re.findall(r"^  (-.*?)(?:  |$)", text, re.MULTILINE)
        spellings = [word.lstrip("-") for flag in flags for word in re.findall(r"(?:^|, )(-\S+)", flag)]
        assert len(spellings) == len(set(spellings)), text
        for usual in (["config", "o", "color", "v"], ["pod", "name", "command"]):
            its = [one for one in spellings if one in usual]
            assert its == sorted(its, key=usual.index), "they are in the same order everywhere"
        assert name in ("help", "version") or "\nexamples:\n  " in text, name
        assert said(capsys, "help", name) == text
        with monkeypatch.context() as wide:
            wide.setenv("COLUMNS", "1000")
            texts = re.findall(r"^  -.*?(?:\n|  ) *(.+)", said(capsys, name, "-h"), re.MULTILINE)
        assert len(texts) == len(set(texts)) == len(flags), "each flag has a text of its own"
    whole = said(capsys, "-h")
    assert whole == said(capsys, "help")
    assert whole.index("commands:") < whole.index("options:")
    assert whole.startswith("usage: v010-adapter [run] [OPTION ...]\n       v010-adapter COMMAND ")
    assert said(capsys, "hooks", "-h").startswith("usage: v010-adapter hooks match [-h] CONTAINER-ID ")


def test_a_usage_error_is_one_line_with_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    for words, reason in ((["status", "-wait", "x"], "argument -wait/--wait: 'x' is not"), (["check", "-x"], "-x")):
        with pytest.raises(SystemExit) as ended:
            cli.main(words)
        [line] = capsys.readouterr().err.splitlines()
        assert (ended.value.code, reason in line) == (2, True), line
        assert line.startswith(f"v010-adapter {words[0]}: ")
        assert line.endswith(f"; `v010-adapter {words[0]} -h` explains the arguments")
    assert cli.main(["help", "chek"]) == 2
    assert capsys.readouterr().err == "v010-adapter: chek: unknown command; did you mean `check`?\n"


def test_the_version_is_that_of_the_adapter_of_python_and_of_nri(capsys: pytest.CaptureFixture[str]) -> None:
    expected = f"v010-adapter {__version__}, Python {platform.python_version()}, NRI {NRI_VERSION}\n"
    assert said(capsys, "-version") == said(capsys, "--version") == said(capsys, "version") == expected


def test_an_unknown_command_is_one_line_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    known = f"known: {', '.join(COMMANDS)}"
    nearest = {"chek": "did you mean `check`?", "simulat": "did you mean `simulate`?", "frob": known, "\x1b": known}
    for word, told in nearest.items():
        assert cli.main([word, "-h"]) == cli.USAGE == 2
        assert capsys.readouterr() == ("", f"v010-adapter: {ascii(word)[1:-1]}: unknown command; {told}\n")
