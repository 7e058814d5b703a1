"""What holds for all tests: how far property tests search, how long a test may take, and what it may not leave behind.

All that is random in a run follows from one number, which the end of the run prints: TEST_SEED repeats it. In CI each
search tries all the examples it asks for, elsewhere, and with the profile `first`, no more than BRIEF of them.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import tempfile
import threading
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from pytest_nri import nri_runtime  # noqa: F401 - in a clone nothing else may have loaded it

from .rig.brief import CI
from .rig.forks import forked, forks
from .rig.listeners import Receiver
from .rig.loop import SteppedLoop
from .rig.processes import children, open_descriptors, state
from .rig.programs import Fifo, Programs
from .rig.waiting import WHOLE, limit

pytest.register_assert_rewrite(*(f"tests.rig.{name}" for name in ("command", "daemon", "machine", "node", "trunk")))

# How fast the machine is decides about no test.
settings.register_profile(
    "timeless", derandomize=False, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("first", settings.get_profile("timeless"), phases=[Phase.explicit, Phase.generate])
"""For who asks only whether a test fails: it tries BRIEF examples, and makes none smaller."""
settings.load_profile("timeless")
SEED = int(os.environ.setdefault("TEST_SEED", str(random.SystemRandom().randrange(1 << 32))))
"""The workers, which inherit the environment, have the same."""
for name in ("COLUMNS", "NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "WATCHDOG_USEC"):
    os.environ.pop(name, None)  # commands are as wide as a test says, and speak to who has started them, as runtimes do
os.umask(0o022)  # the adapter warns of files that a group can write
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it, and its children do
BRIEF = 12
"""Examples of a property test that a person waits for."""
IS_GIVEN = "basetemp is given"
BEFORE = pytest.StashKey[dict[str, Any]]()
LONG = 100
"""A property test that asks for more examples is marked `long`."""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Gives Hypothesis the seed before it looks for one, and refuses a place where no test's program could run."""
    if os.statvfs(place := tempfile.gettempdir()).f_flag & os.ST_NOEXEC:
        raise pytest.UsageError(
            f"{place} is mounted noexec, and tests run programs there: set TMPDIR to another directory"
        )
    config.option.hypothesis_seed = config.option.hypothesis_seed or str(SEED)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the seed, of a run that passed, too."""
    terminalreporter.write_line(f"TEST_SEED={SEED} repeats what was random in this run")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tells a worker of xdist whether the user has named a directory: each worker is given one."""
    node.workerinput[IS_GIVEN] = node.config.option.basetemp is not None


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Removes what the tests of a process have written if all have passed: later runs would clean that up slowly.

    What stands in a directory that the user has named stays.
    """
    config = session.config
    is_given = getattr(config, "workerinput", {IS_GIVEN: config.option.basetemp is not None})[IS_GIVEN]
    if exitstatus == 0 and not is_given:
        written = config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        subprocess.run(["rm", "-rf", "--one-file-system", written], check=False)


@pytest.fixture
def seed() -> int:
    """The seed for histories that a test makes without Hypothesis."""
    print(f"TEST_SEED={SEED}")
    return SEED


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collects tests without searching for garbage: all of them stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks property tests that ask for many examples. Where a person waits, cuts them short, and leaves tests out."""
    left_out = [] if CI else [item for item in items if item.get_closest_marker("ci")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("ci")]
    is_brief = not CI or config.getoption("hypothesis_profile", None) == "first"
    for item in items:
        if isinstance(item, pytest.Function) and "hypothesis" in item.keywords:
            # A state machine's settings are its test case's, any other's are where Hypothesis looks for them.
            owner, name = (item.cls, "settings") if item.cls else (item.obj, "_hypothesis_internal_use_settings")
            asked: settings = getattr(owner, name)
            if asked.max_examples > LONG:
                item.add_marker("long")
            if asked.max_examples > BRIEF and is_brief:
                setattr(owner, name, settings(asked, max_examples=BRIEF))


def limited(item: pytest.Item) -> Generator[None, object, object]:
    """Limits a test, or all its fixtures.

    Code under test may fork. A child that should have ended and comes back here is ended: it would run other tests.
    """
    own = os.getpid()
    try:
        with limit(item.name, WHOLE):
            return (yield)
    finally:
        if os.getpid() != own:
            os._exit(1)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    item.stash[BEFORE] = state()
    return (yield from limited(item))


pytest_runtest_call = pytest.hookimpl(wrapper=True, trylast=True)(limited)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Fails a test that leaves the process in another state: the next one may be any other."""
    result = yield from limited(item)
    for thread in threading.enumerate():
        if thread not in item.stash[BEFORE]["threads"]:
            with limit(f"{thread}, which the test has started"):
                thread.join()  # asyncio's end by themselves, soon
    after = state()
    for name, before in item.stash[BEFORE].items():
        assert after[name] == before, f"another {name} than before the test"
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Escapes lone surrogates in captured log lines: xdist's workers cannot send them."""
    report = yield
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    return report


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    """Fails a test that leaves processes or zombies, and ends them, so that they fail no other test."""
    before, forked_before = children(), forked()
    yield
    left = [pid for pid in children() if pid not in before]
    for pid in left:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    others = {pid: its_state for pid, its_state in forked().items() if pid not in forked_before}
    for pid in others:
        os.kill(pid, signal.SIGKILL)
        forks().reap(pid)
    assert left == [], "children are left, or zombies"
    running = [pid for pid, its_state in others.items() if its_state != "Z"]
    assert running == [], "processes that the fork server has started are left"


@pytest.fixture
def short_path(tmp_path: Path) -> Iterator[Path]:
    """The test's directory by a short name, for sockets: the adapter takes syslog's and systemd's address as it is."""
    fd = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    yield Path(f"/proc/{os.getpid()}/fd/{fd}")
    os.close(fd)


@pytest.fixture
def receiver(short_path: Path) -> Iterator[Receiver]:
    """A syslog daemon at `log` of `short_path`."""
    made = Receiver(short_path / "log")
    yield made
    made.stop()


@pytest.fixture
def loop() -> Iterator[SteppedLoop]:
    """A loop; when the test is over, nothing that was opened on it may be left."""
    before = open_descriptors()
    loop = SteppedLoop()
    yield loop
    loop.close()
    assert open_descriptors() <= before, "descriptors are left open"


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs(tmp_path / "bin")


@pytest.fixture
def gate(programs: Programs, loop: SteppedLoop) -> Iterator[Fifo]:
    """A gate at which programs wait; made after the loop, whose check of descriptors comes when it is closed again."""
    fifo = programs.fifo("gate")
    yield fifo
    fifo.close()
