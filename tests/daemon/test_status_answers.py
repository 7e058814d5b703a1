"""What `status` shows of hostile texts, how long its answer may be, and where it cannot ask."""

from __future__ import annotations

import ast
import json
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import adapter
from adapter.base.sanitize import MAX_SHOWN, bounded
from adapter.cli import command_line as cli
from adapter.host.trust import strict
from adapter.monitoring import status
from adapter.monitoring.endpoints import REOPEN_AFTER, Endpoints
from adapter.monitoring.status import CLIENT_TIMEOUT, StatusSocket
from adapter.wire import Code

from ..processes import SteppedLoop, open_descriptors
from .harness import Node
from .messages import start
from .process import COMMAND, SAFETY

EVIL = "a\x1b[2J\x1b]0;title\x07\nv010-adapter 1, pid 1: all is well\r\x9b31m\u2028\u202e\x7f"


@pytest.fixture
def describing(node: Node) -> dict[str, Any]:
    """What an adapter tells of itself that has something of everything to tell."""
    node.shared_state = "state"
    node.plugin("bad", 'echo \'{"error": "broken"}\'')
    hook = '{"version": "1.0.0", "hook": {"path": "/bin/true"}, "when": {"always": true}, "stages": ["poststop"]}'
    (node.path / "hook.json").write_text(hook)
    daemon = node.launch(
        {"plugins": {"bad": {"standby": 1}}}, hooks={"enabled": True, "directories": [str(node.path)]}, unknown=1
    )
    node.configure("bad")
    assert daemon.call("CreateContainer").code == Code.OK
    assert daemon.call("StartContainer", start("c1")).code == Code.UNKNOWN
    [told] = status.ask(str(node.path / "state"))
    assert all(told[key] for key in ("runtime", "events", "programs", "standby", "hooks", "faults"))
    return told


def hostile(value: Any) -> Iterator[Any]:
    """Yields a value once for each place in it, with EVIL there."""
    yield EVIL
    if isinstance(value, dict):
        for key, member in value.items():
            rest = {name: other for name, other in value.items() if name != key}
            yield {**rest, EVIL: member}
            yield from ({**rest, key: bad} for bad in hostile(member))
    elif isinstance(value, list):
        yield from ([*value[:at], bad, *value[at + 1 :]] for at, one in enumerate(value) for bad in hostile(one))


def test_escapes_in_any_field_are_shown_as_such(
    describing: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shown = 0
    for told in hostile(describing):
        if isinstance(told, dict):
            monkeypatch.setattr(status, "ask", lambda *_, told=told: iter([told]))
            for options in ((), ("-o", "json")):
                assert cli.main(["status", "-directory", str(tmp_path), *options]) in (0, 1)
                out, err = capfd.readouterr()
                shown += r"\x1b[2J" in out
                assert not err
                for line in out.split("\n"):
                    assert line.isprintable(), ascii(line)
                    assert not line.startswith("v010-adapter 1, pid 1: all")
    assert shown > 15


def test_what_is_no_object_is_no_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "status-\x1b1"))
        assert cli.main(["status", "-directory", str(tmp_path)]) == 3  # nobody listens
        for answer in (b"[]", b"7", b"{", b'{"a": ' * 2000, EVIL.encode()):
            listener.listen()
            pid = os.fork()
            if not pid:
                listener.accept()[0].sendall(answer)
                os._exit(0)
            assert cli.main(["status", "-directory", str(tmp_path)]) == 1
            os.waitpid(pid, 0)
            out = capsys.readouterr().out
            assert "does not answer" in out
            assert all(line.isprintable() for line in out.split("\n"))


def test_nobody_is_asked_in_a_directory_where_anybody_may_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o777)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "status-1"))
        listener.listen()
        assert cli.main(["status", "-directory", str(tmp_path)]) == 2
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert f"{tmp_path} is world-writable: an adapter cannot be asked here" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["file", "file/state"])
def test_where_there_can_be_no_directory_or_it_cannot_be_seen_is_not_where_nobody_runs(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert cli.main(["status", "-directory", str(tmp_path / place)]) == 2
    assert "Not a directory: an adapter cannot be asked here" in capsys.readouterr().err


def test_a_hostile_journal_is_shown_and_logged_as_text(node: Node) -> None:
    node.shared_state = "state"
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        header = {"format": 1, "boot": file.read().strip()}
    record = {"created": EVIL, "names": [EVIL], "sandbox": EVIL, "pid": 0, "started": 0, "cgroup": EVIL, "spec": "{}"}
    record |= {"labels": "{}", "type": EVIL, "number": 0, "version": EVIL, "conf": None}
    state = node.path / "state"
    state.mkdir(mode=0o700)
    (state / "journal").write_text("".join(json.dumps(line) + "\n" for line in (header, record)))
    (state / "journal").chmod(0o600)
    daemon = node.launch()
    assert daemon.call("CreateContainer").code == Code.OK
    daemon.logged(r"\x1b[2J")
    assert all(line.isprintable() for line in daemon.log)


PRINTS = {("cli/check/probe.py", "confirm"), ("base/sanitize.py", "show"), ("base/sanitize.py", "show_json")}
OWN_TEXT = {
    ("cli/command_line.py", "_complain"): "printable",
    ("cli/entry.py", "main"): "a text of its own",
    ("nri/serving.py", "run"): "a text of its own",
    ("cli/completion.py", "main"): "a script",
    ("cli/status.py", "_watch"): "clears the screen",
}


def test_every_command_prints_through_what_makes_text_printable() -> None:
    found = set()
    root = Path(adapter.__file__).parent
    for path in root.rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef):
                calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
                if any(isinstance(call, ast.Name) and call.id == "print" for call in calls):
                    found.add((str(path.relative_to(root)), function.name))
    assert found == PRINTS | OWN_TEXT.keys()


