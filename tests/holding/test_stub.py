"""A plugin's `start_container` holds its container: the event is answered, and the container waits."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import select
import shlex
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock, call

import pytest

from nri import Context, Hold, HoldEnd, Missing, NotHeld, NRIError, Plugin, api, run
from nri.cgroup import expand
from nri.holding import evidence
from nri.holding import holds as holds_module
from nri.holding.holds import Holds, KeeperProcess
from nri.holding.keeper import Keeper
from nri.testing import Node
from nri.testing import created as testing
from nri.testing.created import Created

from ..rig.processes import gone, killed
from ..rig.programs import Programs
from ..rig.waiting import LIMIT, limit, until


class Holding(Plugin):
    """Holds each container; what becomes of it is decided by the test."""

    holds = True

    def __init__(self, limit: float = 90, on_failure: Any = "fail") -> None:
        self.held: list[Hold] = []
        self.stopped: list[str] = []
        self._how = limit, on_failure

    def start_container(self, request: api.StartContainerRequest, context: Context) -> None:
        self.held.append(context.hold(*self._how))


class InBlock(Holding):
    """Holds each container for a block, in which the handler has the hold."""

    def start_container(self, request: api.StartContainerRequest, context: Context) -> None:
        with context.hold() as hold:
            self.held.append(hold)
            assert hold.end is None
            with pytest.raises(NRIError, match=r"^the container is held already$"):
                context.hold()


class InTask(Plugin):
    """Holds each container in a coroutine, until the test lets the block end."""

    holds = True

    def __init__(self, error: Exception | None = None, on_failure: Any = "fail") -> None:
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.hold: Hold | None = None
        self._error, self._on_failure = error, on_failure

    async def start_container(self, request: api.StartContainerRequest, context: Context) -> None:
        async with context.hold(90, self._on_failure) as self.hold:
            self.entered.set()
            while not self.gate.is_set():
                await asyncio.sleep(0.005)  # a thread that waits would outlive a hold that is cancelled
            if self._error is not None:
                raise self._error


@pytest.fixture
def created(nri_runtime: Node) -> Iterator[Callable[..., Created]]:
    """Makes containers of the runtime, which end with the test."""
    with ExitStack() as stack:
        yield lambda **fields: stack.enter_context(nri_runtime.created(**fields))


def test_a_handler_answers_and_the_container_waits(nri_runtime: Node, created: Callable[..., Created]) -> None:
    plugin, before = Holding(), {*threading.enumerate()}
    nri_runtime.add(plugin)
    container, other = created(), created(id="other")
    assert not container.start().error
    assert not other.start().error
    assert (container.is_held, other.is_held) == (True, True)
    until(lambda: len(plugin.held) == 2, "the handlers have ended")
    assert plugin.held[1].let_go() is HoldEnd.LET_GO
    assert other.runs()
    until(lambda: not (other.directory / "exec.fifo").exists(), "its start removes the FIFO, as runc's does")
    assert (container.is_held, plugin.held[0].end) == (True, None)
    assert all(thread.daemon for thread in {*threading.enumerate()} - before), "a program may end in spite of it"
    with pytest.raises(TimeoutError, match=f"^container {container.request.container.id} has not started in 0 s$"):
        container.runs(0)
    assert plugin.held[0].refuse() is HoldEnd.REFUSED
    assert not container.runs()


def test_a_block_has_the_hold_and_ends_it(nri_runtime: Node, created: Callable[..., Created]) -> None:
    plugin = InBlock()
    nri_runtime.add(plugin)
    container = created()
    assert not container.start().error
    assert container.runs()
    assert container.runs(), "it can be asked again"
    assert not container.is_held
    assert [hold.end for hold in plugin.held] == [HoldEnd.LET_GO]


@pytest.mark.parametrize("nri_runtime", ["containerd/1.7.35", "containerd/2.4.2"], indirect=True)
def test_a_block_of_a_coroutine_ends_the_hold(
    nri_runtime: Node, created: Callable[..., Created], caplog: pytest.LogCaptureFixture
) -> None:
    """In the generation of StateChange as in that of dedicated calls."""
    plugin = InTask()
    nri_runtime.add(plugin)
    container = created()
    assert not container.start().error
    assert nri_runtime.event("CreateContainer").error == "", "other events are served"
    assert container.is_held
    assert plugin.entered.wait(LIMIT)
    assert plugin.hold
    assert plugin.hold.end is None
    plugin.gate.set()
    assert container.runs()
    assert "answer" not in caplog.text, "it is neither late nor answered twice"


def test_a_process_that_ends_as_it_starts_is_told(
    created: Callable[..., Created], monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = testing._INIT.replace('os.write(1, b"runs")', "os._exit(1)")
    monkeypatch.setattr(testing, "_INIT", ends)
    container = created(id="c1")
    container.start()
    with pytest.raises(RuntimeError, match="the process of container c1 has ended"):
        container.runs()
    container.close()
    assert not container.directory.parent.exists()


@pytest.mark.parametrize("on_failure", ["fail", "ignore"])
def test_an_exception_of_the_block_refuses_the_container_and_is_logged(
    nri_runtime: Node, created: Callable[..., Created], caplog: pytest.LogCaptureFixture, on_failure: str
) -> None:
    plugin = InTask(NRIError("no device"), on_failure)
    nri_runtime.add(plugin)
    container = created()
    assert not container.start().error
    plugin.gate.set()
    assert not container.runs()
    until(lambda: "while it held" in caplog.text, "the exception is logged")
    assert "no device" in caplog.text


@pytest.mark.parametrize("on_failure", ["fail", "ignore"])
def test_a_plugin_that_ends_leaves_its_containers_to_the_policy(
    nri_runtime: Node, created: Callable[..., Created], on_failure: str
) -> None:
    nri_runtime.add(InTask(on_failure=on_failure), name="ends")
    container = created()
    container.start()
    assert "ends" in {thread.name for thread in threading.enumerate()}
    nri_runtime.stop()
    assert "ends" not in {thread.name for thread in threading.enumerate()}
    assert container.runs() == (on_failure == "ignore")


@pytest.mark.parametrize("on_failure", ["fail", "ignore"])
def test_a_launched_plugin_that_is_killed_leaves_its_containers_to_the_policy(
    nri_runtime: Node, created: Callable[..., Created], tmp_path: Path, on_failure: str
) -> None:
    path = tmp_path / "10-holding.py"
    lines = ["import nri", "class Holding(nri.Plugin):", "    holds = True"]
    lines += ["    def start_container(self, request, context):", f"        context.hold(90, {on_failure!r})"]
    path.write_text("\n".join([*lines, "nri.run(Holding())"]))
    plugin = nri_runtime.add(path)
    container = created()
    assert not container.start().error
    assert container.is_held
    assert (nri_runtime.socket.parent / "10-holding/holds").is_dir(), "its state is its own"
    assert plugin.process
    plugin.process.send_signal(signal.SIGKILL)
    assert container.runs() == (on_failure == "ignore")


@pytest.mark.parametrize("event", ["StopContainer", "StopPodSandbox"])
def test_a_container_that_is_stopped_while_it_is_held_never_starts(
    nri_runtime: Node, created: Callable[..., Created], event: str
) -> None:
    plugin = Holding()
    nri_runtime.add(plugin)
    container = created(id="c1", pod={"id": "p1"})
    container.start()
    fields: dict[str, Any] = {"id": "p1"} if event == "StopPodSandbox" else {"id": "c1", "pod": {"id": "p1"}}
    nri_runtime.event(event, **fields)
    assert not container.runs()
    until(lambda: len(plugin.held) == 1, "the handler has ended")
    assert plugin.held[0].end is HoldEnd.REFUSED
    assert plugin.held[0].let_go() is HoldEnd.REFUSED


@pytest.mark.parametrize("stopped", ["held", "other"])
def test_a_stop_reaches_the_plugin_though_no_keeper_can_be_asked(
    nri_runtime: Node,
    created: Callable[..., Created],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    stopped: str,
) -> None:
    """It is told once: what the plugin frees at the stop would stay. The hold ends with the next keeper."""

    class Frees(Holding):
        def stop_container(self, request: api.StopContainerRequest, context: Context) -> None:
            self.stopped.append(request.container.id)

    keepers = []

    def on_ready(self: KeeperProcess, fields: dict[str, str], ready: Any = KeeperProcess.on_ready) -> None:
        ready(self, fields)
        keepers.append(self.pid)

    monkeypatch.setattr(KeeperProcess, "on_ready", on_ready)
    plugin = Frees()
    nri_runtime.add(plugin)
    container = created(id="held")
    container.start()
    until(lambda: len(plugin.held) == 1, "the handler has ended")
    with monkeypatch.context() as patch:
        patch.setattr("sys.executable", "/nowhere")
        killed(keepers[0])
        outcome = nri_runtime.event("StopContainer", id=stopped)
    assert (plugin.stopped, outcome.error) == ([stopped], "")
    why = "container held is stopped while it is held: the container cannot be held: the process that keeps holds has"
    assert (why in caplog.text) == (stopped == "held")
    assert plugin.held[0].refuse() is HoldEnd.REFUSED
    assert not container.runs()


def test_a_container_that_is_killed_while_it_is_held_is_gone(
    nri_runtime: Node, created: Callable[..., Created]
) -> None:
    plugin = Holding()
    nri_runtime.add(plugin)
    container = created()
    container.start()
    container.kill()
    assert not container.runs()
    until(lambda: bool(plugin.held) and plugin.held[0].end is not None, "the plugin is told")
    assert plugin.held[0].end is HoldEnd.GONE


def test_without_evidence_the_handler_decides(nri_runtime: Node) -> None:
    """The recorded container's process is not of this machine."""
    plugin = Holding()
    nri_runtime.add(plugin)
    error = nri_runtime.event("StartContainer", pid=(1 << 22) + 1).error
    assert error.startswith("the container cannot be held: its process is not here")
    assert plugin.held == []


