"""Ctrl-C: one line, exit code 130, and nothing is left behind."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import IO, Any

import pytest

from v010_adapter.cli.simulate.trial import Scratch

from .rig.brief import few
from .rig.daemon import MEASURED, kill_tree
from .rig.interpreter import FIRST_LINE
from .rig.programs import Fifo, Programs
from .rig.waiting import LIMIT, limit, running, until


@pytest.fixture
def temporary(tmp_path: Path) -> Iterator[Path]:
    """The directory for temporary files, which is empty afterwards."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    yield directory
    assert list(directory.iterdir()) == []


@contextmanager
def started(*words: str | Path, directory: Path, stderr: int = PIPE) -> Iterator[subprocess.Popen[str]]:
    """A command as a shell runs it: its process group gets what Ctrl-C sends. Its runtimes wait long."""
    patient = Path(__file__).with_name("rig") / "patient.py"
    environment = {"PATH": os.defpath, "TMPDIR": str(directory), **MEASURED}
    with running(
        [sys.executable, "-P", patient, *words], env=environment, stdout=PIPE, stderr=stderr, text=True, process_group=0
    ) as command:
        try:
            yield command
        finally:
            if command.poll() is None:
                kill_tree(command.pid)


def heard(stream: IO[str] | None) -> str:
    with limit("no line comes"):
        return stream.readline() if stream else ""


def opened(fifo: Path) -> IO[str]:
    """A FIFO, once somebody has opened it to write."""
    with limit(f"nobody opens {fifo}"):
        return fifo.open()


def read_to(stream: IO[str] | None, text: str) -> None:
    """Reads lines to one with this text."""
    assert stream
    lines: list[str] = []
    with limit(lambda: f"{text}, after {lines}"):
        for line in stream:
            lines.append(line)
            if text in line:
                return
    raise AssertionError(f"never came: {text}: {lines}")


def interrupt(command: subprocess.Popen[str]) -> None:
    os.killpg(command.pid, signal.SIGINT)


