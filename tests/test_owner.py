"""The lock of the state directory: one adapter serves, the others wait; chains under way keep their ids."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapter.host.joined import Joined
from adapter.host.lock import NOTHING, Lock, Served

from .processes import open_descriptors


class Owners:
    """Adapters that share a state directory. Open files of one process exclude each other as processes do."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.made: dict[int, int] = {}
        """Each one's descriptor, by its identity."""

    def new(self) -> Lock:
        before = open_descriptors()
        made = Lock(str(self.directory))
        (fd,) = open_descriptors() - before
        self.made[id(made)] = int(fd)
        return made

    def kill(self, owner: Lock) -> None:
        os.close(self.made.pop(id(owner)))


@pytest.fixture
def owners(tmp_path: Path) -> Iterator[Owners]:
    owners = Owners(tmp_path / "a" / "state")
    yield owners
    for fd in owners.made.values():
        os.close(fd)


def test_one_is_the_owner_and_the_others_say_once_who_it_is(owners: Owners, caplog: pytest.LogCaptureFixture) -> None:
    first, second = owners.new(), owners.new()
    assert first.take()
    assert not second.take()
    assert not second.take()
    assert [record.getMessage() for record in caplog.records] == [
        f"{owners.directory}: process {os.getpid()} serves the events; this one waits"
    ]
    assert (first.is_held, second.is_held) == (True, False)
    assert oct(owners.directory.stat().st_mode & 0o777) == "0o700", "for root alone"


def test_released_it_is_for_the_next_but_not_the_ids_whose_chains_go_on(owners: Owners) -> None:
    first, second = owners.new(), owners.new()
    first.take()
    first.release(["c1", "c2"])
    assert second.take()
    assert not first.take()
    assert [second.is_elsewhere(id_) for id_ in ("c1", "c2", "c3")] == [True, True, False]
    first.free("c1")
    assert [second.is_elsewhere(id_) for id_ in ("c1", "c2", "c3")] == [False, True, False]
    assert not second.is_alone
    first.free("c2")
    first.free("c3")
    assert second.is_alone


def test_without_a_directory_it_serves_alone_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    owner = Lock(str(tmp_path / "file" / "state"))
    assert owner.take()
    assert not owner.has_directory
    owner.release(["c1"])
    assert owner.is_held
    assert owner.is_alone
    assert not owner.is_elsewhere("c1")
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path}/file/state: Not a directory: what is owed is forgotten with this process (state.directory)"
    ]


def test_the_next_owner_knows_the_last_events_and_who_has_served_them(owners: Owners) -> None:
    first, second, third = owners.new(), owners.new(), owners.new()
    assert (first.owner, first.take()) == ("", True)
    mark = first.owner
    assert mark.startswith(f"{os.getpid()} ")
    served = Served("StartContainer ü", "CreateContainer ü", 12.5)
    first.release((), served)
    assert second.take()
    assert (second.before, second.served) == (mark, served)
    owners.kill(second)
    assert third.take()
    assert (third.served, third.before not in {"", mark}) == (NOTHING, True)


@pytest.mark.parametrize(
    ("content", "served"),
    [
        ("7 aa 12.5\nStopContainer c", Served("StopContainer c", "", 12.5)),  # of 0.1, which wrote one event
        ("7 aa\nStopContainer c", Served("StopContainer c")),
        ("7 aa 12.5 \n", Served("", "", 12.5)),
        *((damaged, NOTHING) for damaged in ("", "7", "7 aa x", "\xff")),
    ],
)
def test_what_earlier_versions_and_a_damaged_file_tell(owners: Owners, content: str, served: Served) -> None:
    first, second = owners.new(), owners.new()
    assert first.take()
    first.release(())
    (owners.directory / "lock").write_text(content, "latin-1")
    assert second.take()
    assert second.served == served


# The order of joining


def test_the_newest_is_the_last_that_has_joined_and_is_there_still(owners: Owners) -> None:
    locks = [owners.new() for _ in range(3)]
    first, second, third = map(Joined, locks)
    assert not first.is_newest
    first.join()
    assert first.is_newest
    second.join()
    third.join()
    assert [place.is_newest for place in (first, second, third)] == [False, False, True]
    third.leave()
    assert second.is_newest
    first.join()
    assert [place.is_newest for place in (first, second, third)] == [True, False, False]


def test_after_the_order_was_removed_who_joins_is_newer_than_all_that_have_joined_before(owners: Owners) -> None:
    first, second = (Joined(owners.new()) for _ in range(2))
    first.join()
    (owners.directory / "joined").unlink()
    assert first.is_newest
    second.join()
    assert [place.is_newest for place in (first, second)] == [False, True]
    first.join()
    assert [place.is_newest for place in (first, second)] == [True, False]


def test_a_full_disk_costs_no_ownership(owners: Owners, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    first, second = owners.new(), owners.new()
    monkeypatch.setattr(os, "pwrite", fail)
    assert first.take()
    assert first.is_held
    assert not second.take()
    first.release(())
    assert second.take()


def test_where_the_file_system_has_no_locks_nothing_is_elsewhere_and_the_log_says_what_it_costs(
    owners: Owners, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> bytes:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "fcntl", fail)
    first = owners.new()
    assert first.take()
    assert first.is_alone
    assert not first.is_elsewhere("c1")
    first.release(["c1"])
    assert first.take()
    assert [record.getMessage() for record in caplog.records] == [
        f"{owners.directory}/lock: no lock: No locks available; an adapter beside this one serves the events, too"
    ]
