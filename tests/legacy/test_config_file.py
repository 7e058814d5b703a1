"""conf.json on a disk where installers write while events come."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from adapter.errors import ConfigError
from adapter.legacy.config import ConfigFile
from adapter.paths import SETTLED

from .disk import SECOND, Disk, errors, infos, naming, pretend


def test_an_absent_file_means_no_plugins_and_the_log_says_so_once(disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    assert disk.types() == disk.types() == []
    assert disk.conf.error is None
    assert caplog.messages == [f"{disk.path}: no plugins"]


def test_a_directory_that_does_not_exist_is_an_absent_file(tmp_path: Path) -> None:
    assert ConfigFile(str(tmp_path / "no" / "such" / "conf.json")).current().entries == ()


def test_a_dangling_symlink_is_an_absent_file(disk: Disk) -> None:
    disk.path.symlink_to("nowhere")
    assert disk.types() == []


def test_a_file_that_appears_later_is_in_force_at_once(disk: Disk) -> None:
    assert disk.types() == []
    disk.write(naming("a"))
    assert disk.types() == ["a"]


def in_place(disk: Disk, text: str) -> None:
    disk.write(text)


def by_rename(disk: Disk, text: str) -> None:
    new = disk.path.with_suffix(".new")
    new.write_text(text)
    new.rename(disk.path)


def through_a_symlink(disk: Disk, text: str) -> None:
    """Make the path a link to another file, as Kubernetes does with a ConfigMap."""
    target = disk.path.with_name(f"data{len(list(disk.path.parent.iterdir()))}")
    target.write_text(text)
    link = disk.path.with_suffix(".link")
    link.symlink_to(target.name)
    link.rename(disk.path)


REWRITES: list[Callable[[Disk, str], None]] = [in_place, by_rename, through_a_symlink]


@pytest.mark.parametrize("rewrite", REWRITES)
def test_a_rewritten_file_is_in_force_for_the_next_event(disk: Disk, rewrite: Callable[[Disk, str], None]) -> None:
    for types in (["a"], ["b"], ["a", "b"], [], ["c"]):
        rewrite(disk, naming(*types))
        disk.later()
        assert disk.types() == types
        assert disk.types() == types


@pytest.mark.parametrize("rewrite", REWRITES)
def test_the_plugins_are_logged_once_and_once_after_each_change(
    disk: Disk, rewrite: Callable[[Disk, str], None], caplog: pytest.LogCaptureFixture
) -> None:
    for types in (["a"], ["b", "c"], ["b", "c"], []):
        rewrite(disk, naming(*types))
        disk.types()
        disk.types()
    assert infos(caplog) == [f"{disk.path}{said}" for said in (": a", " changed: b, c", " changed: no plugins")]


def test_a_settled_file_is_read_once_and_looked_at_for_every_event(disk: Disk) -> None:
    disk.write(naming("a"))
    disk.later()
    assert [disk.types() for _ in range(100)] == [["a"]] * 100
    assert disk.reads == [str(disk.path)]


def test_a_broken_file_is_read_once_too(disk: Disk) -> None:
    disk.write("{")
    disk.later()
    for _ in range(3):
        with pytest.raises(ConfigError):
            disk.conf.current()
    assert len(disk.reads) == 1


@pytest.mark.parametrize(("age", "reads"), [(0, 3), (SETTLED, 3), (SETTLED + 1, 1)])
def test_a_file_is_read_again_until_it_is_older_than_50_ms(disk: Disk, age: int, reads: int) -> None:
    assert SETTLED == 50_000_000
    disk.write(naming("a"))
    disk.later(age)
    for _ in range(3):
        assert disk.types() == ["a"]
    assert len(disk.reads) == reads


def test_a_second_write_within_the_clocks_tick_is_seen_though_no_stat_shows_it(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same inode, size and times: what a coarse clock makes of two writes in a row."""
    disk.write(naming("a"))
    status = disk.path.stat()
    disk.now[0] = status.st_mtime_ns
    pretend(monkeypatch, stat=lambda path: status, fstat=lambda fd: status)
    assert disk.types() == ["a"]
    disk.write(naming("b"))
    assert disk.types() == ["b"]
    disk.now[0] += SECOND
    assert disk.types() == ["b"]
    assert len(disk.reads) == 3


@pytest.mark.parametrize("newer", ["st_mtime_ns", "st_ctime_ns"])
def test_the_younger_of_both_times_decides_whether_a_file_has_settled(disk: Disk, newer: str) -> None:
    """`touch -d`, `cp -p` and `mv` leave an old mtime on a file that is just being installed."""
    disk.write(naming("a"))
    ctime = disk.path.stat().st_ctime_ns
    mtime = {"st_mtime_ns": ctime + SECOND, "st_ctime_ns": ctime - 1000 * SECOND}[newer]
    os.utime(disk.path, ns=(mtime, mtime))
    disk.now[0] = max(mtime, disk.path.stat().st_ctime_ns)
    disk.types()
    disk.types()
    assert len(disk.reads) == 2


