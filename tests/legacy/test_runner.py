"""Where plugins are found, what environment they get, and what becomes of those that are left."""

from __future__ import annotations

import gc
import logging
import os
import re
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from v010_adapter.errors import PluginError
from v010_adapter.legacy import find as plugins
from v010_adapter.legacy.find import SYSTEM_PATH, find
from v010_adapter.programs.process import MAX_LEFT, Process, Runner

from ..rig.loop import SteppedLoop
from ..rig.processes import is_running
from ..rig.programs import Fifo, Programs


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    made = [tmp_path / name for name in ("first", "second")]
    for folder in made:
        folder.mkdir()
    return made


def program(path: Path, mode: int = 0o755) -> str:
    path.unlink(missing_ok=True)  # only root can write to one that nobody may
    return str(Programs(path.parent).shell(path.name, 'echo "$0"', mode))


def names(folders: list[Path]) -> list[str]:
    return [str(folder) for folder in folders]


def refusal(type_: str, folders: list[Path]) -> str:
    with pytest.raises(PluginError) as caught:
        find(type_, names(folders))
    assert caught.value.program == type_
    return str(caught.value)


def test_the_first_folder_that_has_it_counts_and_those_that_do_not_exist_are_passed_over(folders: list[Path]) -> None:
    second = program(folders[1] / "konfine")
    (folders[0] / "file").write_text("")
    searched = ["/no/such/folder", str(folders[0] / "file"), *names(folders)]
    assert find("konfine", searched) == second
    first = program(folders[0] / "konfine")
    assert find("konfine", searched) == first


def test_symlinks_are_followed_and_dangling_ones_are_not_there(folders: list[Path]) -> None:
    program(folders[1] / "real")
    (folders[0] / "link").symlink_to("../second/real")
    assert find("link", names(folders)) == str(folders[0] / "link")
    (folders[0] / "dangling").symlink_to("nowhere")
    assert refusal("dangling", folders) == f"plugin: dangling: not found in {folders[0]}:{folders[1]}"
    there = program(folders[1] / "dangling")
    assert find("dangling", names(folders)) == there


def test_what_is_not_executable_is_an_error_and_no_other_takes_its_place(folders: list[Path]) -> None:
    program(folders[1] / "konfine")
    for mode in (0o644, 0o600, 0o000):
        path = program(folders[0] / "konfine", mode)
        assert refusal("konfine", folders) == f"plugin: konfine: {path} is not an executable file: chmod +x {path}"
    modes = (0o100, 0o010, 0o001) if os.geteuid() == 0 else (0o100,)  # for root, anybody's right to execute will do
    for mode in modes:
        path = program(folders[0] / "konfine", mode)
        assert find("konfine", names(folders)) == path
    (folders[0] / "folder").mkdir()
    os.mkfifo(folders[0] / "fifo", 0o755)
    for type_ in ("folder", ".", "..", "fifo"):
        assert refusal(type_, folders) == f"plugin: {type_}: {folders[0]}/{type_} is not an executable file"


