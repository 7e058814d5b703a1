"""conf.json on a disk where installers write while events come, and what stands in its place and is no file."""

from __future__ import annotations

import errno
import logging
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

import v010_adapter.host.paths
import v010_adapter.legacy.config
from v010_adapter.errors import ConfigError
from v010_adapter.host.paths import TIMESTAMP_STEP
from v010_adapter.legacy.config import MAX_SIZE, ConfigFile

from ..rig.node import Node
from ..rig.processes import failing, open_descriptors
from ..rig.waiting import tick
from .scenarios import done, logged

TYPES = '{"version":"0.1","plugins":[%s]}'
SECOND = 1_000_000_000


def naming(*types: str) -> str:
    """A conf.json with these plugins."""
    return TYPES % ",".join(f'{{"type":"{type_}"}}' for type_ in types)


class Disk(NamedTuple):
    """A conf.json, the clock that it is looked at by, and the reads there were."""

    path: Path
    conf: ConfigFile
    now: list[int]
    reads: list[str]

    def write(self, text: str | bytes) -> None:
        """Rewrites it in place."""
        tick()
        self.path.write_bytes(text.encode() if isinstance(text, str) else text)

    def types(self) -> list[str]:
        return [entry.type for entry in self.conf.current().entries]

    def later(self, nanoseconds: int = SECOND) -> None:
        """Lets time pass, beginning from the file's own time."""
        status = self.path.stat()
        self.now[0] = max(self.now[0], status.st_mtime_ns, status.st_ctime_ns) + nanoseconds


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Disk:
    """A disk on which the clock stands still unless a test moves it: everything happens within one tick."""
    caplog.set_level(logging.INFO)
    now = [0]
    reads: list[str] = []
    real = v010_adapter.host.paths.read

    def read(path: str, limit: int) -> tuple[bytes, os.stat_result]:
        reads.append(path)
        return real(path, limit)

    monkeypatch.setattr(v010_adapter.host.paths, "read", read)
    path = tmp_path / "conf.json"
    return Disk(path, ConfigFile(str(path), lambda: now[0]), now, reads)


def pretend(monkeypatch: pytest.MonkeyPatch, **functions: Any) -> None:
    """Gives the modules that look at the file other functions of `os`, and nobody else."""
    for module in (v010_adapter.legacy.config, v010_adapter.host.paths):
        monkeypatch.setattr(module, "os", SimpleNamespace(**{**vars(os), **functions}))


def infos(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]


def by_rename(disk: Disk, text: str) -> None:
    new = disk.path.with_suffix(".new")
    new.write_text(text)
    new.rename(disk.path)