@pytest.mark.parametrize("field", ["st_dev", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns"])
def test_each_part_of_a_files_identity_counts(disk: Disk, monkeypatch: pytest.MonkeyPatch, field: str) -> None:
    disk.write(naming("a"))
    disk.later()
    disk.types()
    real = disk.path.stat()
    names = ("st_dev", "st_ino", "st_size", "st_mode", "st_mtime_ns", "st_ctime_ns")

    class Changed:
        def __init__(self) -> None:
            for name in names:
                setattr(self, name, getattr(real, name) + (1 if name == field else 0))

    pretend(monkeypatch, stat=lambda path: Changed())
    disk.types()
    assert len(disk.reads) == 2


def test_the_version_that_was_read_is_the_one_whose_status_is_kept(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rename between looking and reading must not hide behind the status of the file that was looked at."""
    disk.write(naming("a"))
    disk.later()
    before = disk.path.stat()
    by_rename(disk, naming("b"))
    disk.later()
    with monkeypatch.context() as patch:
        pretend(patch, stat=lambda path: before)
        assert disk.types() == ["b"]
    assert disk.types() == ["b"]
    assert len(disk.reads) == 1


def test_a_broken_file_leaves_the_last_good_version_in_force_and_is_logged_once(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    disk.write(naming("a"))
    assert disk.types() == ["a"]
    disk.write(naming("b")[:-3])
    assert [disk.types() for _ in range(3)] == [["a"]] * 3
    assert disk.conf.error is not None
    [said] = errors(caplog)
    assert said.startswith(f"{disk.path}:1: ")
    assert said.endswith("; the last good version stays in force")


def test_a_half_written_file_takes_force_when_the_rest_is_there(disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    disk.write(naming("a"))
    disk.types()
    whole = naming("b", "c")
    for length in (0, 1, len(whole) // 2, len(whole) - 1):
        disk.write(whole[:length])
        assert disk.types() == ["a"]
    disk.write(whole)
    assert disk.types() == ["b", "c"]
    assert disk.conf.error is None
    assert infos(caplog)[1:] == [f"{disk.path} is in order again", f"{disk.path} changed: b, c"]


def test_each_new_mistake_is_logged(disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    disk.write(naming("a"))
    disk.types()
    for text in ("[]", '{"plugins":1}', "[]"):
        disk.write(text)
        disk.types()
        disk.types()
    no_object, no_array = "must be an object, not an array", "plugins"
    assert [said.split(": ")[1].partition(";")[0] for said in errors(caplog)] == [no_object, no_array, no_object]


def test_a_repaired_file_is_said_to_be_in_order_once(disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    disk.write("{")
    with pytest.raises(ConfigError):
        disk.types()
    disk.write(naming("a"))
    disk.types()
    disk.types()
    assert infos(caplog) == [f"{disk.path} is in order again", f"{disk.path}: a"]


def test_a_file_that_is_gone_means_no_plugins_whatever_was_before(disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    disk.write(naming("a"))
    disk.later()
    disk.types()
    disk.path.unlink()
    assert disk.types() == disk.types() == []
    assert infos(caplog) == [f"{disk.path}: a", f"{disk.path} changed: no plugins"]


def test_a_broken_file_that_is_gone_is_in_order_again(disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    disk.write("{")
    with pytest.raises(ConfigError):
        disk.types()
    disk.path.unlink()
    assert disk.types() == []
    assert disk.conf.error is None
    assert infos(caplog) == [f"{disk.path} is in order again", f"{disk.path}: no plugins"]


def test_a_file_that_comes_back_unchanged_is_read_again(disk: Disk) -> None:
    disk.write(naming("a"))
    disk.later()
    assert disk.types() == ["a"]
    away = disk.path.rename(disk.path.with_suffix(".away"))
    assert disk.types() == []
    away.rename(disk.path)
    disk.later()
    assert disk.types() == ["a"]


def test_a_file_that_was_gone_is_read_again_though_nothing_tells_it_from_before(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(path: str) -> None:
        raise FileNotFoundError

    disk.write(naming("a"))
    disk.later()
    assert disk.types() == ["a"]
    with monkeypatch.context() as patch:
        pretend(patch, stat=gone)
        assert disk.types() == []
    assert disk.types() == ["a"]


@pytest.mark.parametrize("text", ["", " ", "{", "[]", '{"plugins":[{}]}', "\0" * 100])
def test_a_broken_file_without_a_good_version_is_an_error_for_every_event_and_logged_once(
    disk: Disk, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    disk.write(text)
    disk.later()
    for _ in range(3):
        with pytest.raises(ConfigError) as caught:
            disk.conf.current()
        assert str(caught.value).startswith(f"{disk.path}:1: ")
    assert errors(caplog) == [f"{caught.value}; no plugin can run"]


def test_an_error_for_every_event_costs_no_memory(disk: Disk) -> None:
    """An exception that is raised again carries the traceback of every time before."""
    disk.write("{")
    disk.later()
    lengths = []
    for _ in range(10):
        with pytest.raises(ConfigError) as caught:
            disk.conf.current()
        lengths.append(len(caught.traceback))
    assert lengths[1] == lengths[-1]
