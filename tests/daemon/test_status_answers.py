"""What `status` makes of what it is told, how long an answer may be, and where it cannot ask."""

from __future__ import annotations

import errno
import json
import os
import socket
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.rig.sockets import bind, connect, listening
from v010_adapter.cli import command_line as cli
from v010_adapter.host.trust import strict
from v010_adapter.monitoring import status
from v010_adapter.monitoring.endpoints import Endpoints
from v010_adapter.monitoring.sanitize import MAX_SHOWN, bounded
from v010_adapter.monitoring.status import StatusSocket

from ..rig.clock import Clock
from ..rig.loop import SteppedLoop
from ..rig.processes import failing
from ..rig.waiting import LIMIT, limit

Capture = pytest.CaptureFixture[str]
REOPEN_AFTER = 10.0
JOINED = {"state": "joined", "pid": 7, "faults": []}
CONNECTING = {"state": "connecting", "pid": 7, "faults": []}


# ---- waiting


@pytest.fixture
def wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the command with a clock of its own, in front of adapters that tell one thing after the other."""

    def run(*told: list[dict[str, Any]], seconds: str = "10") -> tuple[int, float]:
        clock, looks = Clock(), iter(told)
        begun = clock.now
        monkeypatch.setattr(time, "monotonic", clock)
        monkeypatch.setattr(time, "sleep", lambda pause: setattr(clock, "now", clock.now + pause))
        last: list[list[dict[str, Any]]] = [[]]
        monkeypatch.setattr(status, "ask", lambda *_: last.__setitem__(0, next(looks, last[0])) or last[0])
        code = cli.main(["status", "-directory", str(tmp_path), "-wait", seconds, "-o", "json"])
        return code, clock.now - begun

    return run


def test_it_waits_for_an_adapter_and_its_runtime_no_longer_than_it_is_told_to(wait: Any, capsys: Capture) -> None:
    assert wait([], [CONNECTING], [CONNECTING], [CONNECTING, JOINED]) == (0, 1.5)
    assert json.loads(capsys.readouterr().out)["adapters"] == [CONNECTING, JOINED], "it is told once"
    assert wait([JOINED]) == (0, 0)
    assert wait([{**JOINED, "faults": ["one"]}]) == (1, 0)
    assert wait(seconds="2.2") == (3, pytest.approx(2.2))
    assert capsys.readouterr().err.startswith("no adapter has joined a runtime within 2.2 s\nno adapter runs with")
    assert wait([CONNECTING], seconds="1") == (1, 1)
    assert capsys.readouterr().err == "no adapter has joined a runtime within 1 s\n"


@pytest.mark.parametrize("words", [["-1"], ["nan"], ["inf"], ["soon"], ["1", "-watch"]])
def test_the_time_is_a_number_and_watching_is_something_else(words: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(["status", "-wait", *words])


# ---- what it is told


def test_what_is_no_object_is_no_answer_and_another_version_is_named(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(text: bytes) -> None:
        with listener.accept()[0] as asker:
            asker.sendall(text)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.settimeout(LIMIT)
        bind(listener, tmp_path / "status-\x1b1")
        assert cli.main(["status", "-directory", str(tmp_path)]) == 3  # nobody listens
        capsys.readouterr()
        listener.listen()
        for text, code, said in (
            *((bad, 1, "does not answer") for bad in (b"[]", b"7", b"{", b'{"a": ' * 2000, b"a\x1b[2J\r\xff")),
            (b'{"pid": 7, "version": "9.0", "faults": []}', 0, "9.0, pid 7: not the version of this command"),
        ):
            adapter = threading.Thread(target=answer, args=(text,), daemon=True)
            adapter.start()
            try:
                assert cli.main(["status", "-directory", str(tmp_path)]) == code
            finally:
                adapter.join()
            out = capsys.readouterr().out
            assert said in out
            assert all(line.isprintable() for line in out.split("\n"))
        monkeypatch.setattr(status, "ANSWER_TIMEOUT", 0.01)
        with limit("an adapter that says nothing is waited for"):
            assert cli.main(["status", "-directory", str(tmp_path)]) == 1
        assert "does not answer: timed out" in capsys.readouterr().out


# ---- the length of an answer


def test_a_long_text_is_cut_and_marked() -> None:
    for text in ("x" * MAX_SHOWN, "é" * (MAX_SHOWN // 2), "", 7, None):
        assert bounded(text) == text
    for text, size in (("x" * 900_000, 900_000), ("é" * 4096, 8192), ("\ud800" * 1000, 6000)):
        [(key, [value])] = bounded({text: [text]}).items()
        assert key == value
        assert len(value.encode()) <= MAX_SHOWN + 30
        assert value.endswith(f" … ({size} bytes)")


MUCH = {"text": ["x" * 4000] * 2000}


def test_an_answer_is_whole_however_little_the_sockets_take_at_once(loop: SteppedLoop, tmp_path: Path) -> None:
    server = StatusSocket(loop, str(tmp_path / "state"), lambda: MUCH, strict)
    [path] = (tmp_path / "state").iterdir()
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as other:
        got, done = {one: bytearray(), other: bytearray()}, list[socket.socket]()

        def read(asker: socket.socket) -> None:
            chunk = asker.recv(10_000)
            got[asker] += chunk
            if not chunk:
                loop.unwatch(asker.fileno())
                done.append(asker)

        for asker in got:
            connect(asker, path)
            asker.setblocking(False)
            loop.watch(asker.fileno(), partial(read, asker))
        loop.until(lambda: len(done) == 2, "the answers do not end")
        assert json.loads(got[one]) == json.loads(got[other]) == MUCH
    server.close()


# ---- where nobody can ask


def refused(capsys: Capture, directory: Path | str, said: str, *options: str) -> bool:
    assert cli.main(["status", "-directory", str(directory), *options]) == 2
    return said in capsys.readouterr().err


def test_where_nobody_can_ask_is_not_where_nobody_runs(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.main(["status", "-directory", str(tmp_path / "none")]) == 3
    (tmp_path / "file").touch()
    assert os.listdir(tmp_path) == ["file"], "whoever asks makes no directory"
    for place in ("file", "file/state"):
        assert refused(capsys, tmp_path / place, "Not a directory: no adapter can be asked here")
    assert refused(capsys, "", "none.yaml: No such file", "-config", str(tmp_path / "none.yaml"))
    tmp_path.chmod(0o777)
    with listening(tmp_path / "status-1") as listener:
        assert refused(capsys, tmp_path, f"{tmp_path} is world-writable: no adapter can be asked here")
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()
    tmp_path.chmod(0o700)
    monkeypatch.setattr(os, "listdir", failing(errno.EACCES))
    assert refused(capsys, tmp_path, f"{tmp_path}: Permission denied")


def test_a_removed_status_socket_is_made_again(
    loop: SteppedLoop, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = tmp_path / "state"
    endpoints = Endpoints(loop, lambda: {"faults": endpoints.faults})
    endpoints.open(str(state), "", strict)
    for of_directory in (True, False):
        place = state if of_directory else next(state.iterdir())
        place.rename(tmp_path / f"away-{place.name}")
        loop.advance(REOPEN_AFTER)
        assert len(list(state.iterdir())) == 1
        assert endpoints.faults == []
    next(state.iterdir()).unlink()
    for mode, faults in ((0o777, [f"{state}: {state} is world-writable"]), (0o700, [])):
        state.chmod(mode)
        for _ in range(2):
            loop.advance(REOPEN_AFTER)
            assert endpoints.faults == faults
    assert caplog.text.count(f"{state} is world-writable: `status` cannot ask this adapter") == 1, "it is said once"
    endpoints.close()
    assert not list(state.iterdir())
