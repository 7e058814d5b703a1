"""Where log lines go, and that nobody ever waits for who reads them."""

from __future__ import annotations

import json
import logging
import os
import re
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from nri.syslog import BACKLOG, MAX_LINE, Syslog
from tests.rig.listeners import PREFIX, Receiver
from v010_adapter.cli import command_line as cli
from v010_adapter.cli import version
from v010_adapter.monitoring import logs
from v010_adapter.monitoring.logs import LineFormatter, Stderr
from v010_adapter.settings import LogSettings


@pytest.fixture
def path(short_path: Path) -> Path:
    """Where a syslog daemon's socket may be."""
    return short_path / "log"


@pytest.fixture
def handler(path: Path) -> Syslog:
    return Syslog(str(path), logs.TAG)


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Iterator[logging.Logger]:
    """The root logger, put back afterwards."""
    logger = logging.getLogger()
    level = logger.level
    monkeypatch.setattr(logger, "handlers", [])
    yield logger
    logger.setLevel(level)


def say(handler: logging.Handler, *texts: str, level: int = logging.INFO, error: Exception | None = None) -> None:
    raised = (type(error), error, error.__traceback__) if error else None
    for text in texts:
        handler.emit(logging.LogRecord("test", level, __file__, 1, text, (), raised))


# ---- syslog's lines


def test_a_line_carries_facility_daemon_its_severity_name_and_pid(handler: Syslog, receiver: Receiver) -> None:
    levels = {logging.DEBUG: 31, logging.INFO: 30, logging.WARNING: 28, logging.ERROR: 27}
    for level in levels:
        say(handler, "hello", level=level)
    assert receiver.read() == [f"<{priority}>{PREFIX}hello" for priority in levels.values()]


