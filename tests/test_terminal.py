"""Each command is read at a terminal of 80 columns and 24 lines: it leaves no row to the terminal to break."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyte
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyte.screens import wcwidth

from nri.text import printable
from v010_adapter.cli import terminal

from .rig.brief import few
from .rig.command import Terminal
from .rig.daemon import COMMAND, MEASURED
from .rig.programs import Programs
from .rig.screen import COLUMNS, LINES, Screen, at_terminal, shown
from .rig.sockets import bind
from .test_outputs import ADAPTER

WIDE = "日本語のコンテナ"
"""Eight characters of two columns each."""
NAME = "größe-" + "n" * 190 + "-end"
"""A name of 200 characters, as of a plugin."""
POD = f"{WIDE}-{'p' * 47}-pod"
"""A name of 60 characters."""
CHANGES = {
    "plugin": "x",
    "spec": {
        "annotations": {f"example.com/{WIDE}": WIDE * 20, NAME: "é" * 100},
        "mounts": [{"destination": f"/{'d' * 300}", "source": "/srv", "type": "bind", "options": ["ro", "rbind"]}],
    },
}


class Extremes:
    """Files with long and wide names, in a directory whose path has 300 characters."""

    def __init__(self, root: Path) -> None:
        self.directory = root / ("d" * 100) / ("e" * max(10, 196 - len(str(root))))
        self.hooks = self.directory / "hooks.d"
        self.hooks.mkdir(parents=True)
        for name, when in (
            ("always.json", {"always": True}),
            (f"{NAME}.json", {"always": True, "commands": ["sh$"]}),
            (f"{WIDE}.json", {"annotations": {f"^{WIDE * 5}$": "(a|b)" * 10}}),
        ):
            hook = {"path": "/bin/true", "args": ["true", f"/{WIDE}/{'a' * 290}", *["word"] * 30]}
            text = {"version": "1.0.0", "hook": hook, "when": when, "stages": ["createRuntime", "poststop"]}
            self.write(f"hooks.d/{name}", json.dumps(text))
        self.write("hooks.d/bad.json", json.dumps({"version": "1.0.0", "hook": {"path": f"/{'m' * 300}"}}))
        self.pod = self.write("pod.json", json.dumps({"name": POD, "namespace": "n" * 63, "annotations": {"b\t": "b"}}))
        container = {"name": "c" * 63, "args": ["/bin/sh", "x" * 100], "annotations": {f"^{WIDE * 3}": WIDE * 40}}
        self.container = self.write("container.json", json.dumps(container))
        programs = Programs(self.directory)
        self.legacy = programs.shell("legacy", f"cat >/dev/null; echo '{json.dumps(CHANGES)}'")
        self.ends = programs.shell(f"10-{NAME}", f"echo {'mine ' * 50} >&2; exit 2")

    def write(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.write_text(text)
        return path

    def settings(self) -> Path:
        """A configuration of the adapter with plugins of long names, one of which is not there."""
        types = [NAME, str(self.legacy), f"{WIDE}-{'q' * 100}"]
        conf = self.write("conf.json", json.dumps({"version": "0.1", "plugins": [{"type": type_} for type_ in types]}))
        own = {
            "legacy": {"config": str(conf), "path": [str(self.directory)], "plugins": {POD: {"standby": 1}}},
            "hooks": {"directories": [str(self.hooks)]},
        }
        return self.write("own.yaml", json.dumps(own))


@pytest.fixture(scope="module")
def extremes(tmp_path_factory: pytest.TempPathFactory) -> Extremes:
    return Extremes(tmp_path_factory.mktemp("x"))


COMMANDS: dict[str, Any] = {
    "demo": lambda _: ["demo"],
    "match": lambda of: ["hooks", "match", "-container", of.container, "-pod", of.pod, "-directory", of.hooks],
    "list": lambda of: ["hooks", "list", "-directory", of.hooks],
    "simulate": lambda of: ["simulate", "-legacy", of.legacy, "-hooks", of.hooks],
    "failing": lambda of: ["simulate", "-plugin", of.ends],
    "load": lambda of: ["simulate", "-legacy", of.legacy, "-hooks", of.hooks, "-pods", 2],
    "contract": lambda of: ["simulate", "-contract", of.ends],
    "check": lambda of: ["check", "-config", of.settings()],
    "nobody": lambda of: ["status", "-directory", of.directory / "none"],
}


def words_of(name: str, extremes: Extremes) -> list[str]:
    return list(map(str, COMMANDS[name](extremes)))


@pytest.mark.parametrize("name", few(list(COMMANDS)))
def test_no_row_is_wider_than_the_terminal(name: str, extremes: Extremes) -> None:
    seen = shown(*words_of(name, extremes))
    assert seen.broken == []
    assert len(seen.rows) > 3, seen.rows
    assert "Traceback" not in "".join(seen.rows)
    assert ("    mine mine" in "\n".join(seen.rows)) is (name in ("failing", "contract"))


@pytest.mark.parametrize(
    ("text", "broken"), [("x" * 80, 0), ("x" * 81, 1), ("x" * 78 + "語", 0), ("x" * 79 + "語", 1), ("é" * 80, 0)]
)
def test_a_row_that_the_terminal_breaks_is_seen(text: str, broken: int) -> None:
    screen = Screen(COLUMNS, LINES)
    pyte.Stream(screen).feed(text)
    assert len(screen.broken) == broken


@pytest.mark.parametrize("name", few(["match", "list", "simulate", "check"]))
def test_who_is_no_terminal_gets_whole_lines(name: str, extremes: Extremes) -> None:
    words = [str(COMMAND), *words_of(name, extremes)]
    env = {"PATH": os.defpath, "COLUMNS": "80", **MEASURED}  # as some shells export it
    done = subprocess.run(words, capture_output=True, text=True, env=env, check=False)
    assert "…" not in done.stdout
    assert name == "simulate" or not done.stderr, "what is wrong with hook files is on stdout alone"
    assert f"{NAME}.json" in done.stdout or name == "simulate"
    assert max(map(len, done.stdout.splitlines())) > 300


def test_where_there_is_room_a_row_has_everything(extremes: Extremes) -> None:
    rows = shown(*words_of("list", extremes), columns=2000).rows
    assert any(NAME in row and "createRuntime, poststop" in row and "every container" in row for row in rows), rows


def test_with_v_a_simulation_shows_whole_lines(extremes: Extremes) -> None:
    assert len(shown(*words_of("simulate", extremes), "-v").broken) > 3


def test_a_text_that_has_just_room_is_whole_and_one_column_less_takes_its_end_or_its_middle() -> None:
    for text, cut, shortened in (
        ("x" * 9, "x" * 7 + "…", "xxx…xxxx"),
        ("語é\u0301" * 3, "語é\u0301語é\u0301…", "語é\u0301…é\u0301語é\u0301"),
    ):
        room = terminal.width_of(text)
        assert room == 9
        assert terminal.cut(text, room) == terminal.shortened(text, room) == text
        assert (terminal.cut(text, room - 1), terminal.shortened(text, room - 1)) == (cut, shortened)


def test_a_user_may_ask_for_another_width_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns, room in (("120", 120), ("0", sys.maxsize), ("wide", sys.maxsize)):
        monkeypatch.setenv("COLUMNS", columns)
        assert terminal.width(Terminal()) == room, "this terminal has no width of its own"


def test_a_terminal_without_a_size_has_80_columns(extremes: Extremes) -> None:
    with at_terminal(*words_of("list", extremes), columns=0, lines=0) as command:
        command.terminal.resize(1000, COLUMNS)
        assert command.until().broken == []


# ---- what a row is made of


@given(st.text(st.sampled_from("a ö語日é́😀ｱｱ/"), max_size=60), st.integers(8, 40))
@example("     aaaa", 8)
@example(" " * 50, 8)
def test_lines_fit_and_lose_no_word_that_has_room(text: str, room: int) -> None:
    lines = terminal.wrapped(text, room)
    assert all(terminal.width_of(line) <= room for line in lines)
    words = text.split(" ")
    if all(terminal.width_of(word) <= room // 2 for word in words):
        assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert terminal.width_of(terminal.shortened(text, room)) <= room
    assert terminal.width_of(terminal.cut(text, room)) <= room


DIFFER = "[☰-☷⚊-⚏䷀-䷿\U0001d300-\U0001d376\U0001f1e6-\U0001f1ff]"
"""Wide since Unicode 16, which Python's tables do not have yet, and letters of flags, which are so in pairs."""


