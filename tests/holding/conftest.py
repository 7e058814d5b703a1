"""Fixtures: a runtime with a directory of its own, and a plugin's holds."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from nri.cgroup import start_time
from nri.holding.holds import Holds, KeeperProcess

from ..rig.brief import few
from ..rig.processes import is_running
from ..rig.waiting import until
from .oci import RUNTIMES, OciRuntime, need


@pytest.fixture(autouse=True)
def no_keeper_is_left() -> Iterator[None]:
    """Fails a test whose keepers do not end, and ends them: a keeper is nobody's child."""
    keepers: list[tuple[int, int | None]] = []
    on_ready = KeeperProcess.on_ready

    def noted(keeper: KeeperProcess, fields: dict[str, str]) -> None:
        pid = int(fields["ready"])
        keepers.append((pid, start_time(pid)))
        on_ready(keeper, fields)

    def left() -> list[int]:
        return [pid for pid, started in keepers if is_running(pid) and start_time(pid) == started]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KeeperProcess, "on_ready", noted)
        yield
    try:
        until(lambda: not left(), "the keepers have ended")
    finally:
        for pid in left():
            os.kill(pid, signal.SIGKILL)


@pytest.fixture(params=few(sorted(RUNTIMES), 1))
def oci(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OciRuntime]:
    need(request.param)
    runtime = OciRuntime(request.param, tmp_path)
    yield runtime
    runtime.clear()


@pytest.fixture
def stopped() -> Iterator[Callable[[int], None]]:
    """Stops processes, as a debugger does; what is left of them goes on at the end of the test."""
    with ExitStack() as stack:

        def stop(pid: int) -> None:
            process = os.pidfd_open(pid)
            stack.callback(os.close, process)
            stack.callback(go_on, process)
            signal.pidfd_send_signal(process, signal.SIGSTOP)
            stat = Path(f"/proc/{pid}/stat")
            until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "the process is stopped")

        yield stop


def go_on(process: int) -> None:
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(process, signal.SIGCONT)


@pytest.fixture
def holds(tmp_path: Path) -> Iterator[Holds]:
    """The holds of a plugin, which ends with the test."""
    holds = Holds(str(tmp_path / "holds"))
    yield holds
    holds.close()
