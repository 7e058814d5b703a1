"""What holds for all tests: how far property tests search, and that no test leaves a process or a descriptor behind.

In CI, generated examples are the same each time, so that only a change turns it red, and each search tries all the
examples it asks for. Elsewhere the examples differ from run to run, and no search tries more than BRIEF of them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from .processes import Fifo, Programs, SteppedLoop, children, open_descriptors

settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("here", deadline=None)
CI = bool(os.environ.get("CI"))
settings.load_profile("ci" if CI else "here")
os.umask(0o022)  # the adapter warns of files that a group can write
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it, and its children do
BRIEF = 50
"""Examples of a property test that a person waits for."""
LONG = 100
"""A property test that asks for more examples is marked `long`."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the property tests that ask for many examples, and cuts them short where a person waits."""
    searches = [item for item in items if isinstance(item, pytest.Function) and "hypothesis" in item.keywords]
    for item in searches:
        examples = _examples(item).max_examples
        if examples > LONG:
            item.add_marker("long")
        if examples > BRIEF and not CI:
            setattr(*_place(item), settings(_examples(item), max_examples=BRIEF))


def _examples(item: pytest.Function) -> settings:
    found: settings = getattr(*_place(item))
    return found


def _place(item: pytest.Function) -> tuple[object, str]:
    """Where the settings are: a state machine's are its test case's, any other's where Hypothesis looks for them."""
    return (item.cls, "settings") if item.cls else (item.obj, "_hypothesis_internal_use_settings")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Escapes lone surrogates in captured log lines: xdist's workers cannot send them."""
    report = yield
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    return report


@pytest.fixture
def loop() -> Iterator[SteppedLoop]:
    """A loop; when the test is over, nothing that was started on it may be left."""
    before = open_descriptors()
    loop = SteppedLoop()
    yield loop
    loop.close()
    left = children()
    for pid in left:  # not to spoil the tests to come
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert left == [], "children are left, or zombies"
    assert open_descriptors() <= before, "descriptors are left open"  # fewer: garbage of earlier tests was collected


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs(tmp_path / "bin")


@pytest.fixture
def gate(programs: Programs, loop: SteppedLoop) -> Iterator[Fifo]:
    """A gate at which programs wait; made after the loop, whose check of descriptors comes when it is closed again."""
    fifo = programs.fifo("gate")
    yield fifo
    fifo.close()