@given(st.characters(exclude_categories=["Mc", "Sk"]).filter(lambda character: not re.match(DIFFER, character)))
def test_a_character_is_as_wide_as_a_terminal_says(character: str) -> None:
    text = printable(character)
    if text == character:
        assert wcwidth(character) <= terminal.width_of(character)


def test_a_table_without_room_loses_what_tells_nothing_then_parts_of_names() -> None:
    head, row = ("NAME", "A", "B", "C"), ("n" * 30, 7, 0, "-")
    whole = [line for [line] in terminal.table([head, row], 80)]
    assert whole[1].split() == ["n" * 30, "7", "0", "-"]
    for room in (39, 38, 20, 12):
        narrow = [line for [line] in terminal.table([head, row], room)]
        assert max(map(len, narrow)) <= room
        assert narrow[0].split() == (["NAME", "A", "B", "C"] if room == 39 else ["NAME", "A"])
    assert narrow[1].split() == ["nnn…nnnnn", "7"]
    rows = [("NAME", "LEFT OUT", "NUMBER"), ("n" * 30, "-", 7)]
    assert [*terminal.table(rows, 38, names=2)][1] == ["n" * 30 + "       7"]


def test_a_text_is_beside_its_row_or_below() -> None:
    rows = [("yes", "a.json", "one two three four five six seven eight nine ten")]
    beside, below = (list(terminal.table(rows, room, names=2, text=True, has_head=False)) for room in (50, 40))
    assert beside == [["yes  a.json  one two three four five six seven", "             eight nine ten"]]
    assert below == [["yes  a.json", "    one two three four five six seven", "    eight nine ten"]]
    rows = [("NAME", "A", "TEXT"), ("mine", "0", "one two three")]
    for room, first in ((22, "mine  0  one two three"), (21, "mine  one two three")):
        assert [*terminal.table(rows, room, text=True)][1] == [first], "what tells nothing makes room for the text"