def test_a_type_with_a_slash_is_a_path(folders: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = program(folders[0] / "konfine")
    assert find(path, []) == path
    monkeypatch.chdir(folders[0].parent)
    assert find("first/konfine", names(folders)) == "first/konfine"
    assert find("./first/konfine", names(folders)) == "./first/konfine"
    with pytest.raises(PluginError) as caught:
        find("/no/such/program", names(folders))
    assert str(caught.value) == "plugin: /no/such/program: not found"


def test_what_cannot_be_looked_at_is_an_error(folders: list[Path]) -> None:
    (folders[0] / "loop").symlink_to("loop")
    long = "x" * 300
    assert refusal(long, folders) == f"plugin: {long}: {folders[0]}/{long}: File name too long"
    for type_, reason in ((long, "File name too long"), ("loop/x", "symbolic links")):
        with pytest.raises(PluginError, match=reason):
            find(str(folders[0] / type_), [])


class Crew:
    """A runner of plugins, and what it tells."""

    def __init__(self, loop: SteppedLoop, programs: plugins.Programs) -> None:
        self.loop = loop
        self.programs = programs
        self.runner = Runner(loop)
        self.ended: list[Process] = []
        self.left: list[Process] = []

    def start(self, type_: str, request: bytes = b"{}") -> Process:
        process = self.runner.spawn(self.programs.program(type_), self.ended.append)
        process.feed(request)
        return process

    def run(self, type_: str) -> str:
        process = self.start(type_)
        self.loop.until(lambda: process in self.ended)
        return process.stdout.decode()

    def leave(self, type_: str, has_result: bool = False) -> None:
        self.left.append(self.start(type_))
        if has_result:
            self.runner.let_work(self.left[-1])
        else:
            self.runner.leave(self.left[-1], kill=False)


Hire = Callable[..., Crew]


@pytest.fixture
def crew(loop: SteppedLoop, caplog: pytest.LogCaptureFixture) -> Hire:
    caplog.set_level(logging.INFO)

    def make(*folders: Path | str, **environment: str) -> Crew:
        return Crew(loop, plugins.Programs([str(folder) for folder in folders], environment))

    return make


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [re.sub(r"pid \d+", "pid N", record.getMessage()) for record in caplog.records]


def test_the_environment_is_a_path_of_the_usual_folders_and_then_the_plugins_own_or_as_configured(
    crew: Hire, programs: Programs, folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NRI_PLUGIN_NAME", "v010-adapter")
    programs.shell("tell", "cat /proc/$$/environ")
    usual = f"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:{programs.folder}:/opt/x\0"
    assert crew(programs.folder, "/opt/x").run("tell") == usual
    assert crew(programs.folder, "/opt/x", LANG="C", EMPTY="").run("tell") == f"{usual}LANG=C\0EMPTY=\0"
    program(folders[0] / "elsewhere")
    hired = crew(programs.folder, PATH=f"{folders[0]}:/bin")
    assert hired.run("tell") == f"PATH={folders[0]}:/bin\0"
    assert hired.run("elsewhere").startswith(str(folders[0]))


def test_plugins_folders_are_searched_before_the_systems(crew: Hire, programs: Programs, folders: list[Path]) -> None:
    """The original searched PATH first: a plugin called `logger` was the program of that name."""
    for folder in folders:
        program(folder / "twice")
    assert crew(*folders).run("twice") == f"{folders[0]}/twice\n"
    assert crew(*reversed(folders)).run("twice") == f"{folders[1]}/twice\n"
    programs.shell("who", "echo the plugin")
    assert crew(programs.folder).run("who") == "the plugin\n"
    assert "/bin" in SYSTEM_PATH.split(":")
    assert crew(programs.folder).run("true") == ""


def test_stderr_is_logged_at_debug_with_the_plugins_name_and_only_runs_that_were_started_are_counted(
    crew: Hire, programs: Programs, caplog: pytest.LogCaptureFixture
) -> None:
    programs.shell("loud", "echo one >&2; echo two >&2")
    programs.write("bad", b"")
    hired = crew(programs.folder)
    hired.run("loud")
    assert said(caplog) == []
    caplog.set_level(logging.DEBUG)
    hired = crew(programs.folder)
    hired.run("loud")
    assert said(caplog) == ["loud: stderr: one", "loud: stderr: two"]
    assert [record.fields for record in caplog.records] == [{"plugin": "loud", "stream": "stderr"}] * 2  # type: ignore[attr-defined]
    for type_, error in (("bad", OSError), ("absent", PluginError)):
        with pytest.raises(error):
            hired.start(type_)
    assert sum(one.runs for one in hired.runner.accounts.values()) == 1


LEFT: dict[str, tuple[Callable[[Runner, Process], object], str, str]] = {
    # how a program is left, and what is said then and at its end
    "left": (
        lambda runner, process: runner.leave(process, kill=False),
        "has no result in time: left to finish",
        "exit code 3",
    ),
    "killed": (
        lambda runner, process: runner.leave(process, kill=True),
        "has no result in time: killed",
        "killed by signal 9",
    ),
    "working": (lambda runner, process: runner.let_work(process), "works on after its result", "exit code 3"),
}


@pytest.mark.parametrize("how", LEFT)
def test_one_that_is_left_is_reaped_with_nobody_told(
    crew: Hire, programs: Programs, gate: Fifo, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    leave, then, ending = LEFT[how]
    programs.shell("slow", f"read line < {gate}; echo done >&2; exit 3")
    hired = crew(programs.folder)
    process = hired.start("slow")
    leave(hired.runner, process)
    if how != "killed":
        hired.loop.settle()
        assert is_running(process.pid)
        gate.put()
    hired.loop.until(lambda: process.status is not None)
    hired.loop.settle()
    assert hired.ended == []
    end = f"slow: pid N, which was left running, has ended: {ending}"
    assert said(caplog) == [f"slow: pid N {then}", end]
    assert [(one.runs, one.killed) for one in hired.runner.accounts.values()] == [(1, how == "killed")]


@pytest.fixture
def slow(crew: Hire, programs: Programs, gate: Fifo) -> Iterator[Crew]:
    """A crew whose programs wait at the gate until the test is over."""
    for name in ("slow", "other"):
        programs.shell(name, f"read line < {gate}")
    hired = crew(programs.folder)
    yield hired
    for process in hired.left:
        if process.status is None:
            gate.put()
    hired.loop.until(lambda: all(process.status is not None for process in hired.left))


def killed(crew: Crew) -> int:
    return sum(one.killed for one in crew.runner.accounts.values())


def ended(crew: Crew, *numbers: int) -> bool:
    return all(crew.left[number].status is not None for number in numbers)


def test_of_too_many_that_are_left_the_oldest_is_killed_by_name(slow: Crew, caplog: pytest.LogCaptureFixture) -> None:
    assert MAX_LEFT == 32
    for number in range(MAX_LEFT + 2):
        slow.leave("slow")
        slow.loop.until(lambda number=number: ended(slow, *range(number + 1 - MAX_LEFT)))  # type: ignore[misc]
    slow.loop.settle()
    assert [process.status for process in slow.left] == [-9] * 2 + [None] * MAX_LEFT
    assert killed(slow) == 2
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert errors == [f"slow: more than 32 left: pid {one.pid}, the oldest, is killed" for one in slow.left[:2]]


def test_those_that_have_ended_by_themselves_do_not_count_and_are_forgotten(slow: Crew, gate: Fifo) -> None:
    for _ in range(MAX_LEFT + 2):
        slow.leave("slow")
        gate.put()
        slow.loop.until(lambda: ended(slow, -1))
    slow.loop.settle()
    assert (killed(slow), slow.ended) == (0, [])
    remembered = weakref.ref(slow.left.pop())
    slow.left.clear()
    gc.collect()
    assert remembered() is None
