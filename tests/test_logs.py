"""Where log lines go, and that nobody ever waits for who reads them."""

from __future__ import annotations

import gc
import json
import logging
import os
import re
import select
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from adapter.monitoring import logs
from adapter.monitoring.log_lines import TextFormatter
from adapter.settings import LogSettings
from tests.processes import impatience

PREFIX = f"v010-adapter[{os.getpid()}]: "


class Receiver:
    """A syslog daemon of sorts: a datagram socket at a path."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.bind(str(path))

    def read(self) -> list[str]:
        """What has come since the last time."""
        found = []
        with suppress(BlockingIOError):
            while True:
                found.append(self._socket.recv(1 << 20).decode())
        return found

    def stop(self) -> None:
        self._socket.close()
        self.path.unlink(missing_ok=True)


@pytest.fixture(autouse=True)
def nothing_waits() -> Iterator[None]:
    """Ends a test that hangs, which is what a handler that waits would do."""
    with impatience("somebody waits"):
        yield


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a syslog daemon's socket may be."""
    return tmp_path / "log"


@pytest.fixture
def receiver(path: Path) -> Iterator[Receiver]:
    made = Receiver(path)
    yield made
    made.stop()


@pytest.fixture
def handler(path: Path) -> logs.Syslog:
    return logs.Syslog(str(path))


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Iterator[logging.Logger]:
    """The root logger, put back afterwards."""
    logger = logging.getLogger()
    level = logger.level
    monkeypatch.setattr(logger, "handlers", [])
    yield logger
    logger.setLevel(level)


def record(text: str, *arguments: object, level: int = logging.INFO) -> logging.LogRecord:
    return logging.LogRecord("test", level, __file__, 1, text, arguments, None)


def say(handler: logs.Syslog, *texts: str) -> None:
    for text in texts:
        handler.emit(record(text))


def texts(lines: list[str]) -> list[str]:
    """What lines say behind their priority, name and pid."""
    for line in lines:
        assert re.match(r"<\d+>" + re.escape(PREFIX), line), line
    return [line.partition(PREFIX)[2] for line in lines]


# ---- syslog's lines


def test_a_line_carries_facility_daemon_its_severity_name_and_pid(handler: logs.Syslog, receiver: Receiver) -> None:
    levels = {logging.DEBUG: 31, logging.INFO: 30, logging.WARNING: 28, logging.ERROR: 27}
    for level in levels:
        handler.emit(record("%s and %d", "one", 2, level=level))
    assert receiver.read() == [f"<{priority}>{PREFIX}one and 2" for priority in levels.values()]


def test_a_traceback_becomes_a_line_each_in_order(handler: logs.Syslog, receiver: Receiver) -> None:
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        made = record("failed")
        made.exc_info = sys.exc_info()
    handler.emit(made)
    lines = texts(receiver.read())
    assert lines[:2] == ["failed", "    Traceback (most recent call last):"]
    assert lines[-2:] == ["    ValueError: first", "    second"]
    assert len(lines) > 4


def test_a_message_is_one_line_without_a_priority_of_its_own_and_an_empty_one_is_not_sent(
    handler: logs.Syslog, receiver: Receiver
) -> None:
    say(handler, "", "\n<0>forged\n", "a\0b\x1b[31m\u2028", "\udcff")
    assert texts(receiver.read()) == [r"\n<0>forged\n", r"a\x00b\x1b[31m\u2028", r"\udcff"]


@pytest.mark.parametrize("format_", ["text", "json"])
def test_a_line_beyond_what_syslog_takes_is_shortened(root: logging.Logger, receiver: Receiver, format_: str) -> None:
    logs.setup(LogSettings(target="syslog", format=format_), syslog=str(receiver.path))
    for character in ("x", "é", "\U0001f600"):
        root.info("%s", character * 200_000)
        root.info("next")
        long, short = receiver.read()
        shortest = logs.MAX_LINE // 3 if format_ == "json" else logs.MAX_LINE - 100
        assert shortest < len(long.encode()) <= logs.MAX_LINE, ascii(character)
        assert "next" in texts([long, short])[1]


def test_a_line_that_syslog_refuses_for_its_size_is_not_in_the_way_of_the_next(
    handler: logs.Syslog, receiver: Receiver
) -> None:
    """Its buffer may be smaller than ours allows for."""
    handler.setFormatter(TextFormatter(head=False))
    say(handler, "x" * 10_000_000, "next")
    handler.flush()
    assert texts(receiver.read()) == ["next"]
    assert not handler.pending


# ---- nobody waits


def test_lines_are_kept_until_syslog_is_there_or_there_again(handler: logs.Syslog, path: Path) -> None:
    for number in range(2):
        say(handler, f"one {number}", f"two {number}")
        assert handler.pending == 2
        receiver = Receiver(path)
        if number:
            say(handler, "three")  # which finds the new socket
        handler.flush()
        assert texts(receiver.read()) == [f"one {number}", f"two {number}", *["three"] * number]
        assert not handler.pending
        receiver.stop()


