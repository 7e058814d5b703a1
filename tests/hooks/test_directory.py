"""Which hook files are in force: writers at work, what is read again, programs, trust, and what the log says."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest

from v010_adapter.host import paths

from ..rig.waiting import tick
from .hookdirs import PROGRAM, Scene, in_force, later, opened, problems, text, unread


@pytest.mark.parametrize("before", [None, text("site")], ids=["new", "good before"])
def test_an_empty_file_masks_once_it_is_a_second_old(tmp_path: Path, before: bytes | None) -> None:
    now = [0]
    places = [tmp_path / "vendor", tmp_path / "site"]
    for place in places:
        place.mkdir()
    (tmp_path / "vendor/x.json").write_bytes(text("vendor"))
    path = tmp_path / "site/x.json"
    if before is not None:
        path.write_bytes(before)
    directories = opened(*places, now=lambda: now[0])
    expected = in_force(directories)
    path.write_bytes(b"")
    emptied = path.stat().st_ctime_ns
    for now[0] in (emptied, emptied + 100_000_000, emptied + 999_999_999):
        assert in_force(directories) == expected
    # After a second, and at once where the clock was set back.
    for now[0] in (emptied + 1_000_000_000, emptied - 1):
        assert in_force(directories) == in_force(opened(*places, now=lambda: now[0])) == {}
    path.write_bytes(text("new"))
    assert in_force(directories) == {"x.json": "new"}
    now[0] = path.stat().st_ctime_ns
    path.write_bytes(b"")
    assert in_force(opened(*places, watch=False, now=lambda: now[0])) == {}, "it will not be looked at again"


@pytest.mark.parametrize("is_link", [False, True], ids=["a file", "a link"])
def test_while_a_file_is_written_anew_its_last_good_version_is_in_force(tmp_path: Path, is_link: bool) -> None:
    place, written = tmp_path / "hooks.d", tmp_path / ("elsewhere" if is_link else "hooks.d/x.json")
    place.mkdir()
    if is_link:
        (place / "x.json").symlink_to(written)
    directories = opened(place)
    expected: dict[str, str] = {}
    for version in (1, 2):
        whole = text(version)
        with open(written, "wb", buffering=0) as file:
            for end in range(len(whole)):
                assert in_force(directories) == expected, "emptied by its writer, it is not meant to hide others"
                file.write(whole[end : end + 1])
        expected = {"x.json": str(version)}
        assert in_force(directories) == expected


# ---- what is read


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


def test_a_file_counts_by_the_time_before_it_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process may have been stopped since: what has changed meanwhile may have the same status."""
    path = tmp_path / "x.json"
    path.write_bytes(text(1))
    clock, read = [path.stat().st_ctime_ns], paths.read

    def slowly(*of: Any) -> Any:
        found = read(*of)
        clock[0] += 10**9
        return found

    monkeypatch.setattr(paths, "version", lambda status: ())
    monkeypatch.setattr(paths, "read", slowly)
    directories = opened(tmp_path, now=lambda: clock[0])
    path.write_bytes(text(2))
    assert in_force(directories) == {"x.json": "2"}


def test_a_change_that_leaves_size_and_times_counts_and_one_that_changes_no_hook_does_not(tmp_path: Path) -> None:
    directories = unread(tmp_path, now=later)
    for version in ("1", "2"):
        tick()
        (tmp_path / "x.json").write_bytes(text(version))
        os.utime(tmp_path / "x.json", ns=(10**18, 10**18))
        assert in_force(directories) == {"x.json": version}
    matcher = directories.current()
    (tmp_path / "x.json").write_bytes(text(2) + b"\n")
    (tmp_path / "bad.json").write_bytes(b"{")
    assert directories.current() is matcher
    assert list(directories.problems) == [str(tmp_path / "bad.json")]


# ---- programs


