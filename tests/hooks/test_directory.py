"""Which hook files are in force: masking, writers at work, volumes, what is read again, and what the log says."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from adapter.hooks.directory import Directories
from adapter.host import paths

from .hookdirs import PROGRAM, Reads, hooks, in_force, later, opened, problems, replace, text

GOOD, BAD, EMPTY, NULL = "good", b"{", b"", "a link to /dev/null"


def put(path: Path, content: str | bytes) -> None:
    path.unlink(missing_ok=True)
    if content == NULL:
        path.symlink_to("/dev/null")
    else:
        path.write_bytes(content if isinstance(content, bytes) else text(path.parent.name))


# What is in vendor, site and local under one name, in the order of increasing preference; whose hook is in force.
MASKING: list[tuple[list[str | bytes | None], str | None]] = [
    ([None, None, None], None),
    ([GOOD, None, None], "vendor"),
    ([None, GOOD, None], "site"),
    ([GOOD, GOOD, None], "site"),
    ([GOOD, None, GOOD], "local"),
    ([GOOD, GOOD, GOOD], "local"),
    ([GOOD, BAD, None], "vendor"),
    ([GOOD, BAD, BAD], "vendor"),
    ([BAD, GOOD, BAD], "site"),
    ([GOOD, b" ", None], "vendor"),
    ([GOOD, EMPTY, None], None),
    ([GOOD, NULL, None], None),
    ([GOOD, EMPTY, BAD], None),
    ([GOOD, EMPTY, GOOD], "local"),
    ([EMPTY, GOOD, NULL], None),
    ([EMPTY, BAD, GOOD], "local"),
]


@pytest.mark.parametrize("row", MASKING, ids=str)
def test_a_good_or_an_empty_file_hides_those_of_less_preference_and_a_bad_one_hides_nothing(
    tmp_path: Path, row: tuple[list[str | bytes | None], str | None]
) -> None:
    """Whatever the order in which files come and go."""
    contents, version = row
    places = [tmp_path / name for name in ("vendor", "site", "local")]
    files = [
        (place / "x.json", content) for place, content in zip(places, contents, strict=True) if content is not None
    ]
    for place in places:
        place.mkdir()
    expected = {"x.json": version} if version else {}
    for order in (files, files[::-1]):
        directories = opened(*places, now=later)
        for path, content in order:
            put(path, content)
            directories.current()
        for one in (directories, opened(*places, now=later), opened(*places, watch=False)):
            assert in_force(one) == expected
        for path, _ in order:
            path.unlink()
            directories.current()
        assert (in_force(directories), directories.problems) == ({}, [])


@pytest.mark.parametrize("before", [None, text("site")], ids=["new", "good before"])
def test_an_empty_file_masks_once_it_is_a_second_old(tmp_path: Path, before: bytes | None) -> None:
    now = [0]
    for name in ("vendor", "site"):
        (tmp_path / name).mkdir()
    (tmp_path / "vendor/x.json").write_bytes(text("vendor"))
    path = tmp_path / "site/x.json"
    if before is not None:
        path.write_bytes(before)
    directories = opened(tmp_path / "vendor", tmp_path / "site", now=lambda: now[0])
    expected = in_force(directories)
    path.write_bytes(b"")
    emptied = path.stat().st_ctime_ns
    for now[0] in (emptied, emptied + 100_000_000, emptied + 999_999_999):
        assert in_force(directories) == expected
    # After a second, and at once where the clock was set back.
    for now[0] in (emptied + 1_000_000_000, emptied - 1):
        assert in_force(directories) == {}
        assert in_force(opened(tmp_path / "vendor", tmp_path / "site", now=lambda: now[0])) == {}
    path.write_bytes(text("new"))
    assert in_force(directories) == {"x.json": "new"}


@pytest.mark.parametrize("kind", ["a file", "a link", "one of two names"])
def test_while_a_file_is_written_anew_its_last_good_version_is_in_force(tmp_path: Path, kind: str) -> None:
    place, elsewhere = tmp_path / "hooks.d", tmp_path / "elsewhere"
    place.mkdir()
    if kind == "a link":
        (place / "x.json").symlink_to(elsewhere)
    elsewhere.touch()
    if kind == "one of two names":
        (place / "x.json").hardlink_to(elsewhere)
    elif kind == "a file":
        elsewhere = elsewhere.rename(place / "x.json")
    directories = opened(place)
    for before, after in pairwise([None, text(1), text(2)]):
        expected = {"x.json": "1"} if before else {}
        assert after is not None
        with open(elsewhere, "wb", buffering=0) as file:
            for end in range(len(after)):
                assert in_force(directories) == expected, "emptied by its writer, it is not meant to hide others"
                file.write(after[end : end + 1])
            assert in_force(directories) == {"x.json": "2" if before else "1"}


MOUNTS = """
import subprocess, sys, time
from pathlib import Path
from tests.hooks.hookdirs import in_force, opened, text

