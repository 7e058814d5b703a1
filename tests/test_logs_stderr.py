"""Log lines that go to a stderr which somebody reads late, or never."""

from __future__ import annotations

import logging
import os
import select
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from adapter import logs
from tests.processes import impatience


@pytest.fixture(autouse=True)
def nothing_waits() -> Iterator[None]:
    """Ends a test that hangs, which is what a handler that waits would do."""
    with impatience("somebody waits"):
        yield


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("test", logging.INFO, __file__, 1, text, (), None)


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


def test_a_stderr_that_nobody_reads_is_not_waited_for_and_gets_the_rest_in_order_later() -> None:
    lines = [f"{number} {'x' * 500}" for number in range(600)]  # more than a pipe holds
    with stderr_is_a_pipe() as pipe:
        handler = logs.Stderr()
        for line in lines:
            handler.emit(record(line))
        kept = handler.pending
        read = read_to(pipe, lines[-1].encode(), handler.flush)
    assert 0 < kept < 600
    assert [line.decode() for line in read] == lines
    assert not handler.pending


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


def test_a_line_that_is_longer_than_a_pipe_holds_arrives_whole() -> None:
    long = "y" * 300_000 + "z"
    with stderr_is_a_pipe() as pipe:
        handler = logs.Stderr()
        handler.emit(record(long))
        read = read_to(pipe, b"z", handler.flush)
    assert read == [long.encode()]


def test_a_stderr_whose_reader_has_gone_costs_nothing() -> None:
    with stderr_is_a_pipe() as pipe:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, pipe)
        os.close(null)
        handler = logs.Stderr()
        handler.emit(record("hello"))
    assert not handler.pending