@pytest.mark.parametrize("inside", [True, False], ids=["host root", "real root"])
def test_a_hook_is_in_force_if_its_program_can_be_run(tmp_path: Path, inside: bool) -> None:
    host, place = tmp_path / "host", tmp_path / "hooks.d"
    (host / "bin").mkdir(parents=True)
    place.mkdir()
    (host / "bin/file").touch(0o755)
    (host / "bin/others").touch(0o601)
    (host / "bin/plain").touch(0o644)
    (host / "bin/loop").symlink_to("loop")
    for program, reason in {
        "/bin/file": "",
        "/bin/others": "",
        "/bin": "not an executable file",
        "/bin/plain": "not an executable file",
        "/bin/absent": "No such file or directory",
        "/bin/a\nb": "No such file or directory",
        "/bin/loop": "Too many levels of symbolic links",
        "/bin/" + 300 * "x": "File name too long",
    }.items():
        shown = program if inside else f"{host}{program}"
        (place / "x.json").write_bytes(text(program=shown))
        directories = opened(place, host_root=str(host) if inside else "/")
        said = f"its program {shown}: {reason}".replace("\n", "\\n")
        assert problems(directories) == ({"x.json": said} if reason else {})
        assert in_force(directories) == ({} if reason else {"x.json": "1"})


# ---- links, directories and programs, and whom to trust, one change after the other


SCENES = """
a directory that appears step by step counts: open a/b/d; mkdir a; IS; mkdir a/b; IS; mkdir a/b/d; IS;
    write a/b/d/x.json; IS x.json=1
a chain of links counts at every joint: write 1/deep/d/x.json 1; write 2/deep/d/x.json 2; write 3/deep/d/x.json 3;
    mkdir links; ln links/one ../two/deep; ln two BASE/1; open links/one/d/.././d/; IS x.json=1; ln two 2; IS x.json=2;
    ln links/one BASE/3/deep; IS x.json=3; ln two nowhere; IS x.json=3; ln links/one one; IS;
    BAD : Too many levels of symbolic links; ln links/one ../two; ln two BASE/1/deep; IS x.json=1
a file elsewhere that goes and comes back as it was is in force again: write store/y 1; mkdir d; ln d/x.json ../store/y;
    open now=never d; mv store away; IS; mv away store; IS x.json=1
# A ConfigMap's volume, written as the kubelet's AtomicWriter does it, and looked at after each step.
a volume is followed: mkdir v; open v; write v/..1/a.json; write v/..1/b.json; IS; ln v/..data ..1; IS;
    ln v/a.json ..data/a.json; IS a.json=1; ln v/b.json ..data/b.json; IS a.json=1 b.json=1; write v/..2/a.json 2;
    write v/..2/c.json 2; IS a.json=1 b.json=1; ln v/..data ..2; IS a.json=2; ln v/c.json ..data/c.json;
    IS a.json=2 c.json=2; rm v/b.json; rm v/..1; IS a.json=2 c.json=2; write v/..3/a.json {; write v/..3/c.json 3;
    ln v/..data ..3; IS a.json=2 c.json=3; BAD a.json; rm v/..2; IS a.json=2 c.json=3; write v/..4/c.json 4;
    ln v/..data ..4; IS c.json=4; rm v/a.json; rm v/..3; IS c.json=4; BAD
a broken file that was empty goes on hiding: write a/x.json; touch b/x.json; open now=later a b;
    write b/x.json {; IS; KEPT x.json: line 1, column 2: unexpected end; rm b/x.json; IS x.json=1
links to a program lead below the node's root: touch h/opt/q; ln h/opt/p /opt/q; ln h/bin /opt; write d/x.json 1 /bin/p;
    open host=h d; IS x.json=1; ln h/bin /none; IS; ln h/bin ./opt; IS x.json=1
# What anybody could have written is not used, and is named, until that has changed.
a file in a directory that anybody can write to: write d/x.json; chmod 777 d; open now=later d; IS;
    BAD x.json: BASE/d is world-writable; chmod 755 d; IS x.json=1; BAD
a file just written that anybody can write to: write d/x.json; chmod 777 d/x.json; open now=zero d; IS; BAD x.json;
    chmod 755 d/x.json; IS x.json=1; BAD
a new file in a directory that has become writable: write d/x.json; open now=later d; chmod 777 d; write d/y.json;
    IS x.json=1
the last version that was trusted stays in force: write d/x.json; open now=later d; write d/x.json 2;
    chmod 666 d/x.json; IS x.json=1; KEPT x.json: BASE/d/x.json is world-writable; chmod 644 d/x.json; IS x.json=2
nobody else can mask a hook: write a/x.json; write a/y.json; touch b/x.json; ln b/y.json /dev/null; chmod 777 b;
    open now=later a b; IS x.json=1 y.json=1; chmod 755 b; IS
a program that anybody can write to: touch h/bin/p; write d/x.json 1 /bin/p; open host=h now=later d; IS x.json=1;
    chmod 777 h/bin/p; IS; BAD x.json: its program /bin/p: BASE/h/bin/p is world-writable; chmod 755 h/bin/p;
    IS x.json=1
# A directory's mode alone is no change of the program.
a program that anybody can replace: touch h/bin/p; write d/x.json 1 /bin/p; open host=h now=later d; chmod 777 h/bin;
    touch h/bin/p; IS; BAD x.json: its program /bin/p: BASE/h/bin is world-writable; chmod 755 h/bin; IS x.json=1
switched off, everything is used: write d/x.json; chmod 777 d; chmod 666 d/x.json; open trust=off d; IS x.json=1
"""