@pytest.mark.usefixtures("root")
def test_all_of_a_bug_reaches_a_syslog_that_reads_late(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its socket queues ten lines, and the process is about to end."""
    lines = list[str]()
    monkeypatch.setattr(logs, "setup", partial(logs.setup, syslog=str(receiver.path)))
    for module in ("nri.syslog", "v010_adapter.monitoring.logs"):
        monkeypatch.setattr(f"{module}.stderr_is_null", lambda: True)
    monkeypatch.setattr(cli, "time", SimpleNamespace(sleep=lambda _: lines.extend(receiver.texts())))
    monkeypatch.setattr(version, "main", Mock(side_effect=ZeroDivisionError("oops")))
    with pytest.raises(ZeroDivisionError):
        cli.main(["version"])
    assert (lines[0], lines[-1]) == ("a bug: oops", "    ZeroDivisionError: oops")


def test_a_traceback_is_many_lines_a_message_one_an_empty_one_none(handler: Syslog, receiver: Receiver) -> None:
    say(handler, "", "\n<0>forged\n", "a\0b\x1b[31m\u2028", "\udcff")
    assert receiver.texts() == [r"\n<0>forged\n", r"a\x00b\x1b[31m\u2028", r"\udcff"]
    try:
        raise ValueError("first\nsecond")
    except ValueError as error:
        say(handler, "failed", error=error)
    lines = receiver.texts()
    assert lines[:2] == ["failed", "    Traceback (most recent call last):"]
    assert lines[-2:] == ["    ValueError: first", "    second"]


@pytest.mark.parametrize(("format_", "shortest"), [("text", MAX_LINE - 100), ("json", MAX_LINE // 3)])
def test_a_line_is_shortened_for_syslog(root: logging.Logger, receiver: Receiver, format_: str, shortest: int) -> None:
    logs.setup(LogSettings(target="syslog", format=format_), syslog=str(receiver.path))
    for character in ("x", "é", "\U0001f600"):
        root.info("%s", character * 200_000)
        root.info("next")
        long, short = receiver.read()
        assert shortest < len(long.encode()) <= MAX_LINE, character
        assert "next" in short


def test_a_line_that_is_too_long_for_syslog_does_not_block_the_next(handler: Syslog, receiver: Receiver) -> None:
    """Its buffer may be smaller than ours allows for."""
    handler.setFormatter(LineFormatter(head=False))
    say(handler, "x" * 10_000_000, "next")
    handler.flush()
    assert (receiver.texts(), handler.pending) == (["next"], 0)


# ---- nobody waits


def test_lines_are_kept_until_syslog_is_there_or_there_again(handler: Syslog, path: Path) -> None:
    for number in range(2):
        say(handler, f"one {number}", f"two {number}")
        assert handler.pending == 2
        receiver = Receiver(path)
        if number:
            say(handler, "three")  # which finds the new socket
        handler.flush()
        assert receiver.texts() == [f"one {number}", f"two {number}", *["three"] * number]
        assert not handler.pending
        receiver.stop()


def test_a_syslog_that_does_not_read_gets_the_rest_in_order_later(handler: Syslog, receiver: Receiver) -> None:
    sent = [f"line {number}" for number in range(900)]
    say(handler, *sent)
    assert 0 < handler.pending < 900, "its socket is full, and took some"
    found = receiver.texts()
    while handler.pending:
        handler.flush()
        found += receiver.texts()
    assert found == sent


# ---- which of them


def test_target_stderr_means_stderr_with_time_and_level_or_json(
    root: logging.Logger, receiver: Receiver, capfd: pytest.CaptureFixture[str]
) -> None:
    logs.setup(LogSettings(target="stderr"), syslog=str(receiver.path))
    root.warning("hello")
    assert receiver.read() == []
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\S* WARNING hello\n", capfd.readouterr().err)
    logs.setup(LogSettings(target="stderr", format="json"))
    root.info("hello")
    assert json.loads(capfd.readouterr().err)["message"] == "hello"


def test_another_setup_replaces_the_first_and_keeps_unwritten_lines(root: logging.Logger, path: Path) -> None:
    logs.setup(LogSettings(target="syslog", level="warning"), syslog=str(path))
    root.info("not at this level")
    root.warning("one")
    logs.setup(LogSettings(target="syslog", format="json"), syslog=str(path))
    assert logs.flush() == 0, "nobody is there"
    receiver = Receiver(path)
    assert logs.flush() == 1
    root.info("two")
    one, two = receiver.texts()
    assert (one, json.loads(two)["message"], len(root.handlers)) == ("one", "two", 1)
    receiver.stop()


AUTO = """
import logging, sys
from v010_adapter.monitoring import logs
from v010_adapter.settings import LogSettings
logs.setup(LogSettings(target="auto"), syslog=sys.argv[1])
logging.getLogger().info("hello")
"""


@pytest.mark.parametrize("stderr", ["/dev/null", "file", "closed"])
def test_target_auto_means_syslog_where_stderr_is_lost(receiver: Receiver, tmp_path: Path, stderr: str) -> None:
    redirection = "2>&-" if stderr == "closed" else f"2>{stderr}"
    command = ["/bin/sh", "-c", f'exec "$0" "$@" {redirection}', sys.executable, "-P", "-c", AUTO, str(receiver.path)]
    subprocess.run(command, cwd=tmp_path, check=True)
    told = [line.partition("]: ")[2] for line in receiver.read()]
    assert told == ([] if stderr == "file" else ["hello"])
    assert stderr != "file" or (tmp_path / "file").read_text().endswith("INFO hello\n")


# ---- a stderr which somebody reads late, or never


@contextmanager
def stderr_is_a_pipe() -> Iterator[int]:
    """The reading end of a pipe that is stderr. No fixture, for pytest puts stderr back behind these."""
    reader, writer = os.pipe()
    with ExitStack() as stack:
        kept = os.dup(2)
        stack.callback(os.close, reader)
        stack.callback(os.close, kept)
        stack.callback(os.dup2, kept, 2)
        os.dup2(writer, 2)
        os.close(writer)
        yield reader


def read_to(reader: int, end: str, handler: Stderr) -> list[str]:
    """The lines that come through a pipe up to one that ends so; the handler writes whenever there is room again."""
    text = b""
    while not text.endswith(f"{end}\n".encode()):
        handler.flush()
        assert select.select([reader], [], [], 0)[0], f"{end} does not come"
        text += os.read(reader, 1 << 20)
    assert not handler.pending
    return text.decode().splitlines()


def test_a_stderr_that_nobody_reads_is_not_waited_for_and_costs_the_oldest_lines() -> None:
    length = 513
    with stderr_is_a_pipe() as pipe:
        handler = Stderr()
        say(handler, *(f"{number:06}:".ljust(length - 1, "x") for number in range(5000)))
        kept = handler.pending
        say(handler, "end")
        lines = read_to(pipe, "end", handler)[:-1]
    numbers = [int(line.split(":")[0]) for line in lines]
    assert kept == BACKLOG // length
    newest = kept - 1  # the oldest may be written in part, and stays
    assert numbers[-newest:] == list(range(5000 - newest, 5000))
    assert numbers[:-newest] == list(range(len(numbers) - newest))
    assert {len(line) for line in lines} == {length - 1}, "a line that was written in part is not finished"


def test_a_full_disk_costs_no_line() -> None:
    with stderr_is_a_pipe() as pipe, open("/dev/full", "wb") as full:
        room = os.dup(2)
        os.dup2(full.fileno(), 2)
        handler = Stderr()
        say(handler, "one", "two")
        assert handler.pending == 2
        os.dup2(room, 2)
        os.close(room)
        assert read_to(pipe, "two", handler) == ["one", "two"]


def test_what_is_kept_is_counted_to_the_byte() -> None:
    for more, kept in ((0, 2), (1, 1)):
        with stderr_is_a_pipe(), open("/dev/full", "wb") as full:
            os.dup2(full.fileno(), 2)
            handler = Stderr()
            say(handler, "a", "b" * (BACKLOG - len("a\n\n") + more))
            assert handler.pending == kept
            say(handler, "c" * 9 * more)
            assert handler.pending == 2


def test_a_stderr_whose_reader_has_gone_costs_nothing() -> None:
    with stderr_is_a_pipe() as pipe, open(os.devnull) as null:
        os.dup2(null.fileno(), pipe)
        handler = Stderr()
        say(handler, "hello")
    assert not handler.pending


def test_a_line_longer_than_all_that_is_kept_is_kept_while_it_is_the_only_one() -> None:
    long = "y" * (2 * BACKLOG) + "z"
    with stderr_is_a_pipe() as pipe:
        handler = Stderr()
        say(handler, long)
        assert handler.pending == 1
        assert read_to(pipe, "z", handler) == [long]
