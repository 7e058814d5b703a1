"""What the command makes of its arguments, and the exit codes that it ends with."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from adapter import cli, daemon, nri, settings
from adapter.commands import demo
from adapter.commands.simulate import command as simulate
from adapter.errors import AdapterError, ConfigError, RegistrationError
from adapter.guard import Launch
from adapter.nri import Identity
from adapter.settings import Settings

COMMAND = Path(sys.executable).with_name("v010-adapter")


class Runs:
    """What the command would have run."""

    def __init__(self) -> None:
        self.settings = Settings()
        self.errors: list[ConfigError] = []
        self.who = Identity("", "")
        self.socket: str | None = None
        """The path that a connection was asked for with, None if none was."""
        self.exit_code = 0

    def connect(self, path: str = "", environ: Any = None) -> int:
        self.socket = path
        return 99

    def daemon(
        self,
        own: Settings,
        errors: list[ConfigError],
        who: Identity,
        connect: daemon.Connect | None,
        reread: settings.Read,
        when_lost: int,
        launch: Launch | None,
    ) -> Runs:
        self.settings, self.errors, self.who = own, errors, who
        self.reconnect, self.reread = connect, reread
        return self

    def run(self, trunk: int | None) -> int:
        assert (trunk or (self.reconnect and self.reconnect())) == 99
        return self.exit_code


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Runs]:
    made = Runs()
    monkeypatch.setattr(nri, "connect", made.connect)
    monkeypatch.setattr(daemon, "prepare", lambda own, errors: None)
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


@pytest.mark.parametrize("words", [[], ["run"]], ids=["nothing", "the command alone"])
def test_without_arguments_it_is_what_its_file_is_called_at_the_default_socket(runs: Runs, words: list[str]) -> None:
    assert cli.main(words) == 0
    assert (runs.who, runs.socket, runs.settings, runs.errors) == (
        Identity("file", "10"),
        "/var/run/nri/nri.sock",
        Settings(),
        [],
    )


@pytest.mark.usefixtures("launched")
def test_without_arguments_a_launched_plugin_is_what_its_environment_says(runs: Runs) -> None:
    assert cli.main([]) == 0
    assert (runs.who, runs.socket) == (Identity("env", "42"), "")


def test_the_arguments_of_the_process_are_taken_where_none_are_given(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["10-file", "-idx", "33"])
    assert cli.main() == 0
    assert runs.who == Identity("file", "33")


@pytest.mark.parametrize("run", [[], ["run"]], ids=["", "run"])
@pytest.mark.parametrize("dash", ["-", "--"])
@pytest.mark.parametrize("socket", ["socket", "socket-path"])
@pytest.mark.parametrize("equals", [True, False], ids=["equals", "apart"])
def test_flags_are_taken_as_go_takes_them(runs: Runs, run: list[str], dash: str, socket: str, equals: bool) -> None:
    given = {"idx": "33", "name": "mine", socket: "/run/nri.sock"}
    words = " ".join(f"{dash}{flag}{'=' if equals else ' '}{value}" for flag, value in given.items())
    assert cli.main([*run, *words.split()]) == 0
    assert (runs.who, runs.socket) == (Identity("mine", "33"), "/run/nri.sock")


@pytest.mark.usefixtures("launched")
def test_what_is_asked_for_counts_more_than_the_environment(runs: Runs) -> None:
    assert cli.main(["-idx", "33", "-socket", "/run/nri.sock"]) == 0
    assert (runs.who, runs.socket) == (Identity("env", "33"), "/run/nri.sock")


def test_the_daemons_exit_code_is_the_commands(runs: Runs) -> None:
    runs.exit_code = 7
    assert cli.main([]) == 7


@pytest.mark.parametrize("flag", ["-v", "-verbose", "--verbose"])
def test_verbose_is_the_log_level_debug_and_leaves_the_rest_as_configured(
    runs: Runs, tmp_path: Path, flag: str
) -> None:
    file = tmp_path / "adapter.yaml"
    file.write_text("log: {level: error, format: json}\n")
    assert cli.main([flag, "-config", str(file)]) == 0
    assert runs.settings.log._asdict() == {"level": "debug", "format": "json", "target": "auto", "secrets": False}


def test_the_configuration_is_the_file_that_is_given_or_the_default(runs: Runs, tmp_path: Path) -> None:
    for name, level in (("default", "error"), ("other", "warning")):
        (tmp_path / f"{name}.yaml").write_text(f"log: {{level: {level}}}\n")
    assert cli.main([]) == 0
    assert runs.settings.log.level == "error"
    assert cli.main(["-config", str(tmp_path / "other.yaml")]) == 0
    assert runs.settings.log.level == "warning"


def test_the_configuration_can_be_read_again_with_the_flags_and_from_any_directory(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.yaml").write_text("log: {level: error}\n")
    assert cli.main(["-config", "own.yaml", "-verbose"]) == 0
    Path("own.yaml").write_text("log: {level: error, format: json}\n")
    monkeypatch.chdir("/")
    again, errors = runs.reread()
    assert (again.log.level, again.log.format, errors) == ("debug", "json", [])


# ---- what goes wrong


WRONG = "one: 1\ntwo: 2\nlog: {level: debug}\n"


def test_each_mistake_in_the_configuration_is_a_line_and_exit_code_2_before_anything_is_connected(
    runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "adapter.yaml"
    file.write_text(WRONG)
    assert cli.main(["-config", str(file)]) == cli.USAGE == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"v010-adapter: {file}:1: one: unknown key")
    assert second.startswith(f"v010-adapter: {file}:2: two: unknown key")
    assert runs.socket is None


@pytest.mark.usefixtures("launched")
def test_a_launched_daemon_runs_with_what_is_right_and_is_told_what_is_wrong(
    runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "default.yaml").write_text(WRONG)
    assert cli.main([]) == 0
    assert [error.place for error in runs.errors] == [f"{tmp_path}/default.yaml:{line}" for line in (1, 2)]
    assert runs.settings.log.level == "debug"
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [(ConfigError("a.yaml:1", "wrong"), 2), (RegistrationError("no runtime at x"), 1), (AdapterError("else"), 1)],
    ids=["configuration", "registration", "any other"],
)
def test_an_expected_error_is_one_line_without_a_traceback(
    runs: Runs,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: AdapterError,
    exit_code: int,
) -> None:
    def fail(*_: object, **_more: object) -> int:
        raise error

    monkeypatch.setattr(daemon, "prepare", fail)
    assert cli.main([]) == exit_code
    assert capsys.readouterr().err == f"v010-adapter: {error}\n"


def test_a_bug_is_not_passed_off_as_an_expected_error(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **_more: object) -> int:
        raise KeyError("oops")

    monkeypatch.setattr(daemon, "prepare", fail)
    with pytest.raises(KeyError):
        cli.main([])


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["-unknown"], "-unknown"),
        (["--unknown", "x"], "--unknown"),
        (["run", "frobnicate"], "frobnicate"),
        (["-idx"], "-idx"),
        (["-sock", "/run/nri.sock"], "-sock"),
        (["--verb"], "--verb"),
        (["-verbose=maybe"], "-verbose"),
    ],
    ids=" ".join,
)
def test_arguments_that_there_are_none_of_are_named_with_exit_code_2(
    runs: Runs, capsys: pytest.CaptureFixture[str], words: list[str], named: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(words)
    assert caught.value.code == 2
    assert named in capsys.readouterr().err.splitlines()[-1]
    assert runs.socket is None


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help_names_every_flag_on_stdout_with_exit_code_0(
    runs: Runs, capsys: pytest.CaptureFixture[str], word: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main([word])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    for flag in ("-idx", "-name", "-socket", "-socket-path", "-config", "-v", "-verbose", "-version"):
        assert f"{flag} " in text or f"{flag}," in text
    assert runs.socket is None


def test_the_paths_that_help_names_are_those_that_are_used(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["-h"])
    text = "".join(capsys.readouterr().out.split())
    assert nri.DEFAULT_SOCKET in text
    assert settings.DEFAULT_PATH in text


# ---- the other commands


@pytest.mark.parametrize(("name", "command"), [("demo", demo), ("simulate", simulate)])
def test_a_command_gets_its_own_arguments_and_gives_its_own_exit_code(
    monkeypatch: pytest.MonkeyPatch, name: str, command: ModuleType
) -> None:
    given: list[list[str]] = []

    def main(words: list[str]) -> int:
        given.append(words)
        return 5

    monkeypatch.setattr(command, "main", main)
    assert cli.main([name, "one", "-two"]) == 5
    assert given == [["one", "-two"]]


# ---- as a process


def test_once_without_a_runtime_it_ends() -> None:
    output = subprocess.run(
        [COMMAND, "-once", "-socket", "/nowhere"], capture_output=True, text=True, check=False, timeout=60
    )
    assert (output.returncode, output.stdout) == (1, "")
    assert output.stderr == "v010-adapter: no runtime at /nowhere: No such file or directory\n"


def test_at_a_terminal_without_a_runtime_somebody_is_told_what_to_do_next() -> None:
    terminal, end = os.openpty()
    subprocess.run([COMMAND, "-socket", "/nowhere\x1b"], stderr=end, check=False, timeout=60)
    os.close(end)
    lines = os.read(terminal, 4096).decode().splitlines()
    os.close(terminal)
    assert lines[0] == r"v010-adapter: no runtime at /nowhere\x1b: No such file or directory"
    assert lines[1] == "These commands need no runtime (-h explains each):"
    assert [line.split()[:2] for line in lines[2:]] == [
        ["v010-adapter", name] for name in ("demo", "simulate", "check")
    ]


@pytest.mark.parametrize("words", [["-h"], ["--help"]])
def test_help_does_not_need_a_runtime_or_a_configuration(words: list[str]) -> None:
    result = subprocess.run([COMMAND, *words], capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0
    assert result.stdout.startswith("usage: v010-adapter ")


def test_a_launched_daemon_loads_nothing_that_it_does_not_need_before_it_registers() -> None:
    """Its runtime waits for it: exec to registered is what a node's start takes longer by."""
    environ = {"NRI_PLUGIN_SOCKET": "0", "PYTHONPROFILEIMPORTTIME": "1", "PATH": os.defpath}
    result = subprocess.run(
        [COMMAND], env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60
    )
    loaded = {line.rpartition("|")[2].strip() for line in result.stderr.splitlines() if line.startswith("import time:")}
    assert {"adapter.daemon", "adapter.nri.stub"} <= loaded
    needless = {
        "argparse",
        "asyncio",
        "jsonschema",
        "multiprocessing",
        "prometheus_client",
        "re2",
        "socket",
        "subprocess",
    }
    needless |= {
        "yaml",
        "adapter.runtime",
        "adapter.commands.arguments",
        "adapter.commands",
        "difflib",
        "platform",
        "shtab",
    }
    assert loaded & needless == set()


@pytest.mark.parametrize("idx", ["1", "123", "x1"])
def test_an_index_that_no_runtime_takes_is_a_wrong_argument(
    runs: Runs, capsys: pytest.CaptureFixture[str], idx: str
) -> None:
    assert cli.main(["-idx", idx, "-socket", "/run/nri.sock"]) == 2
    assert f"-idx: plugin index {idx!r}: two digits" in capsys.readouterr().err
    assert runs.socket is None


def test_a_daemon_that_never_met_a_runtime_ends_without_loading_the_bridges() -> None:
    environ = {"PYTHONPROFILEIMPORTTIME": "1", "PATH": os.defpath}
    with subprocess.Popen(
        [COMMAND, "-socket", "/nowhere"], env=environ, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as daemon:
        assert daemon.stderr is not None
        while "keeps trying" not in daemon.stderr.readline():
            assert daemon.poll() is None
        daemon.send_signal(signal.SIGTERM)
        rest = daemon.stderr.read()
    assert "ending on SIGTERM" in rest
    assert "adapter.legacy" not in rest
    assert daemon.returncode == 0