def told(scenes: str) -> dict[str, str]:
    """Returns the steps of each scene by its title; a line with an indent continues the one before."""
    lines = [line for line in scenes.replace("\n    ", " ").splitlines() if line and not line.startswith("# ")]
    return dict(line.split(": ", 1) for line in lines)


@pytest.mark.parametrize("steps", told(SCENES).values(), ids=told(SCENES))
def test_a_scene_goes_as_told(tmp_path: Path, steps: str) -> None:
    Scene(tmp_path).play(steps)


def test_a_program_that_runs_in_the_container_is_not_the_nodes(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.play("touch p; chmod 777 p; mkdir d")
    (tmp_path / "d/x.json").write_bytes(text(program=f"{tmp_path}/p").replace(b"prestart", b"startContainer"))
    scene.play("open d; IS x.json=1")


# ---- what is said


class Log:
    """What has been logged of a directory since it was last asked for."""

    def __init__(self, caplog: pytest.LogCaptureFixture, place: Path) -> None:
        self._caplog, self._place = caplog, place
        self.directories = opened(place)

    def __call__(self) -> list[str]:
        self.directories.current()
        lines = [line.replace(f"{self._place}/", "") for line in self._caplog.messages]
        self._caplog.clear()
        return lines


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> Log:
    caplog.set_level(logging.INFO)
    return Log(caplog, tmp_path)


RUNS = f"hooks: {{}} is in force: it runs {PROGRAM} at prestart"


def test_a_file_is_logged_when_it_comes_into_force_and_when_it_has_another_hook(tmp_path: Path, logged: Log) -> None:
    """Names that are no UTF-8 and names with line breaks work, and can be printed."""
    names = {"a.json": "a.json", "b\n.json": "b\\n.json", "\udcff.json": "\\udcff.json"}
    for name in names:
        (tmp_path / name).write_bytes(text(1))
    assert logged() == ["hooks: 3 in force", *map(RUNS.format, names.values())]
    for changed in ("c.json", "a.json"):
        (tmp_path / changed).write_bytes(text(3))
        assert logged() == ["hooks: 4 in force", RUNS.format(changed)]
    (tmp_path / "c.json").unlink()
    assert logged() == ["hooks: 3 in force"]
    for name in names:
        (tmp_path / name).write_bytes(b"{")
    assert problems(logged.directories).keys() == {*names.values()}
    assert not any("\n" in line for line in logged())


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
    path.write_bytes(text(program=f"{tmp_path}/hook"))
    assert logged() == ["x.json: its program hook: No such file or directory", "hooks: 0 in force"]
    (tmp_path / "hook").touch(0o755)
    said = "hooks: x.json is in force: it runs hook at prestart"
    assert logged() == ["x.json: no error any more", "hooks: 1 in force", said]
