"""The records of holds, of which a keeper that starts later learns what one that was killed has left."""

from __future__ import annotations

import errno
import math
import os
from pathlib import Path

import pytest

from nri.holding import keeper
from nri.holding.keeper import Keeper
from nri.holding.records import Records, decoded, encoded

from ..rig.processes import failing


@pytest.fixture
def records(tmp_path: Path) -> Records:
    made = Records(str(tmp_path / "of/holds"))
    made.prepare()
    return made


def test_a_record_is_there_until_it_is_removed_and_there_is_one_for_each_id(records: Records) -> None:
    fd = records.write("c1", {"pid": 7})
    assert records.ids() == ["c1"]
    with pytest.raises(FileExistsError):
        records.write("c1", {"pid": 8})
    assert os.pread(fd, 100, 0) == b"pid 7"
    records.remove("c1", fd)
    assert records.ids() == []
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_a_record_that_cannot_be_written_is_not_left(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "write", failing(errno.ENOSPC))
    with pytest.raises(OSError, match="No space left"):
        records.write("c1", {})
    monkeypatch.undo()
    assert records.ids() == []


def test_the_hold_of_a_plugin_is_left_to_it_if_it_is_unknown_when_the_plugin_started(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.close(records.write("c1", {"owner": os.getppid(), "owner_started": 7, "until": math.inf}))
    monkeypatch.setattr(keeper, "start_time", lambda _: None)
    Keeper(-1, records.directory, os.getpid())._take_over()
    assert records.ids() == ["c1"]


def test_a_record_that_was_not_finished_is_removed_by_the_next_keeper(records: Records) -> None:
    os.close(records.write("c1", {"owner": os.getpid()}))
    Keeper(-1, records.directory, os.getpid())._take_over()
    assert records.ids() == []


def test_values_come_back_as_they_were_but_for_line_ends() -> None:
    told = {"a": "b c", "path": "/\udcff", "number": 1, "empty": ""}
    assert decoded(encoded({**told, "lines": "a\nb"})) == {**told, "number": "1", "lines": "a b"}


def test_a_directory_that_others_may_write_to_is_refused(records: Records, tmp_path: Path) -> None:
    folder = Path(records.directory)
    assert folder.stat().st_mode & 0o777 == 0o700
    records.prepare()
    for mode in (0o720, 0o702):
        folder.chmod(mode)
        with pytest.raises(PermissionError, match="belongs to this user alone"):
            records.prepare()
    (tmp_path / "file").touch(0o600)
    with pytest.raises(PermissionError, match="is no directory"):
        Records(str(tmp_path / "file")).prepare()
    assert Records(str(tmp_path / "none")).ids() == []


def test_what_cannot_be_opened_or_goes_as_it_is_looked_at_is_not_left_to_anybody(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, lock = Path(records.directory), os.lockf
    (folder / "a.hold").mkdir()
    os.close(records.write("c1", {}))

    def late(*how: int) -> None:
        (folder / "c1.hold").unlink()
        lock(*how)

    monkeypatch.setattr(os, "lockf", late)
    assert list(records.left()) == []
    assert records.ids() == ["a"]