# ---- status


@contextmanager
def adapters(directory: Path, told: dict[str, Any]) -> Iterator[None]:
    """An adapter that shows this state to whoever asks."""

    def serve() -> None:
        while True:
            try:
                asker, _ = listener.accept()
            except OSError:
                return
            with asker:
                asker.sendall(json.dumps(told).encode())

    directory.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        bind(listener, directory / "status-1")
        listener.listen()
        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            serving.join()


STATE = ADAPTER | {
    "programs": {name: ADAPTER["programs"]["a"] | {"last_error": f"{WIDE * 20} {'e' * 200}"} for name in (NAME, POD)},
    "hooks": {f"/etc/{WIDE}/{'h' * 300}/{number}.json": number for number in range(30)},
    "standby": {NAME: {"waiting": 0, "off": "reason " * 20}},
    "holds": {"held": [{"since": 1, "plugin": NAME, "what": f"container {POD}"}]},
    "notes": [f"{WIDE * 30} {NAME}"],
    "faults": ["\x1b[2J" * 30, "word " * 40],
}


def test_status_has_no_row_that_is_wider_than_the_terminal(tmp_path: Path) -> None:
    with adapters(tmp_path / "state", STATE):
        seen = shown("status", "-directory", tmp_path / "state")
    assert seen.broken == []
    assert len(seen.rows) > 50


OTHER_SCREEN = 1049 << 5
"""The mode of a terminal that shows its other screen, as pyte has it."""


def test_watching_fills_the_terminal_and_no_more(tmp_path: Path) -> None:
    with (
        adapters(tmp_path / "state", STATE),
        at_terminal("status", "-watch", "-directory", tmp_path / "state") as command,
    ):
        seen = command.until(lambda rows: "more lines" in rows[-1])
        assert seen.broken == []
        assert seen.rows[0].endswith("every 2 s")
        assert seen.rows[2].startswith("v010-adapter 1, pid 7")
        assert (len(seen.rows), OTHER_SCREEN in seen.mode) == (LINES - 1, True)
        whole = shown("status", "-directory", tmp_path / "state").rows
        assert seen.rows[-1] == f"... {len(whole) + 4 - LINES} more lines", "of these and two lines about the time"
        command.process.send_signal(signal.SIGINT)
        *_, last, told = command.until().rows
        assert (last[-4:], told, OTHER_SCREEN in seen.mode) == ("  29", "v010-adapter: interrupted", False)


def test_waiting_says_for_what_and_how_long(tmp_path: Path) -> None:
    waits = ["status", "-wait", "60", "-directory", str(tmp_path / "state")]
    with adapters(tmp_path / "state", STATE | {"state": "connecting"}), at_terminal(*waits) as command:
        seen = command.until(lambda rows: " of 60: connecting" in rows[0])
        assert (len(seen.rows), seen.broken) == (1, [])
        assert re.fullmatch(r"waiting for an adapter .*, seconds: [1-5]?\d of 60: connecting", seen.rows[0])
