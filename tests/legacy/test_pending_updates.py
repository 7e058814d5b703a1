"""PendingUpdates of containers, until something takes them to the runtime."""

from __future__ import annotations

from collections.abc import Sequence

from adapter.legacy.pending_updates import PendingUpdates
from adapter.nri import api

from ..processes import SteppedLoop


def update(id_: str, **resources: object) -> api.ContainerUpdate:
    linux = api.LinuxContainerUpdate(resources=api.LinuxResources(**resources))  # type: ignore[arg-type]
    return api.ContainerUpdate(container_id=id_, linux=linux)


def ids(updates: Sequence[api.ContainerUpdate]) -> list[str]:
    return [update.container_id for update in updates]


def waiting(loop: SteppedLoop, *ids: str) -> PendingUpdates:
    updates = PendingUpdates(loop)
    updates.known |= {"a", "b", "c"}
    updates.add([update(id_, cpu=api.LinuxCPU(cpus="1")) for id_ in ids])
    return updates


def test_what_is_for_the_container_that_an_answer_is_about_waits_on(loop: SteppedLoop) -> None:
    updates = waiting(loop, "a", "b")
    assert ids(updates.take(besides="b")) == ["a"]
    assert ids(updates.take(besides="c")) == ["b"]
    assert updates.take() == []


def test_what_is_for_nobody_is_dropped(loop: SteppedLoop) -> None:
    updates = waiting(loop, "a", "b", "c")
    updates.known -= {"a", "b"}
    assert ids(updates.take()) == ["c"]
    updates.known |= {"a", "b"}
    assert updates.take() == []


def test_a_later_update_changes_an_earlier_one(loop: SteppedLoop) -> None:
    updates = PendingUpdates(loop)
    updates.known.add("a")
    sizes = {"2MB": 1, "1GB": 2}
    first = [api.HugepageLimit(page_size=size, limit=limit) for size, limit in sizes.items()]
    shares = api.LinuxCPU(shares=api.OptionalUInt64(value=2), cpus="0")
    updates.add([update("a", cpu=shares, unified={"x": "1", "y": "1"}, hugepage_limits=first)])
    second = [api.HugepageLimit(page_size="2MB", limit=3)]
    updates.add([update("a", cpu=api.LinuxCPU(cpus="1"), unified={"y": "2"}, hugepage_limits=second)])
    [merged] = updates.take()
    resources = merged.linux.resources
    assert (resources.cpu.shares.value, resources.cpu.cpus) == (2, "1")
    assert dict(resources.unified) == {"x": "1", "y": "2"}
    assert [(limit.page_size, limit.limit) for limit in resources.hugepage_limits] == [("1GB", 2), ("2MB", 3)]
