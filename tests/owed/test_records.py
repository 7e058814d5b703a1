"""The records: whatever moment the adapter dies at, the next one owes what this one owed.

What a pod can write into a record is bounded. A damaged record costs no other, and nothing that memory has.
"""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import pytest

from nri import api
from v010_adapter.legacy import request as legacy_request
from v010_adapter.legacy.config import Entry
from v010_adapter.legacy.request import MOST_KEPT, Labels, Target, encode, of_container
from v010_adapter.state import runtime_directory
from v010_adapter.state.ledger import FORMAT, LEAST, RETRY, SLICE, Ledger, Record, decode, name_of
from v010_adapter.state.ledger import encode as encoded
from v010_adapter.state.runtime_directory import RuntimeDirectory

from ..rig.loop import SteppedLoop
from ..rig.processes import failing
from ..rig.serving import Nowhere
from ..test_docs import DOCS
from .conftest import Start
from .life import Life

MANY = SLICE // LEAST
"""Small records of one slice."""
ENTRIES = [
    Entry("a", 0, "0.1", b'{"n": 1.10}'),
    Entry("a", 1, "0.1", None),
    Entry("b\xff", 0, "", b'"\xff\xed\xa0\x80"'),
]


def target(id_: str = "c1", pid: int = 7, size: int = 1, pod: str = "pod") -> Target:
    linux = api.LinuxContainer(cgroups_path=f"/{id_}", resources=api.LinuxResources(cpu=api.LinuxCPU(cpus="0")))
    made = api.Container(id=id_, name="nginx", pid=pid, linux=linux, annotations={"line\n": '\u2028é"'})
    return of_container(made, api.PodSandbox(id=pod, namespace="default", name="web", labels={"l": "x" * size}))


def create(ledger: Ledger, made: Target) -> None:
    for entry in ENTRIES:
        ledger.add(made, entry)


def delete(ledger: Ledger, id_: str) -> None:
    for entry in ledger.begin_deletes(id_):
        ledger.end_delete(id_, entry)


def files(life: Life) -> list[str]:
    return sorted(path.name for path in life.state.iterdir() if path.name.startswith("+"))


def known(ledger: Ledger, id_: str = "c1") -> Target:
    found = ledger.target(id_)
    assert found is not None
    return found


def request(life: Life) -> dict[str, Any]:
    """What a delete would ask with."""
    return dict(json.loads(encode(known(life.ledger), "delete", ENTRIES[0], [])))


def test_what_a_later_create_knows_counts_if_it_has_the_pid_until_it_is_forgotten(loop: SteppedLoop) -> None:
    ledger = Ledger(loop, Nowhere())
    for pid, told in ((0, 0), (7, 7), (8, 8), (0, 8)):
        ledger.keep(target(pid=pid))
        assert known(ledger).pid == told
    for size in (1, 2):
        ledger.keep(target("c2", pid=0, size=size))
    assert known(ledger, "c2").labels == b'{"l":"xx"}', "no create knew the pid: the last one counts"
    for _ in range(2):
        ledger.forget("c1")
        assert ledger.target("c1") is None


# What the next process knows


def test_what_a_create_knew_is_what_the_next_adapter_asks_the_delete_with(start: Start) -> None:
    found = target()
    found.started = 12345
    for entry in ENTRIES:
        start().ledger.add(found, entry)
        life = start()
        assert life.ledger.begin_deletes("c1") == (entry,)
        again = known(life.ledger)
        assert encode(again, "delete", entry, []) == encode(target(), "delete", entry, [])
        assert (again.started, again.cgroups_path) == (12345, "/c1")
        assert str(again) == "container default/web/nginx (c1)"
        life.ledger.end_delete("c1", entry)
        assert files(life) == []


def test_when_a_process_started_is_written_though_it_is_found_out_between_two_creates(start: Start) -> None:
    found, life = target(), start()
    for found.started, entry in zip((0, 12345), ENTRIES, strict=False):
        life.ledger.add(found, entry)
    assert known(start().ledger).started == 12345


def test_a_delete_that_has_ended_is_not_owed_again_and_one_that_has_not_is(start: Start) -> None:
    first = start()
    create(first.ledger, target())
    first.ledger.end_delete("c1", first.ledger.begin_deletes("c1")[0])
    second = start()
    assert list(second.ledger.begin_deletes("c1")) == ENTRIES[1:]
    assert second.ledger.put_back("c1", ENTRIES[1])
    assert not second.ledger.put_back("c1", ENTRIES[1])
    assert second.ledger.begin_deletes("c1") == (ENTRIES[1],), "it could not be started"