def end(command: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code, and the rest of stderr."""
    with limit("the command does not end"):
        _, err = command.communicate()
    return command.returncode, err


def ignores(number: int, pid: int) -> bool:
    (ignored,) = re.findall(r"^SigIgn:\t(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return bool(int(ignored, 16) & 1 << number - 1)


SAID = (130, "v010-adapter: interrupted\n")


@pytest.mark.parametrize("after", few(["The life of a pod", "CreateContainer"], 1))
def test_a_demo_ends_the_adapter_and_its_programs_before_it_removes_the_files(temporary: Path, after: str) -> None:
    with started("demo", directory=temporary) as demo:
        read_to(demo.stdout, after)
        interrupt(demo)
        assert end(demo) == SAID


def test_an_invocation_ends_the_plugin_and_what_it_has_started(tmp_path: Path, temporary: Path) -> None:
    fifo, last = tmp_path / "fifo", Fifo(tmp_path / "last")
    plugin = Programs(tmp_path).shell("plugin", f"exec 9>{fifo}\ncat {last} &\necho at work >&9\nwait")
    os.mkfifo(fifo)
    # `cat` ends with the test, if nobody kills it.
    with closing(last), started("invoke", plugin, directory=temporary) as invocation, opened(fifo) as held:
        assert heard(held) == "at work\n"
        interrupt(invocation)
        assert end(invocation) == SAID
        with limit("a process that the plugin has started is left"):
            assert held.read() == ""


def test_an_invocation_of_a_plugin_that_hangs_shows_its_request_and_that_it_waits(
    tmp_path: Path, temporary: Path
) -> None:
    plugin, config = Programs(tmp_path).shell("plugin", "exec sleep 1000"), tmp_path / "own.yaml"
    config.write_text("runtime: {reserve: 1.9}")
    with started("invoke", plugin, "-config", config, directory=temporary) as invocation:
        assert heard(invocation.stdout).startswith(f"{plugin} is not in ")
        assert '"state":"create"' in heard(invocation.stdout)
        assert re.fullmatch(r"no result within \d+\.\d s; waiting, Ctrl-C ends\n", heard(invocation.stderr))
        interrupt(invocation)
        assert end(invocation) == SAID


def test_at_a_terminal_a_simulation_says_why_it_does_not_end_at_once(tmp_path: Path, temporary: Path) -> None:
    plugin = Programs(tmp_path).write("10-slow", SLOW_TO_END)
    ours, theirs = os.openpty()
    with started("simulate", "-plugin", plugin, directory=temporary, stderr=theirs) as simulation:
        os.close(theirs)
        with open(ours, errors="replace") as terminal, plugin.open() as held:
            read_to(terminal, "at work")
            fcntl.flock(held, fcntl.LOCK_EX)
            interrupt(simulation)
            read_to(terminal, "waiting 12 s at most for the plugins to end")
            fcntl.flock(held, fcntl.LOCK_UN)
            assert simulation.wait(LIMIT) == 130


SLOW_TO_END = f"""\
{FIRST_LINE}
import fcntl, os, signal, sys
from nri import Plugin, run
def end(*_):
    print("ending", file=sys.stderr, flush=True)
    with open(__file__) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
    print("ended", file=sys.stderr, flush=True)
    os._exit(0)
class Slow(Plugin):
    def run_pod_sandbox(self, request, context):
        signal.signal(signal.SIGTERM, end)
        print("at work", file=sys.stderr, flush=True)
        signal.pause()
run(Slow())
"""


@pytest.mark.parametrize("what", few([[], ["-pods", "1"]], 1))
def test_what_a_plugin_has_started_ends_with_the_simulation(tmp_path: Path, temporary: Path, what: list[str]) -> None:
    fifo, last = tmp_path / "fifo", Fifo(tmp_path / "last")
    script = f"exec 9>{fifo} 2>/dev/null\ncat {last} 3>&- &\necho at work >&9"
    plugin = Programs(tmp_path).shell("10-leaves", script)
    os.mkfifo(fifo)
    words: list[str | Path] = ["simulate", *what, "-plugin", plugin]
    with closing(last), started(*words, directory=temporary) as simulation, opened(fifo) as held:
        assert heard(held) == "at work\n"
        assert end(simulation) == (1, "")
        with limit("a process that the plugin has started is left"):
            assert held.read() == ""


@pytest.mark.parametrize("what", few([["-contract"], ["-contract", "-socket", "nri.sock"], ["-pods", "1"], []]))
def test_sigterm_ends_a_simulation_as_ctrl_c_does(tmp_path: Path, temporary: Path, what: list[str]) -> None:
    """CI ends a command that takes too long with SIGTERM."""
    plugin = Programs(tmp_path).shell("10-hangs", "echo at work >&2\nexec sleep 1000")
    words = [str(tmp_path / word) if word == "nri.sock" else word for word in what]
    with started("simulate", *words, "-plugin", plugin, directory=temporary) as simulation:
        assert heard(simulation.stderr) == "at work\n"
        simulation.terminate()
        assert end(simulation) == (143, "")  # stderr is at its end, so the plugin has ended, too
    assert list(tmp_path.glob("*.sock")) == []


@pytest.mark.parametrize(("number", "told"), [(signal.SIGINT, SAID), (signal.SIGTERM, (143, ""))])
def test_a_second_one_does_not_disturb_the_clean_up(
    tmp_path: Path, temporary: Path, number: int, told: tuple[int, str]
) -> None:
    plugin = Programs(tmp_path).write("10-slow", SLOW_TO_END)
    with started("simulate", "-plugin", plugin, directory=temporary) as simulation:
        assert heard(simulation.stderr) == "at work\n"
        with plugin.open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            simulation.send_signal(number)
            assert heard(simulation.stderr) == "ending\n"
            until(lambda: ignores(number, simulation.pid), "the command is not interrupted again")
            simulation.send_signal(number)
        assert end(simulation) == (told[0], f"ended\n{told[1]}")


@pytest.mark.parametrize(("module", "name"), [(tempfile, "mkdtemp"), (os, "rmdir")])
def test_ctrl_c_waits_while_a_directory_is_made_or_removed(
    monkeypatch: pytest.MonkeyPatch, temporary: Path, module: Any, name: str
) -> None:
    """Of shutil.rmtree, Debian's tempfile has one of its own."""
    real, did = getattr(module, name), list[str]()

    def interrupted(*arguments: Any, **more: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        result = real(*arguments, **more)
        did.append(name)
        signal.raise_signal(signal.SIGINT)
        return result

    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setattr(module, name, interrupted)
    scratch = None
    with pytest.raises(KeyboardInterrupt), (scratch := Scratch("interrupted-")) as directory:
        Path(directory, "file").touch()
    assert did == [name]
    assert scratch is None or not Path(scratch.name).exists(), "the end of the object, too, would remove it"


def test_sigint_that_is_ignored_stays_so() -> None:
    """A shell script that runs the command in the background ignores SIGINT."""
    code = (
        "import signal; from v010_adapter.cli import entry; entry.main(); print(signal.getsignal(signal.SIGINT).name)"
    )
    words = ["/bin/sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-c", code, "completion", "bash"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "SIG_IGN"