def test_a_syslog_that_does_not_read_is_not_waited_for_and_gets_the_rest_in_order_later(
    handler: logs.Syslog, receiver: Receiver
) -> None:
    sent = [f"line {number}" for number in range(900)]
    say(handler, *sent)
    assert 0 < handler.pending < 900, "its socket is full, and took some"
    found = texts(receiver.read())
    while handler.pending:
        handler.flush()
        found += texts(receiver.read())
    assert found == sent


def test_what_is_no_syslog_is_like_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "directory").mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(tmp_path / "stream"))
        listener.listen()
        for name in ("file", "directory", "stream", "x" * 200):
            handler = logs.Syslog(str(tmp_path / name))
            gc.collect()  # what other tests have left
            before = sorted(os.listdir("/proc/self/fd"))
            say(handler, "one", "two")
            assert handler.pending == 2
            assert sorted(os.listdir("/proc/self/fd")) == before


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


def test_setting_up_again_takes_the_place_of_what_was_and_keeps_what_was_not_written(
    root: logging.Logger, path: Path
) -> None:
    logs.setup(LogSettings(target="syslog", level="warning"), syslog=str(path))
    root.info("not at this level")
    root.warning("one")
    logs.setup(LogSettings(target="syslog", format="json"), syslog=str(path))
    receiver = Receiver(path)
    assert logs.flush() == 1
    root.info("two")
    one, two = texts(receiver.read())
    assert (one, json.loads(two)["message"]) == ("one", "two")
    assert len(root.handlers) == 1
    receiver.stop()


AUTO = """
import logging, sys
from adapter.monitoring import logs
from adapter.settings import LogSettings
logs.setup(LogSettings(target="auto"), syslog=sys.argv[1])
logging.getLogger().info("hello")
"""


@pytest.mark.parametrize("stderr", ["null", "file", "closed"])
def test_target_auto_means_syslog_where_what_is_written_to_stderr_is_lost(
    receiver: Receiver, tmp_path: Path, stderr: str
) -> None:
    """Any /dev/null counts, opened for whatever; a closed stderr too."""
    command: list[str] = [sys.executable, "-c", AUTO, str(receiver.path)]
    if stderr == "closed":
        command = ["/bin/sh", "-c", 'exec "$0" "$@" 2>&-', *command]
    written = tmp_path / "stderr"
    with (written if stderr == "file" else Path(os.devnull)).open("w") as file:
        subprocess.run(command, stderr=file, check=True, timeout=60)
    told = [line.partition("]: ")[2] for line in receiver.read()]
    assert told == ([] if stderr == "file" else ["hello"])
    assert stderr != "file" or written.read_text().endswith("INFO hello\n")


# ---- a stderr which somebody reads late, or never


@contextmanager
def stderr_is_a_pipe() -> Iterator[int]:
    """The reading end of a pipe that is stderr. No fixture, for pytest puts stderr back behind these."""
    kept = os.dup(2)
    reader, writer = os.pipe()
    os.dup2(writer, 2)
    os.close(writer)
    try:
        yield reader
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(reader)


def read_to(reader: int, end: bytes, flush: Callable[[], object]) -> list[bytes]:
    """The lines that come through a pipe up to one that ends so, flushing whenever there is room again."""
    text = b""
    while not text.endswith(end + b"\n"):
        flush()
        assert select.select([reader], [], [], 0)[0], f"{end!r} does not come"
        text += os.read(reader, 1 << 20)
    return text.splitlines()


def test_a_stderr_that_nobody_ever_reads_costs_the_oldest_lines() -> None:
    length = 513
    with stderr_is_a_pipe() as pipe:
        handler = logs.Stderr()
        for number in range(5000):
            handler.emit(record(f"{number:06}:".ljust(length - 1, "x")))
        kept = handler.pending
        handler.emit(record("end"))
        lines = read_to(pipe, b"end", handler.flush)[:-1]
    numbers = [int(line.split(b":")[0]) for line in lines]
    assert kept == logs.BACKLOG // length
    newest = kept - 1  # the oldest may be written in part, and stays
    assert numbers[-newest:] == list(range(5000 - newest, 5000))
    assert numbers[:-newest] == list(range(len(numbers) - newest))
    assert {len(line) for line in lines} == {length - 1}, "a line that was written in part is not finished"


def test_a_line_longer_than_all_that_is_kept_is_kept_while_it_is_the_only_one() -> None:
    long = "y" * (2 * logs.BACKLOG) + "z"
    with stderr_is_a_pipe() as pipe:
        handler = logs.Stderr()
        handler.emit(record(long))
        assert handler.pending == 1
        assert read_to(pipe, b"z", handler.flush) == [long.encode()]


def test_a_full_disk_costs_no_line() -> None:
    with stderr_is_a_pipe() as pipe:
        room = os.dup(2)
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, 2)
        handler = logs.Stderr()
        handler.emit(record("one"))
        handler.emit(record("two"))
        assert handler.pending == 2
        os.dup2(room, 2)
        assert read_to(pipe, b"two", handler.flush) == [b"one", b"two"]
        os.close(full)
        os.close(room)


def test_a_stderr_whose_reader_has_gone_costs_nothing() -> None:
    with stderr_is_a_pipe() as pipe:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, pipe)
        os.close(null)
        handler = logs.Stderr()
        handler.emit(record("hello"))
    assert not handler.pending