def test_many_records_are_read_in_slices_and_an_event_of_one_does_not_wait(start: Start, loop: SteppedLoop) -> None:
    life = start()
    for number in range(3 * MANY):
        life.ledger.add(target(f"c{number}"), ENTRIES[0])
    life.die()
    after = start()
    after.ledger.read_all(lambda: None)
    last = f"c{3 * MANY - 1}"
    after.ledger.refresh(target(last))
    assert after.ledger.begin_deletes(last) == (ENTRIES[0],)
    slices = 0
    for _ in range(10):
        if not after.ledger.is_read:  # events come between the slices
            after.ledger.expect_changes(is_shared=False, is_remade=False)
            slices += 1
        loop.settle(1)
    assert after.ledger.is_current
    assert slices > 2
    assert len(after.ledger.ids()) == 3 * MANY - 1


def test_large_records_are_written_a_few_at_a_time_without_a_pause(start: Start, loop: SteppedLoop) -> None:
    life, told = start(), list[int]()
    for number in range(8):
        life.ledger.keep(target(f"c{number}", size=SLICE // 4))
        life.ledger.add_later(f"c{number}", ENTRIES[:1])
    life.ledger.when_written(lambda: told.append(len(files(life))))
    assert (len(files(life)), told) == (4, [])
    loop.settle()
    assert told == [8]
    assert loop.is_idle, "nothing is to be done later"


def test_runtimes_and_boots_have_records_of_their_own(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    boots = [f"11111111-1111-1111-1111-11111111111{number}" for number in "12"]
    (tmp_path / "boot").write_text(f"{boots[0]}\n")
    monkeypatch.setattr(runtime_directory, "BOOT_ID", str(tmp_path / "boot"))
    first = start()
    assert oct(first.state.stat().st_mode & 0o777) == "0o700"
    create(first.ledger, target())
    for other in ("cri-o", "containerd.k3s"):
        assert start(other).ledger.ids() == []
    assert start().ledger.ids() == ["c1"]
    (tmp_path / "boot").write_text(f"{boots[1]}\n")
    after = start()
    assert after.ledger.ids() == []
    after.directory.remove_earlier_boots()
    kept = [f"containerd.{boots[1]}", f"containerd.k3s.{boots[0]}", f"cri-o.{boots[0]}"]
    assert sorted(path.name for path in first.state.parent.iterdir()) == kept


@pytest.mark.parametrize("content", [None, ""], ids=["not readable", "empty"])
def test_an_adapter_that_does_not_know_the_boot_and_one_that_does_keep_each_others_records(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    """It may be the same boot: whoever has written them may be running."""
    knows = start()
    create(knows.ledger, target())
    monkeypatch.setattr(runtime_directory, "BOOT_ID", str(tmp_path / "boot"))
    if content is not None:
        (tmp_path / "boot").write_text(content)
    other = start(beside=True)
    create(other.ledger, target("c2"))
    for life in (other, knows):
        life.directory.remove_earlier_boots()
        assert (files(knows), files(other)) == (["+pod+c1"], ["+pod+c2"])


def test_a_full_disk_is_tried_once_in_a_while(start: Start, loop: SteppedLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    life = start()
    monkeypatch.setattr(RuntimeDirectory, "replace", replace := failing(errno.ENOSPC))
    for id_ in ("c1", "c2"):
        life.ledger.add(target(id_), ENTRIES[0])
    loop.advance(RETRY)
    loop.settle(10)
    tries = [call.args[0] for call in replace.call_args_list]
    assert tries == ["+pod+c1", "+pod+c2", "+pod+c1"], "what fails now fails for the others, too"


def test_who_could_not_read_the_records_is_told_once_more_when_they_have_been_read(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that what is owed is compared with the runtime's list."""
    start().ledger.add(target(), ENTRIES[0])
    life, told = start(), list[bool]()
    with monkeypatch.context() as broken:
        broken.setattr(RuntimeDirectory, "names", failing(errno.EMFILE))
        life.ledger.read_all(lambda: told.append(life.ledger.is_read))
        for _ in range(3):
            life.loop.advance(RETRY)
        assert told == [False]
    for _ in range(3):
        life.loop.advance(RETRY)
    assert told == [False, True]


def test_a_disk_that_gets_full_leaves_no_half_of_a_record(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    life = start()
    life.ledger.add(target(), ENTRIES[0])
    path = life.state / name_of(target())
    before, write = path.read_bytes(), os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda fd, text: write(fd, text[:10]))
        life.ledger.add(target(), ENTRIES[1])
    assert path.read_bytes() == before


# Other adapters


def test_what_another_adapter_writes_is_read_again_at_an_event(start: Start) -> None:
    first = start()
    second = start(beside=True)
    assert first.turns.look()
    create(first.ledger, target())
    second.ledger.refresh(target())
    assert list(second.ledger.begin_deletes("c1")) == ENTRIES
    for entry in ENTRIES:
        second.ledger.end_delete("c1", entry)
    assert first.turns.look()
    assert first.ledger.is_read, "no event reads all files"
    first.ledger.refresh(target())
    assert first.ledger.ids() == []


def test_the_moment_of_the_last_create_is_told_to_other_adapters(start: Start, loop: SteppedLoop) -> None:
    first = start()
    second = start(beside=True)
    first.turns.look()
    first.ledger.add(target(), ENTRIES[0])
    loop.advance(1)
    since = loop.now
    first.ledger.add(target(), Entry("a", 0, "0.1", b"{}"))
    second.ledger.refresh(target())
    assert second.ledger.keys("c1", since) == {ENTRIES[0].key}
    assert second.ledger.begin_deletes("c1") == (ENTRIES[0],), "as configured at its first create"


def test_a_delete_that_runs_here_is_owed_in_the_file_and_not_twice(start: Start) -> None:
    first = start()
    second = start(beside=True)
    first.turns.look()
    create(first.ledger, target())
    running = first.ledger.begin_deletes("c1")
    first.ledger.end_delete("c1", running[0])
    first.ledger.refresh(target())
    assert first.ledger.ids() == []
    second.ledger.refresh(target())
    assert second.ledger.begin_deletes("c1") == running[1:], "the first one is killed"


def test_an_adapter_that_is_alone_again_reads_what_the_other_has_left(start: Start, loop: SteppedLoop) -> None:
    first = start()
    second = start(beside=True)
    first.turns.look()
    create(first.ledger, target("c1"))
    create(second.ledger, target("c2"))
    second.ledger.refresh(target("c1"))
    delete(second.ledger, "c1")
    second.die()
    assert not first.turns.look()
    assert not first.ledger.is_current
    loop.settle()
    assert (first.ledger.is_current, first.ledger.ids()) == (True, ["c2"])


def test_what_was_read_beside_another_adapter_is_read_again_when_that_has_gone(start: Start, loop: SteppedLoop) -> None:
    first = start()
    for number in range(5 * MANY):
        first.ledger.add(target(f"c{number}"), ENTRIES[0])
    second = start(beside=True)
    loop.settle(10)
    first.turns.look()
    first.ledger.read_all()
    loop.settle(2)
    for id_ in second.ledger.ids():
        delete(second.ledger, id_)
    second.die()
    assert not first.turns.look()
    loop.settle(10)
    assert (first.ledger.is_current, first.ledger.ids()) == (True, [])


# Which files


NO_RECORDS = [b"", b"\n", b"0", b"[]\n", b"\xff\n{}", b'{"id":"c2"}', b"[" * 100000]
OF_OTHERS = [
    b"",
    b"{}",
    b"{}\n{}\n{}",
    b'[]\n{}\n{}\n{"at":1.5}',
    b'{"id":"c2","names":[],"sandbox":"pod","pid":7,"started":0,"cgroup":""}\n{}\n{}',
    b'{"format":1,"id":"c2"}\n{}\n{}',
]
"""What no version of the adapter has written."""
NO_RECORDS += [b"%b\n%d" % (text, crc32(text)) for text in OF_OTHERS]


def test_a_file_that_is_no_record_costs_no_other(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    life = start()
    life.ledger.add(target("c1"), ENTRIES[0])
    for content in NO_RECORDS:
        (life.state / "+pod+c2").write_bytes(content)
        caplog.clear()
        after = start()
        after.ledger.refresh(target("c2"))
        assert caplog.messages == [f"{life.state}/+pod+c2 is damaged: the deletes that it had do not come"]
        assert after.ledger.ids() == ["c1"], content[:30]
        assert after.fault == ""
        after.ledger.add(target("c2"), ENTRIES[0])
        assert sorted(start().ledger.ids()) == ["c1", "c2"], "a create begins the record anew"


def test_a_record_in_another_format_is_kept_and_named(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    """A file in the next format, whose lines this version cannot know."""
    life = start()
    life.ledger.add(target("c1"), ENTRIES[0])
    newer = life.state / "+pod+c2"
    newer.write_bytes(b'{"format":%d,"of":["c2"]}\x00 and more' % (FORMAT + 1))
    for _ in range(2):
        after = start()
        after.ledger.refresh(target("c2"))
        assert after.ledger.ids() == ["c1"]
        assert newer.exists()
        after.ledger.read_all()
        after.loop.settle()
        assert caplog.messages == [
            f"{newer} has format {FORMAT + 1}, of another version of the adapter: it is kept, and its deletes "
            "do not come from this one"
        ]
        text = "records in another format, whose deletes are left to the version that has written them"
        assert after.ledger.foreign == f"{life.state}: {text}: +pod+c2"
        caplog.clear()
    after.ledger.add(target("c2"), ENTRIES[0])
    assert after.ledger.foreign == "", "a create begins the record anew"
    newer.write_bytes(b'{"format":%d,' % (FORMAT + 1))
    other = start()
    assert other.ledger.foreign
    newer.unlink()
    other.ledger.read_all()
    other.loop.settle()
    assert other.ledger.foreign == "", "the other version has run its deletes"


def test_what_a_killed_process_has_not_finished_is_removed_by_one_that_is_alone(start: Start) -> None:
    life = start()
    (life.state / "new.1234").write_bytes(b"{")
    start(beside=True)
    assert (life.state / "new.1234").exists(), "perhaps the other one is writing it"
    start()
    assert not (life.state / "new.1234").exists()


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EROFS, errno.EIO], ids=os.strerror)
def test_what_is_not_finished_and_cannot_be_removed_hides_no_record(
    start: Start, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Another process may have removed it since the look at the directory."""
    life = start()
    create(life.ledger, target())
    (life.state / "new.1234").touch()
    monkeypatch.setattr(runtime_directory, "os", SimpleNamespace(**{**vars(os), "unlink": failing(number)}))
    after = start()
    assert after.ledger.ids() == ["c1"]
    assert after.fault == ""


def test_a_record_with_a_byte_changed_or_cut_at_any_byte_is_none() -> None:
    record = Record(target())
    for entry in ENTRIES:
        record.add(entry, 1.5)
    text = encoded(record)
    assert decode(record.name, text)
    assert decode("+pod+c2", text) is None, "it is another one's"
    for at, byte in enumerate(text):
        assert decode(record.name, text[:at] + bytes([byte ^ 1]) + text[at + 1 :]) is None, at
        assert decode(record.name, text[:at]) is None, at


def test_a_record_that_is_damaged_costs_nothing_that_memory_has(start: Start) -> None:
    life = start()
    create(life.ledger, target())
    (life.state / name_of(target())).write_bytes(b"{")
    life.ledger.expect_changes(is_shared=False, is_remade=False)
    life.loop.settle()
    assert list(life.ledger.begin_deletes("c1")) == ENTRIES
    for entry in ENTRIES:
        life.ledger.put_back("c1", entry)
    life.care()
    assert list(start().ledger.begin_deletes("c1")) == ENTRIES


def test_a_damaged_record_is_left_to_the_adapter_that_has_it_in_memory(start: Start) -> None:
    first = start()
    create(first.ledger, target())
    path = first.state / name_of(target())
    path.write_bytes(b"{")
    second = start(beside=True)
    second.ledger.refresh(target())
    assert path.read_bytes() == b"{"
    first.turns.look()
    first.ledger.refresh(target())
    first.care()
    assert path.read_bytes() == b"{", "another adapter may have the lock"
    first.ledger.refresh(target(), is_locked=True)
    second.ledger.refresh(target())
    assert list(second.ledger.begin_deletes("c1")) == ENTRIES


def test_of_two_adapters_that_know_a_damaged_record_one_runs_its_deletes(start: Start) -> None:
    first = start()
    create(first.ledger, target())
    second = start(beside=True)
    second.ledger.refresh(target())
    first.turns.look()
    (first.state / name_of(target())).write_bytes(b"{")
    for life in (first, second):
        life.ledger.refresh(target())  # the stop comes to both
        life.loop.settle()
    first.ledger.refresh(target(), is_locked=True)
    assert list(first.ledger.begin_deletes("c1")) == ENTRIES
    for entry in ENTRIES:
        first.ledger.end_delete("c1", entry)
    second.ledger.refresh(target(), is_locked=True)
    assert second.ledger.begin_deletes("c1") == ()


def test_the_containers_of_a_pod_are_known_before_all_records_are_read(start: Start) -> None:
    life = start()
    create(life.ledger, target())
    next_one = Ledger(life.loop, life.directory)
    assert [next_one.containers_of(pod) for pod in ("other", "pod")] == [[], ["c1"]]


def test_an_adapter_that_is_alone_reads_no_file_again(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    life = start()
    create(life.ledger, target())
    monkeypatch.setattr(RuntimeDirectory, "read", lambda *_: pytest.fail("a file is read"))
    life.ledger.refresh(target())


def test_a_record_keeps_its_file_though_a_later_create_names_another_pod(start: Start) -> None:
    life = start()
    life.ledger.add(target(), ENTRIES[0])
    life.ledger.add(target(pod="other"), ENTRIES[1])
    life = start()
    assert files(life) == ["+pod+c1"]
    delete(life.ledger, "c1")
    assert files(life) == []


def test_ids_that_are_no_file_names_have_records_too(start: Start) -> None:
    ids = ["../c", "a/b", ".", "..", "x" * 300, "ü\n", "+pod+c", "turns", "new+"]
    life = start()
    for id_ in ids:
        life.ledger.add(target(id_, pod=id_ + "!"), ENTRIES[0])
    assert sorted(start().ledger.ids()) == sorted(ids)


# Its size


def test_spec_and_labels_are_in_the_file_once_and_known_to_each_delete(start: Start) -> None:
    life = start()
    create(life.ledger, target(size=5000))
    path = life.state / name_of(target())
    assert path.read_bytes().count(b"x" * 5000) == 1
    whole = request(life)
    life.ledger.end_delete("c1", life.ledger.begin_deletes("c1")[0])
    for _ in range(2):
        life = start()
        assert list(life.ledger.begin_deletes("c1")) == ENTRIES[1:]
        assert request(life) == whole
        assert path.read_bytes().count(b"x" * 5000) == 1


@pytest.mark.parametrize("part", ["annotations", "many annotations", "namespaces", "resources", "labels"])
def test_of_what_is_certainly_beyond_the_bound_no_json_is_made(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    linux = {
        "namespaces": api.LinuxContainer(namespaces=[api.LinuxNamespace(type="ipc")] * (MOST_KEPT // 4)),
        "resources": api.LinuxContainer(resources=api.LinuxResources(unified={"a": "x" * MOST_KEPT})),
    }.get(part, api.LinuxContainer())
    many = dict.fromkeys(map(str, range(MOST_KEPT // len('"":"",') + 1)), "")
    texts = {part: {"a": "x" * MOST_KEPT}, "many annotations": many}
    container = api.Container(id="c1", linux=linux, annotations=texts.get(part if "annot" in part else "", {}))
    pod = api.PodSandbox(id="pod", labels=texts.get("labels", {}))
    of_others = Labels(None, Labels(pod).json)
    monkeypatch.setattr(legacy_request, "_spec", lambda _: pytest.fail("JSON is made"))
    for labels in (None, of_others):
        assert of_container(container, pod, labels).kept().is_cut


def test_a_spec_beyond_the_bound_is_dropped_as_log_and_docs_say(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    life = start()
    create(life.ledger, target(size=MOST_KEPT))
    assert caplog.messages == [
        "container default/web/nginx (c1): its spec and labels have more than 32 KiB: "
        "a delete for which the runtime reports none has none"
    ]
    (record,) = caplog.records
    assert vars(record)["fields"] == {"namespace": "default", "pod": "web", "container": "nginx", "id": "c1"}
    for one in (life, start()):
        assert request(one) == {
            "conf": {"n": 1.10},
            **{"version": "0.1", "state": "delete", "id": "c1", "sandboxID": "pod", "pid": 7},
            "spec": {"resources": None},
        }
    assert f"{MOST_KEPT >> 10} KiB" in (DOCS / "operations.md").read_text()