def test_only_start_container_of_a_plugin_that_says_so_holds(nri_runtime: Node) -> None:
    class Silent(Holding):
        holds = False

    class Wrong(Holding):
        def create_container(self, request: api.CreateContainerRequest, context: Context) -> None:
            context.hold()

    nri_runtime.add(Silent())
    assert "`holds = True`" in nri_runtime.event("StartContainer").error
    nri_runtime.add(Wrong(), idx="20")
    assert "`holds = True`" in nri_runtime.event("CreateContainer").error
    context = Context("StartContainer", 2.0, lambda: 0.0, 0.0)
    context.holder = Mock()
    context.hold()
    context.holder.assert_called_once_with(30.0, "fail")


@pytest.mark.parametrize("limit", [0, -1, 91, float("nan")])
def test_a_hold_has_a_limit(limit: float, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at most 90 seconds"):
        Holds(str(tmp_path)).hold(api.Container(id="c", pid=os.getpid()), limit=limit)


# ---- the evidence


def missing(holds: Holds, container: api.Container) -> Missing:
    with pytest.raises(NotHeld) as caught:
        holds.hold(container, timeout=LIMIT)
    assert caught.value.missing.value in str(caught.value)
    return caught.value.missing


def changed(container: Created, **fields: Any) -> api.Container:
    """The container as an event with other fields describes it."""
    copied = api.Container()
    copied.CopyFrom(container.request.container)
    copied.MergeFrom(api.Container(**fields))
    return copied


def test_an_event_of_another_container_is_no_evidence(holds: Holds, created: Callable[..., Created]) -> None:
    container, other = created(id="mine"), created(id="other")
    assert missing(holds, changed(container, id="another")) is Missing.NO_FIFO
    assert missing(holds, changed(container, pid=other.pid)) is Missing.NO_FIFO
    assert missing(holds, changed(container, pid=os.getpid())) is Missing.NO_FIFO
    cgroup = api.LinuxContainer(cgroups_path="/another")
    assert missing(holds, changed(container, linux=cgroup)) is Missing.FOREIGN_CGROUP
    assert missing(holds, api.Container(id="mine", linux=cgroup)) is Missing.NO_PID
    assert not container.is_held
    assert not other.is_held


def test_a_program_that_has_started_is_not_held(holds: Holds, created: Callable[..., Created]) -> None:
    container = created()
    container.start()
    assert container.runs()
    assert missing(holds, container.request.container) is Missing.NO_FIFO


def test_a_container_is_held_once_and_again_after_another_program(
    holds: Holds, created: Callable[..., Created], tmp_path: Path
) -> None:
    container, others = created(), Holds(str(tmp_path / "others"))
    aside = container.directory / evidence.ASIDE
    aside.touch()
    assert missing(holds, container.request.container) is Missing.ALREADY_HELD
    aside.unlink()
    held = holds.hold(container.request.container, timeout=LIMIT)
    try:
        assert missing(others, container.request.container) is Missing.ALREADY_HELD
        assert missing(holds, container.request.container) is Missing.ALREADY_HELD
    finally:
        others.close()
    container.start()
    assert container.is_held
    assert held.let_go() is HoldEnd.LET_GO
    assert container.runs()
    until(lambda: os.listdir(holds.directory) == [], "no record is left")


def test_a_hold_whose_limit_is_over_is_told_to_whoever_asks_what_is_held(
    holds: Holds, created: Callable[..., Created]
) -> None:
    container = created()
    held = holds.hold(container.request.container, limit=0.1, on_failure="ignore", timeout=LIMIT)
    until(lambda: holds.held() == [], "the end is told")
    assert held.end is HoldEnd.LET_GO


def test_an_exchange_that_a_killed_keeper_has_only_begun_is_undone_by_the_next_one(
    holds: Holds, created: Callable[..., Created]
) -> None:
    container = created()
    holds.hold(container.request.container, timeout=LIMIT)
    killed(holds.keeper)
    aside = container.directory / evidence.ASIDE
    aside.rename(container.directory / evidence.FIFO)
    os.mkfifo(aside)  # the keeper has made its own, and nothing more
    holds.start_and_wait(LIMIT)
    container.start()
    assert container.runs()
    until(lambda: not aside.exists(), "nothing is left of the exchange")


def test_the_records_of_a_plugin_that_names_no_directory_are_below_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = Mock()
    monkeypatch.setattr(holds_module, "Holds", made)
    monkeypatch.delenv("RUNTIME_DIRECTORY", raising=False)
    with pytest.raises(SystemExit, match="no runtime at"):
        run(InTask(), "mine", "10", str(tmp_path / "nri.sock"), [])
    assert made.mock_calls == [call("/run/nri-holds/10-mine"), call().end_left(), call().close()]


@pytest.mark.parametrize("mode", [0o720, 0o702])
def test_a_directory_that_others_may_write_to_is_not_touched(
    holds: Holds, created: Callable[..., Created], mode: int
) -> None:
    container = created()
    directory = container.directory
    directory.chmod(mode)
    assert missing(holds, container.request.container) is Missing.FOREIGN_DIRECTORY
    assert [path.name for path in directory.iterdir()] == ["exec.fifo"]


def test_records_are_written_where_others_cannot_write(
    holds: Holds, created: Callable[..., Created], tmp_path: Path
) -> None:
    Path(holds.directory).mkdir(mode=0o777)
    Path(holds.directory).chmod(0o777)
    container = created()
    assert missing(holds, container.request.container) is Missing.NO_RECORD
    Path(holds.directory).chmod(0o755)
    another = Path(holds.directory, f"{container.request.container.id}.hold")
    another.touch()
    assert missing(holds, container.request.container) is Missing.ALREADY_HELD
    another.unlink()
    holds.hold(container.request.container, timeout=LIMIT)
    (record,) = Path(holds.directory).iterdir()
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    assert f"pid {container.pid}\n" in record.read_text()


def test_without_the_id_of_the_boot_no_container_is_held(
    created: Callable[..., Created], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands in the record. A keeper would end, and with it all holds."""
    container = created().request.container
    monkeypatch.setattr(evidence, "boot", Mock(side_effect=PermissionError(errno.EACCES, "Permission denied")))
    with pytest.raises(NotHeld, match=f"{Missing.NO_RECORD.value}: .*Permission denied"):
        evidence.waiting(container.id, container.pid, container.linux.cgroups_path)


def test_a_descriptor_that_is_closed_meanwhile_is_passed_over(
    created: Callable[..., Created], monkeypatch: pytest.MonkeyPatch
) -> None:
    container, readlink, closed = created(id="c"), os.readlink, iter([True])

    def late(path: str) -> str:
        if next(closed, False):
            raise FileNotFoundError
        return readlink(path)

    monkeypatch.setattr(os, "readlink", late)
    found = evidence.waiting("c", container.pid, container.request.container.linux.cgroups_path)
    assert found.directory == str(container.directory)


def test_a_descriptor_by_the_name_of_the_fifo_is_no_evidence_if_it_is_another_file(
    created: Callable[..., Created], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a program in a mount namespace of its own, in which the same path is another FIFO."""
    container, fifo = created(id="c"), tmp_path / "exec.fifo"
    os.mkfifo(fifo)
    monkeypatch.setattr(evidence, "_reached", lambda directory, pid: (directory, fifo.stat()))
    with pytest.raises(NotHeld) as caught:
        evidence.waiting("c", container.pid, container.request.container.linux.cgroups_path)
    assert caught.value.missing is Missing.NOT_HERE


CGROUPS = [
    ("/kubepods/pod1/c", "/kubepods/pod1/c", True),
    ("/kubepods/pod1/c/below", "/kubepods/pod1/c", True),
    ("/kubepods/pod1/c2", "/kubepods/pod1/c", False),
    ("/system.slice/crio-c.scope/container", "system.slice:crio:c", True),
    ("/../crio-c.scope", "/machine.slice/crio-c.scope", True),
    ("/../../pod1/c", "/kubepods/pod1/c", True),
    ("/../../pod2/c", "/kubepods/pod1/c", False),
    ("/../..", "/kubepods/pod1/c", False),
    ("/", "/kubepods/pod1/c", False),
    ("/a", "/", False),
]
"""The cgroup of a process as this program sees it, that of the container, and whether they fit."""


@pytest.mark.parametrize(("seen", "container", "fits"), CGROUPS)
def test_the_process_is_in_the_cgroup_of_the_container(seen: str, container: str, fits: bool) -> None:
    assert evidence.is_below(seen, expand(container)) == fits


def test_a_keeper_that_cannot_start_leaves_no_process(holds: Holds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    container = api.Container(id="c1", pid=os.getpid())
    for ask in (Holds.start_and_wait, lambda holds: holds.hold(container, timeout=LIMIT)):
        with pytest.raises(NotHeld, match=Missing.NO_KEEPER.value):
            ask(holds)
        assert holds.keeper == 0
    monkeypatch.undo()
    assert missing(holds, container) is Missing.NO_FIFO, "the next keeper starts"


def test_a_keeper_starts_for_a_program_that_has_closed_its_stdin_and_stdout(tmp_path: Path) -> None:
    """The socket to it gets their numbers."""
    code = "import os, sys, nri.holding.holds as its; os.closerange(0, 2); its.Holds(sys.argv[1]).start_and_wait()"
    subprocess.run([sys.executable, "-c", code, tmp_path / "holds"], check=True, timeout=LIMIT)


def test_a_keeper_that_was_killed_and_cannot_be_replaced_is_no_longer_listened_to(
    holds: Holds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its socket would be readable for ever."""
    holds.start_and_wait()
    os.kill(holds.keeper, signal.SIGKILL)
    monkeypatch.setattr("sys.executable", "/nowhere")
    assert select.select([holds], [], [], LIMIT)[0]
    with pytest.raises(NotHeld, match=Missing.NO_KEEPER.value):
        holds.look()
    assert (holds.keeper, holds.fileno()) == (0, -1)


# ---- a keeper that does not answer

Stop = Callable[[int], None]
MANY = 300
"""More messages than the kernel keeps for one who reads none."""


def test_a_keeper_that_does_not_answer_is_replaced_and_its_other_holds_stay_in_force(
    holds: Holds,
    created: Callable[..., Created],
    stopped: Stop,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(holds_module, "NEXT", LIMIT)
    containers = [created(id=id_) for id_ in ("let-go", "held", "short")]
    for container, seconds in zip(containers, (90, 90, 0.2), strict=True):
        holds.hold(container.request.container, limit=seconds, timeout=LIMIT)
        container.start()
    first, second, short = containers
    held = {hold.id: hold for hold in holds.held()}
    keeper = holds.keeper
    stopped(keeper)
    assert holds.end(held["let-go"], HoldEnd.LET_GO, timeout=0) is HoldEnd.LET_GO
    gone(keeper)
    assert f"the keeper of holds, process {keeper}, does not answer: it is killed" in caplog.messages
    assert first.runs()
    assert not short.runs(), "its limit is that of the first keeper"
    assert (second.is_held, held["held"].end) == (True, None)
    assert held["held"].refuse() is HoldEnd.REFUSED
    assert not second.runs()


def test_a_keeper_that_reads_nothing_blocks_nobody(holds: Holds, stopped: Stop) -> None:
    holds.start_and_wait(LIMIT)
    stopped(holds.keeper)
    with limit("all requests are sent"):
        for number in range(MANY):
            with pytest.raises(NotHeld, match=Missing.NO_KEEPER.value):
                holds.hold(api.Container(id=f"c{number}", pid=os.getpid()), timeout=0)
    assert len(holds._wanted) < MANY, "none for what it was not asked"


def test_a_plugin_that_reads_nothing_blocks_no_keeper(holds: Holds) -> None:
    holds.start_and_wait(LIMIT)
    assert holds._keeper is not None
    request: dict[str, object] = {"do": HoldEnd.LET_GO.value, "id": "of no hold"}
    for _ in range(3 * MANY):  # requests that the keeper does not read would fill the socket as well
        until(partial(holds._keeper.send, request), "the keeper reads on")


def test_a_container_that_was_let_go_and_has_not_started_yet_is_let_go_by_the_next_keeper_too(
    holds: Holds, created: Callable[..., Created]
) -> None:
    """Its limit would refuse it, though all that the plugin has to say of it has been said."""
    held = holds.hold(created().request.container, timeout=LIMIT)
    assert held.let_go() is HoldEnd.LET_GO
    killed(holds.keeper)
    following = Keeper(-1, holds.directory, os.getpid())
    following._take_over()
    (left,) = following._held.values()
    assert (left.wanted, left.end) == (HoldEnd.LET_GO, HoldEnd.LET_GO)
    left._steps.close()


@pytest.mark.parametrize("descriptors", [5, 6, 7, 8, 9])
def test_a_keeper_without_enough_descriptors_ends_and_the_next_one_takes_over(
    holds: Holds,
    created: Callable[..., Created],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    descriptors: int,
) -> None:
    """A hold whose files it cannot open is neither let go nor forgotten. With nine, it has all of the first one."""
    containers = [created(id=id_) for id_ in ("first", "second")]
    held = [holds.hold(container.request.container, limit=90, timeout=LIMIT) for container in containers]
    for container in containers:
        container.start()
    killed(holds.keeper)
    limited = f'ulimit -n {descriptors}; exec {shlex.quote(sys.executable)} "$@"'
    narrow = Programs(tmp_path).write("python", f"#!/bin/sh\n{limited}\n")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", str(narrow))
        with pytest.raises(NotHeld, match=Missing.NO_KEEPER.value):
            holds.start_and_wait(LIMIT)
    assert "Too many open files" in capfd.readouterr().err
    assert [container.is_held for container in containers] == [True, True]
    assert [hold.let_go() for hold in held] == [HoldEnd.LET_GO] * 2
    assert [container.runs() for container in containers] == [True, True]


def test_a_keeper_that_does_not_answer_and_cannot_be_killed_is_asked_again_later(
    holds: Holds, created: Callable[..., Created], stopped: Stop, monkeypatch: pytest.MonkeyPatch
) -> None:
    container = created()
    held = holds.hold(container.request.container, timeout=LIMIT)
    keeper = holds.keeper
    stopped(keeper)
    with monkeypatch.context() as patch:
        patch.setattr(holds_module, "NEXT", 0.01)
        patch.setattr(os, "pidfd_open", Mock(side_effect=OSError(errno.EMFILE, "Too many open files")))
        with limit("it is not asked for ever"), pytest.raises(NotHeld, match=Missing.NO_KEEPER.value):
            holds.end(held, HoldEnd.LET_GO, timeout=0)
    assert (container.is_held, holds.keeper) == (True, keeper)
    os.kill(keeper, signal.SIGCONT)
    until(lambda: held.end is not None, "the keeper has told of the end")
    assert held.end is HoldEnd.LET_GO


def test_a_keeper_that_is_killed_and_does_not_end_yet_is_not_ready(
    holds: Holds, stopped: Stop, created: Callable[..., Created], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that waits for a disk."""
    held = holds.hold(created().request.container, timeout=LIMIT)
    stopped(holds.keeper)
    with monkeypatch.context() as patch:
        patch.setattr(holds_module, "NEXT", 0.01)
        patch.setattr(signal, "pidfd_send_signal", Mock())
        with pytest.raises(NotHeld, match=Missing.NO_KEEPER.value):
            holds.end(held, HoldEnd.LET_GO, timeout=0)
    assert (holds.keeper, holds.fileno() >= 0) == (0, True)


def test_a_container_that_a_slow_keeper_holds_for_nobody_is_let_go(
    holds: Holds, created: Callable[..., Created], stopped: Stop
) -> None:
    first, second = created(), created()
    holds.start_and_wait(LIMIT)
    stopped(holds.keeper)
    with pytest.raises(NotHeld, match=Missing.NO_KEEPER.value):
        holds.hold(first.request.container, timeout=0)
    os.kill(holds.keeper, signal.SIGCONT)
    holds.hold(second.request.container, timeout=LIMIT)  # what came before it has been served
    first.start()
    assert first.runs()


def test_a_container_that_is_held_too_late_is_let_go_by_the_next_keeper(
    holds: Holds, created: Callable[..., Created], stopped: Stop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one is killed before it reads that nobody waits for it."""
    container = created()
    holds.start_and_wait(LIMIT)
    keeper = holds.keeper
    stopped(keeper)
    send = KeeperProcess.send

    def send_hold(keeper: KeeperProcess, request: dict[str, object]) -> bool:
        return request["do"] == "hold" and send(keeper, request)

    with monkeypatch.context() as patch:
        patch.setattr(KeeperProcess, "send", send_hold)
        with pytest.raises(NotHeld):
            holds.hold(container.request.container, timeout=0)
    os.kill(keeper, signal.SIGCONT)
    until(lambda: container.is_held, "the container is held")
    killed(keeper)
    container.start()

    def has_next() -> bool:
        holds.look()
        return holds.keeper not in {0, keeper}

    until(has_next, "the next keeper has started")
    assert container.runs()


@pytest.mark.parametrize("is_next", [True, False], ids=["the next one does not answer in time", "there is none"])
def test_an_end_that_no_keeper_could_be_asked_for_comes_with_the_next_one(
    holds: Holds, created: Callable[..., Created], monkeypatch: pytest.MonkeyPatch, *, is_next: bool
) -> None:
    container = created()
    held = holds.hold(container.request.container, timeout=LIMIT)
    container.start()
    killed(holds.keeper)
    with monkeypatch.context() as patch:
        patch.setattr("sys.executable", sys.executable if is_next else "/nowhere")
        with pytest.raises(NotHeld, match=Missing.NO_KEEPER.value):
            holds.end(held, HoldEnd.LET_GO, timeout=0 if is_next else LIMIT)
    holds.prepare()
    until(lambda: held.end is not None, "the next keeper has told of the end")
    assert held.end is HoldEnd.LET_GO
    assert container.runs()


# ---- descriptors


def test_the_socket_to_the_keeper_may_have_a_large_number(holds: Holds) -> None:
    """As in a program with many files: `select` cannot wait for it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2048:
        pytest.skip("no program has so many descriptors here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1024)]
    try:
        holds.start_and_wait(LIMIT)
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert holds.fileno() >= 1024
    assert missing(holds, api.Container(id="c1", pid=os.getpid())) is Missing.NO_FIFO


def test_without_a_descriptor_for_the_socket_no_container_is_held(
    holds: Holds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "socketpair", Mock(side_effect=OSError(errno.EMFILE, "Too many open files")))
    for ask in (Holds.start, Holds.prepare, lambda holds: holds.hold(api.Container(id="c1", pid=os.getpid()))):
        with pytest.raises(NotHeld, match=f"{Missing.NO_KEEPER.value}: .*Too many open files"):
            ask(holds)
        assert (holds.keeper, holds.fileno()) == (0, -1)