# The length of an answer


def test_a_long_text_is_cut_and_marked() -> None:
    for text in ("x" * MAX_SHOWN, "é" * (MAX_SHOWN // 2), "", 7, None):
        assert bounded(text) == text
    for text, size in (("x" * 900_000, 900_000), ("é" * 4096, 8192), ("\ud800" * 1000, 6000)):
        cut = bounded({"a": [text]})["a"][0]
        assert len(cut.encode()) <= MAX_SHOWN + 30
        assert cut.endswith(f" … ({size} bytes)")


def test_an_error_of_a_plugin_is_cut_in_status(node: Node) -> None:
    node.shared_state = "state"
    node.plugin("bad", "echo '{\"error\": \"'$(printf '%0900000d' 0)'\"}'")
    node.configure("bad")
    daemon = node.launch()
    assert daemon.call("StartContainer", start("c1")).code == Code.UNKNOWN
    [told] = status.ask(str(node.path / "state"))
    assert re.search(r"0{1000,4096} … \(9\d{5} bytes\)$", told["programs"]["bad"]["last_error"])


MUCH = {"text": ["x" * 4000] * 2000}


def test_an_answer_is_whole_however_little_the_sockets_take_at_once(loop: SteppedLoop, tmp_path: Path) -> None:
    server = StatusSocket(loop, str(tmp_path / "state"), lambda: MUCH, strict)
    [path] = (tmp_path / "state").iterdir()
    got: dict[socket.socket, bytes] = {}
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as other:
        done: list[socket.socket] = []

        def read(asker: socket.socket) -> None:
            chunk = asker.recv(10_000)
            got[asker] = got.get(asker, b"") + chunk
            if not chunk:
                loop.unwatch(asker.fileno())
                done.append(asker)

        for asker in (one, other):
            asker.connect(str(path))
            asker.setblocking(False)
            loop.watch(asker.fileno(), partial(read, asker))

        loop.until(lambda: len(done) == 2, "the answers do not end")
        assert json.loads(got[one]) == json.loads(got[other]) == MUCH
    server.close()


@pytest.mark.parametrize("end", ["it is given up", "it goes", "the adapter ends"])
def test_who_does_not_read_keeps_nothing_for_ever(end: str, loop: SteppedLoop, tmp_path: Path) -> None:
    asked: list[bool] = []

    def describe() -> dict[str, Any]:
        asked.append(True)
        return MUCH

    server = StatusSocket(loop, str(tmp_path / "state"), describe, strict)
    [path] = (tmp_path / "state").iterdir()
    before = open_descriptors()
    with socket.socket(socket.AF_UNIX) as asker:
        asker.connect(str(path))
        loop.until(lambda: bool(asked), "it is not asked")
        if end == "it is given up":
            loop.advance(CLIENT_TIMEOUT)
        elif end == "the adapter ends":
            server.close()
        if end != "it goes":
            asker.settimeout(SAFETY)
            while asker.recv(1 << 20):
                pass
    loop.until(lambda: open_descriptors() <= before, "its descriptor stays open")
    if end != "the adapter ends":
        server.close()


# Where nobody can ask


def test_a_status_socket_that_was_removed_with_its_directory_is_made_again(loop: SteppedLoop, tmp_path: Path) -> None:
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
    state.chmod(0o777)
    loop.advance(REOPEN_AFTER)
    assert endpoints.faults == [f"{state}: {state} is world-writable"]
    state.chmod(0o700)
    loop.advance(REOPEN_AFTER)
    assert endpoints.faults == []
    endpoints.close()
    assert not list(state.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_read_only_state_directory_is_named(tmp_path: Path) -> None:
    script = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && exec "$2" status -directory "$1"'
    words = ["unshare", "--mount", "sh", "-c", script, "sh", str(tmp_path), str(COMMAND)]
    ran = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    if "unshare" in ran.stderr or "mount:" in ran.stderr:
        pytest.skip(f"nothing can be mounted here: {ran.stderr}")
    said = f"v010-adapter: {tmp_path}: Read-only file system: an adapter cannot be asked here; its log says how it is\n"
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", said)