def mount(*words):
    subprocess.run(["mount", *map(str, words)], check=True)

base, ahead = Path(sys.argv[1]), 0
mount("-t", "tmpfs", "none", base / "volume")
(base / "volume" / "x.json").write_bytes(text(1))
(base / "hooks.d" / "y.json").touch()
mount("--bind", base / "volume" / "x.json", base / "hooks.d" / "y.json")
directories = opened(base / "volume", base / "hooks.d", now=lambda: time.time_ns() + ahead)
assert in_force(directories) == {"x.json": "1", "y.json": "1"}
(base / "volume" / "x.json").write_bytes(text(2))
assert in_force(directories) == {"x.json": "2", "y.json": "2"}
for path in (base / "hooks.d" / "y.json", base / "volume"):
    subprocess.run(["umount", path], check=True)
ahead = 2_000_000_000
assert in_force(directories) == {}, "what was mounted is gone, and y.json is empty"
"""


def test_files_and_directories_that_are_mounted_from_elsewhere_count_until_they_are_unmounted(tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    (tmp_path / "hooks.d").mkdir()
    alone = ["unshare", "--mount"]
    if os.getuid() or subprocess.run([*alone, "true"], check=False, capture_output=True).returncode:
        pytest.skip("mounting needs a mount namespace of one's own, which is not to be had here")
    done = subprocess.run([*alone, sys.executable, "-c", MOUNTS, tmp_path], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# ---- what is read


def test_nothing_is_read_before_it_is_asked_for_and_then_only_what_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(100):
        (tmp_path / f"{number}.json").write_bytes(text(1))
    reads = Reads(monkeypatch)
    directories = Directories([str(tmp_path)], now=later)
    assert reads.opened == []
    assert (len(in_force(directories)), directories.files_read) == (100, 100)
    (tmp_path / "50.json").write_bytes(text(22))
    reads.opened.clear()
    for _ in range(3):
        assert in_force(directories)["50.json"] == "22"
    assert (reads.opened, directories.files_read) == (["50.json"], 101)


@pytest.mark.parametrize(("age", "version"), [(50_000_000, "2"), (50_000_001, "1")], ids=["same tick", "later"])
def test_a_file_read_in_the_tick_of_its_change_is_read_again_however_its_status_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age: int, version: str
) -> None:
    monkeypatch.setattr(paths, "version", lambda status: ())
    path = tmp_path / "x.json"
    path.write_bytes(text(1))
    directories = opened(tmp_path, now=lambda: path.stat().st_ctime_ns + age)
    path.write_bytes(text(2))
    assert in_force(directories) == {"x.json": version}


def test_a_change_that_leaves_size_and_times_as_they_were_counts(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(text(1))
    os.utime(tmp_path / "x.json", ns=(10**18, 10**18))
    directories = opened(tmp_path, now=later)
    (tmp_path / "x.json").write_bytes(text(2))
    os.utime(tmp_path / "x.json", ns=(10**18, 10**18))
    assert in_force(directories) == {"x.json": "2"}


def test_a_change_that_changes_no_hook_keeps_the_matcher(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(text(1))
    directories = opened(tmp_path, now=later)
    matcher = directories.current()
    (tmp_path / "x.json").write_bytes(text(1) + b"\n")
    (tmp_path / "bad.json").write_bytes(b"{")
    os.utime(tmp_path / "x.json")
    assert directories.current() is matcher
    assert directories.files_read == 3


def test_without_watch_everything_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.json").write_bytes(text(1))
    directories = opened(tmp_path, watch=False)
    (tmp_path / "x.json").write_bytes(text(2))
    (tmp_path / "y.json").write_bytes(text(2))
    reads = Reads(monkeypatch)
    assert in_force(directories) == {"x.json": "1"}
    assert reads.opened == []


def test_while_it_reads_in_steps_the_version_before_stays_in_force_until_the_new_one_is_whole(tmp_path: Path) -> None:
    directories = opened(tmp_path)
    for number in range(5):
        (tmp_path / f"{number}.json").write_bytes(text(number, when=f'{{"commands": ["a{number}", "b{number}"]}}'))
    assert directories.has_changed()
    steps = directories.read()
    seen = [len(hooks(directories.matcher)) for _ in steps]
    assert len(seen) == 5 + 10 + 10, "one for each file, one for each pattern to check it, and one to compile it"
    assert (set(seen), len(hooks(directories.matcher))) == ({0}, 5)


def test_reading_that_was_given_up_half_way_is_made_up_for(tmp_path: Path) -> None:
    for steps in range(30):
        directories = opened(tmp_path, now=later)
        for number in range(5):
            replace(tmp_path / f"{number}.json", text(steps, when=f'{{"always": true, "commands": ["", "{steps}"]}}'))
        reading = directories.read()
        for _ in range(steps):
            next(reading, None)
        assert set(in_force(directories).values()) == {str(steps)}


# ---- programs


@pytest.mark.parametrize("inside", [True, False], ids=["host root", "real root"])
def test_whether_a_program_is_there_is_what_the_kernel_says(tmp_path: Path, inside: bool) -> None:
    bin_, place = tmp_path / "host/bin", tmp_path / "hooks.d"
    bin_.mkdir(parents=True)
    place.mkdir()
    (bin_ / "file").touch(0o755)
    (bin_ / "plain").touch(0o644)
    for link, target in (("link", "file"), ("dangling", "nothing"), ("loop", "loop")):
        (bin_ / link).symlink_to(target)
    for program, reason in {
        "/bin/file": "",
        "/bin": "not an executable file",
        "/bin/plain": "not an executable file",
        "/": "not an executable file",
        "//bin/./file": "",
        "/bin/link": "",
        "/bin/absent": "No such file or directory",
        "/bin/dangling": "No such file or directory",
        "/bin/loop": "Too many levels of symbolic links",
        "/bin/file/x": "Not a directory",
        "/bin/file/": "Not a directory",
        "/bin/file/..": "Not a directory",
        "/bin/absent/..": "No such file or directory",
        "/bin/" + 300 * "x": "File name too long",
        "/bin/a\nb": "No such file or directory",
    }.items():
        there = f"{tmp_path}/host/{program}"
        assert (os.access(there, os.X_OK) and os.path.isfile(there)) == (not reason)
        shown = program if inside else there
        (place / "x.json").write_bytes(text(program=shown))
        directories = opened(place, host_root=f"{tmp_path}/host" if inside else "/")
        said = f"its program {shown}: {reason}".replace("\n", "\\n")
        assert problems(directories) == ({"x.json": said} if reason else {})
        assert in_force(directories) == ({} if reason else {"x.json": "1"})


@pytest.mark.parametrize("path", ["/a\0b", "/\ud800"])
def test_what_can_be_no_path_leads_nowhere(path: str, tmp_path: Path) -> None:
    with pytest.raises((OSError, ValueError)):
        paths.status(path, str(tmp_path))


def test_a_program_behind_as_many_links_as_the_kernel_follows_is_there_and_behind_one_more_is_not(
    tmp_path: Path,
) -> None:
    (tmp_path / "0").touch(0o755)
    for number in range(1, 42):
        (tmp_path / str(number)).symlink_to(str(number - 1))
    for number in (40, 41):
        assert os.access(tmp_path / str(number), os.F_OK) == (number == 40)
        (tmp_path / f"{number}.json").write_bytes(text(program=f"/{number}"))
    assert in_force(opened(tmp_path, host_root=str(tmp_path))).keys() == {"40.json"}


# ---- what is said


class Log:
    """What has been logged of a directory since it was last asked for."""

    def __init__(self, caplog: pytest.LogCaptureFixture, place: Path) -> None:
        caplog.set_level(logging.INFO)
        self._caplog, self._place = caplog, place
        self.directories = opened(place)

    def __call__(self) -> list[str]:
        self.directories.current()
        lines = [line.replace(f"{self._place}/", "") for line in self._caplog.messages]
        self._caplog.clear()
        return lines


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> Log:
    return Log(caplog, tmp_path)


RUNS = f"hooks: {{}} is in force: it runs {PROGRAM} at prestart"


def test_a_file_is_logged_when_it_comes_into_force_and_when_it_has_another_hook(tmp_path: Path, logged: Log) -> None:
    for name, number in (("a.json", 1), ("b\n.json", 2)):
        (tmp_path / name).write_bytes(text(number))
    assert logged() == ["hooks: 2 in force", RUNS.format("a.json"), RUNS.format("b\\n.json")]
    for changed in ("c.json", "a.json"):
        (tmp_path / changed).write_bytes(text(3))
        assert logged() == ["hooks: 3 in force", RUNS.format(changed)]
    (tmp_path / "c.json").unlink()
    assert logged() == ["hooks: 2 in force"]


def test_a_bad_file_is_logged_when_it_becomes_bad_and_when_it_is_good_again(tmp_path: Path, logged: Log) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(text(1))
    logged()
    with open(path, "wb", buffering=0) as file:
        for _ in range(5):
            file.write(b"?")
            logged.directories.current()
    os.utime(path)
    assert logged() == ["x.json: line 1, column 1: unexpected '?'; the last good version stays in force"]
    (tmp_path / "another.json").write_bytes(b"{")
    assert logged() == ["another.json: line 1, column 2: unexpected end"]
    path.write_bytes(b"[")
    assert logged() == ["x.json: line 1, column 2: unexpected end; the last good version stays in force"]
    path.write_bytes(text(1))
    assert logged() == ["x.json: no error any more"]
    (tmp_path / "another.json").unlink()
    assert logged() == ["another.json: no error any more"]


def test_a_missing_program_is_logged_once_and_so_is_its_return(tmp_path: Path, logged: Log) -> None:
    (tmp_path / "x.json").write_bytes(text(program=f"{tmp_path}/hook"))
    assert logged() == ["x.json: its program hook: No such file or directory"]
    os.utime(tmp_path / "x.json")
    assert logged() == []
    (tmp_path / "hook").touch(0o755)
    said = "hooks: x.json is in force: it runs hook at prestart"
    assert logged() == ["x.json: no error any more", "hooks: 1 in force", said]


def test_names_that_are_no_utf8_and_names_with_line_breaks_work_and_can_be_printed(tmp_path: Path, logged: Log) -> None:
    names = {name: os.fsdecode(name) for name in (b"\xff.json", b"a\n.json", "ü.json".encode())}
    for name, path in names.items():
        (tmp_path / path).write_bytes(text(len(name)))
    assert in_force(logged.directories) == {"\udcff.json": "6", "a\n.json": "7", "ü.json": "7"}
    for path in list(names.values())[:2]:
        (tmp_path / path).write_bytes(b"{")
    assert problems(logged.directories).keys() == {"\\udcff.json", "a\\n.json"}
    assert all(path.isprintable() for path, _ in logged.directories.problems)
    assert not any("\n" in line for line in logged())