def test_an_absent_file_means_no_plugins_said_once(
    disk: Disk, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert disk.types() == disk.types() == []
    assert disk.conf.error is None
    assert caplog.messages == [f"{disk.path}: no plugins"]
    assert ConfigFile(str(tmp_path / "no" / "such" / "conf.json")).current().entries == ()
    disk.path.symlink_to("nowhere")
    assert disk.types() == []
    disk.path.unlink()
    disk.write(naming("a"))
    assert disk.types() == ["a"]


@pytest.mark.parametrize("rewrite", [Disk.write, by_rename])
def test_a_rewritten_file_is_in_force_for_the_next_event_and_logged_once(
    disk: Disk, rewrite: Callable[[Disk, str], None], caplog: pytest.LogCaptureFixture
) -> None:
    for types in (["a"], ["b"], ["a", "b"], ["a", "b"], [], ["c"]):
        rewrite(disk, naming(*types))
        disk.later()
        assert disk.types() == disk.types() == types
    said = (": a", " changed: b", " changed: a, b", " changed: no plugins", " changed: c")
    assert infos(caplog) == [f"{disk.path}{text}" for text in said]


@pytest.mark.parametrize(("age", "reads"), [(0, 3), (TIMESTAMP_STEP, 3), (TIMESTAMP_STEP + 1, 1)])
def test_a_file_is_read_again_until_it_is_older_than_50_ms(disk: Disk, age: int, reads: int) -> None:
    assert TIMESTAMP_STEP == 50_000_000
    disk.write(naming("a"))
    disk.later(age)
    assert [disk.types() for _ in range(3)] == [["a"]] * 3
    assert len(disk.reads) == reads


def test_a_file_counts_by_the_time_before_it_was_read(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process may have been stopped since: what has changed meanwhile may have the same status."""
    read = v010_adapter.legacy.config.read

    def slowly(*of: Any) -> Any:
        found = read(*of)
        disk.now[0] += SECOND
        return found

    monkeypatch.setattr(v010_adapter.legacy.config, "read", slowly)
    disk.write(naming("a"))
    disk.later(0)
    assert disk.types() == disk.types() == ["a"]
    assert len(disk.reads) == 2


@pytest.mark.parametrize("newer", ["st_mtime_ns", "st_ctime_ns"])
def test_the_younger_of_both_times_decides_whether_a_file_has_settled(disk: Disk, newer: str) -> None:
    """`touch -d`, `cp -p` and `mv` leave an old mtime on a file that is just being installed."""
    disk.write(naming("a"))
    ctime = disk.path.stat().st_ctime_ns
    mtime = {"st_mtime_ns": ctime + SECOND, "st_ctime_ns": ctime - 1000 * SECOND}[newer]
    os.utime(disk.path, ns=(mtime, mtime))
    disk.now[0] = max(mtime, disk.path.stat().st_ctime_ns)
    assert disk.types() == disk.types() == ["a"]
    assert len(disk.reads) == 2


IDENTITY = ("st_dev", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns", "st_mode", "st_uid", "st_gid")


@pytest.mark.parametrize("field", IDENTITY)
def test_each_part_of_a_files_identity_counts(disk: Disk, monkeypatch: pytest.MonkeyPatch, field: str) -> None:
    disk.write(naming("a"))
    disk.later()
    disk.types()
    real = disk.path.stat()
    changed = SimpleNamespace(**{name: getattr(real, name) + (name == field) for name in IDENTITY})
    pretend(monkeypatch, stat=lambda path: changed)
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


def test_a_file_that_is_gone_means_no_plugins_and_is_read_again_when_it_comes_back(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Though nothing tells it from before."""
    disk.write(naming("a"))
    disk.later()
    assert disk.types() == ["a"]
    away = disk.path.rename(disk.path.with_suffix(".away"))
    assert disk.types() == disk.types() == []
    assert infos(caplog) == [f"{disk.path}: a", f"{disk.path} changed: no plugins"]
    away.rename(disk.path)
    disk.later()
    assert disk.types() == ["a"]
    with monkeypatch.context() as patch:
        pretend(patch, stat=failing(errno.ENOENT))
        assert disk.types() == []
    assert disk.types() == ["a"]


@pytest.mark.parametrize("text", ["", " ", "{", "[]", '{"plugins":[{}]}', "\0" * 100])
def test_a_broken_file_without_a_good_version_is_an_error_for_every_event_and_logged_once(
    disk: Disk, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An exception that is raised again would carry the traceback of every time before."""
    disk.write(text)
    disk.later()
    lengths = []
    for _ in range(10):
        with pytest.raises(ConfigError) as caught:
            disk.conf.current()
        assert str(caught.value).startswith(f"{disk.path}:1:")
        lengths.append(len(caught.traceback))
    assert logged(caplog) == [f"{caught.value}; no plugin can run"]
    assert lengths[1] == lengths[-1]
    assert len(disk.reads) == 1


# What is no file of a bearable size


UNUSABLE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a FIFO, which to open would block for ever": (os.mkfifo, "regular file"),
    "a link to itself": (lambda path: path.symlink_to(path.name), "symbolic links"),
    "a long file": (lambda path: path.write_bytes(b" " * MAX_SIZE + b"{}"), f"{MAX_SIZE + 2} bytes, at most"),
}


@pytest.mark.parametrize("kind", UNUSABLE)
def test_what_is_no_file_of_bearable_size_is_an_error(disk: Disk, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    make, reason = UNUSABLE[kind]
    make(disk.path)
    descriptors = open_descriptors()
    for _ in range(3):
        with pytest.raises(ConfigError, match=f"^{re.escape(str(disk.path))}: .*{reason}"):
            disk.conf.current()
    assert open_descriptors() <= descriptors
    disk.path.unlink()
    disk.write(naming("a"))
    disk.types()
    disk.path.unlink()
    caplog.clear()
    make(disk.path)
    assert disk.types() == disk.types() == ["a"]
    [said] = logged(caplog)
    assert reason in said


# What anybody could have written is not used, and the error names the place


@pytest.mark.parametrize("at", [".", "conf.json"], ids=["its directory", "itself"])
def test_a_conf_json_that_all_can_replace_runs_nothing(node: Node, at: str) -> None:
    etc = node.folder / "etc"
    etc.mkdir()
    node.plugins(a="answer")
    node.conf_json.rename(etc / "conf.json")
    node.build(config=str(etc / "conf.json"))
    (etc / at).chmod(0o777)
    with pytest.raises(ConfigError) as caught:
        node.create("c1")
    assert str(caught.value) == f"{etc}/conf.json: {etc / at} is world-writable (no plugin can run)"
    (etc / at).chmod(0o755)
    assert done(node, node.create("c1")) == "ok"
    assert node.runs == ["a create c1"]


def test_the_last_conf_json_that_was_trusted_stays_in_force(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.plugins(a="answer")
    assert done(node, node.create("c1")) == "ok"
    node.plugin("b")
    node.configure("b")
    node.conf_json.chmod(0o666)
    assert done(node, node.create("c2")) == "ok"
    assert node.runs == ["a create c1", "a create c2"]
    assert f"{node.conf_json} is world-writable; the last good version stays in force" in caplog.text
