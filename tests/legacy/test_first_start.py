"""What runs when the first adapter of a node starts counts as created. What runs after a boot has had no create."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nri import api
from v010_adapter.events.turns import Turns
from v010_adapter.legacy import request
from v010_adapter.state import runtime_directory
from v010_adapter.state.ledger import LEAST, RETRY, SLICE
from v010_adapter.state.runtime_directory import RuntimeDirectory

from ..rig.node import Node, a_container
from ..rig.processes import failing
from ..rig.serving import kill
from .scenarios import logged

MANY = SLICE // LEAST
"""Small records of one slice."""
WITHOUT = "containers that have started without the adapter: 1; no plugin has run for their creates: container c1"
Start = Callable[..., None]


def running(*ids: str) -> list[api.Container]:
    return [a_container(id_, pod_sandbox_id=f"p{id_}", state=api.CONTAINER_RUNNING) for id_ in ids]


@pytest.fixture
def start(node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts an adapter after the death of the one before; with containers that run."""
    monkeypatch.setattr(runtime_directory, "BOOT_ID", str(tmp_path / "boot"))
    monkeypatch.setattr(runtime_directory, "RUN", f"{tmp_path}/run/")
    monkeypatch.setattr(runtime_directory, "LASTING", f"{tmp_path}/lib/")
    monkeypatch.setattr("v010_adapter.host.private_directory.MODE_ABOVE", 0o700)

    def start_one(*ids: str, boot: str = "11111111", state: str = "run/nri-test") -> None:
        die()
        (tmp_path / "boot").write_text(boot)
        turns = Turns(RuntimeDirectory(str(tmp_path / state), "containerd"), node.loop.time)
        started.append(turns)
        node.build(turns)
        turns.join()
        node.serving.synchronize([], running(*ids))

    def die() -> None:
        kill(*started)
        started.clear()

    started: list[Turns] = []
    node.plugins(a="answer")
    yield start_one
    die()


def owed(node: Node) -> list[str]:
    node.loop.settle()
    return sorted(node.serving.ledger.ids())


def test_what_runs_at_the_first_start_is_owed_a_delete_by_the_next_adapter_too(start: Start, node: Node) -> None:
    start("c1")
    start("c1", "c2")
    assert owed(node) == ["c1"], "it was written and marked before any event, and c2 has started in between"


def test_no_more_is_kept_of_what_runs_than_of_what_starts(
    start: Start, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request, "MOST_KEPT", 10)
    start("c1")
    assert owed(node) == ["c1"]
    kept = node.serving.ledger.target("c1")
    assert kept is not None
    assert kept.is_cut


def test_what_has_a_record_is_not_counted_though_the_mark_is_missing(start: Start, node: Node, tmp_path: Path) -> None:
    """The record has the entry of its create."""
    start("c1")
    assert owed(node) == ["c1"]
    for mark in tmp_path.glob("**/joined-before*"):
        mark.unlink()
    node.plugins(a="answer", b="answer")
    start("c1", "c2")
    node.loop.settle()
    assert owed(node) == ["c1", "c2"]
    assert [len(node.serving.ledger.begin_deletes(id_)) for id_ in ("c1", "c2")] == [1, 2]


@pytest.mark.parametrize("state", ["run/nri-test", "disk/nri-test"])
def test_after_a_boot_what_runs_before_the_adapter_is_owed_nothing(
    start: Start, node: Node, state: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Below /run, nothing is left by a boot."""
    start(state=state)
    node.loop.settle()
    if state.startswith("run"):
        (tmp_path / "run").rename(tmp_path / "gone")
    start("c1", boot="22222222", state=state)
    assert owed(node) == []
    assert logged(caplog) == [WITHOUT]
    assert node.delete("c1").outcome == "nothing to do"


def test_a_mark_that_cannot_be_made_is_told_and_the_next_adapter_of_this_boot_knows_all_the_same(
    start: Start, node: Node, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "lib").touch()
    start()
    assert node.delete("c0").outcome == "nothing to do"
    assert logged(caplog) == [
        f"{tmp_path}/lib/nri-test: Not a directory: after the next boot, what runs before the adapter counts as created"
    ]
    start("c1")
    assert owed(node) == []


def test_without_plugins_nobody_misses_a_mark(start: Start, node: Node, tmp_path: Path) -> None:
    (tmp_path / "lib").touch()
    node.configure()
    start()


# On a node with thousands


def many(number: int = 3 * MANY) -> list[str]:
    return [f"c{index}" for index in range(number)]


def records(tmp_path: Path) -> int:
    return len(list(tmp_path.glob("run/nri-test/*/+*")))


def test_thousands_count_at_once_and_are_written_in_slices(start: Start, node: Node, tmp_path: Path) -> None:
    start(*many())
    assert len(node.serving.ledger.ids()) == 3 * MANY
    assert records(tmp_path) == MANY
    node.wait(node.delete("c299"))
    assert node.runs == ["a delete c299"]
    node.loop.until(lambda: records(tmp_path) == 3 * MANY - 1, "the others are written, too")


def test_the_end_of_the_adapter_leaves_none_unwritten(start: Start, node: Node, tmp_path: Path) -> None:
    start(*many())
    node.serving.end()
    assert records(tmp_path) == 3 * MANY
    start(*many())
    assert len(owed(node)) == 3 * MANY


def test_an_adapter_that_is_killed_before_all_are_written_leaves_the_first_start_to_the_next(
    start: Start, node: Node, tmp_path: Path
) -> None:
    start(*many())
    start(*many())
    node.loop.until(lambda: records(tmp_path) == 3 * MANY, "all are written")
    assert len(owed(node)) == 3 * MANY


def test_what_a_full_disk_keeps_out_is_marked_when_it_is_written(
    start: Start, node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("v010_adapter.state.runtime_directory.RuntimeDirectory._write_new", failing(errno.ENOSPC))
        start("c1")
    node.loop.advance(RETRY)
    start("c1", "c2")
    assert owed(node) == ["c1"]
    assert any("No space left on device" in text for text in logged(caplog))
