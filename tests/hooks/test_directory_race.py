"""A change is in force for the very next container, every time, and a writer at work costs no hook."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .hookdirs import in_force, opened, relink, replace, text

TIMES = 200
Seen = Callable[[dict[str, object]], None]
"""Asserts which versions are in force."""


def new_files(base: Path, number: int, seen: Seen) -> None:
    (base / "d" / f"{number % 20}.json").write_bytes(text(number))
    seen({f"{one % 20}.json": one for one in range(max(0, number - 19), number + 1)})


def written_renamed_deleted(base: Path, number: int, seen: Seen) -> None:
    (base / "d/x.json").write_bytes(text(number))
    seen({"x.json": number})
    replace(base / "d/x.json", text(-number))
    seen({"x.json": -number})
    (base / "d/x.json").rename(base / "d/y.json")
    seen({"y.json": -number})
    (base / "d/y.json").rename(base / "z.json")
    seen({})
    (base / "d/x.json").write_bytes(text(number))
    seen({"x.json": number})
    (base / "d/x.json").unlink()
    seen({})


def swapped_by_a_link(base: Path, number: int, seen: Seen) -> None:
    new = base / str(number)
    new.mkdir()
    (new / f"{number}.json").write_bytes(text(number))
    if number == 0:
        (base / "d").rmdir()
    relink(base / "d", new)
    seen({f"{number}.json": number})


def swapped_by_renames(base: Path, number: int, seen: Seen) -> None:
    (base / "new").mkdir()
    (base / "new" / f"{number}.json").write_bytes(text(number))
    (base / "d").rename(base / f"old-{number}")
    (base / "new").rename(base / "d")
    seen({f"{number}.json": number})


def a_volume_of_kubernetes(base: Path, number: int, seen: Seen) -> None:
    new = base / "d" / f"..2026_{number}"
    new.mkdir()
    (new / "x.json").write_bytes(text(number))
    relink(base / "d/x.json", "..data/x.json") if number == 0 else None
    relink(base / "d/..data", new.name)
    seen({"x.json": number})


CHANGES = [new_files, written_renamed_deleted, swapped_by_a_link, swapped_by_renames, a_volume_of_kubernetes]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_change_is_seen_every_time(tmp_path: Path, change: Callable[[Path, int, Seen], None]) -> None:
    (tmp_path / "d").mkdir()
    directories = opened(tmp_path / "d")

    def seen(expected: dict[str, object]) -> None:
        assert in_force(directories) == {name: str(version) for name, version in expected.items()}

    for number in range(TIMES):
        change(tmp_path, number, seen)


@contextmanager
def meanwhile(work: Callable[[], None]) -> Iterator[None]:
    """Somebody does something all the time."""
    done = threading.Event()

    def go_on() -> None:
        while not done.is_set():
            work()

    worker = threading.Thread(target=go_on)
    worker.start()
    try:
        yield
    finally:
        done.set()
        worker.join()


@pytest.mark.parametrize("masked", [False, True], ids=["alone", "over another"])
def test_a_file_that_is_written_all_the_time_is_in_force_all_the_time(tmp_path: Path, masked: bool) -> None:
    for name in ("vendor", "site"):
        (tmp_path / name).mkdir()
    (tmp_path / ("vendor" if masked else "site") / "x.json").write_bytes(text(1))
    directories = opened(tmp_path / "vendor", tmp_path / "site")
    whole = text(2 if masked else 1)

    def write() -> None:
        with open(tmp_path / "site/x.json", "wb", buffering=0) as file:  # without a temporary one
            file.write(whole[:20])
            file.write(whole[20:])

    with meanwhile(write):
        while directories.files_read < TIMES:
            assert in_force(directories)["x.json"] in {"1", "2"}
    assert in_force(directories) == {"x.json": "2" if masked else "1"}


def test_a_swap_under_way_shows_the_old_or_the_new_and_ends_with_the_new(tmp_path: Path) -> None:
    link, places = tmp_path / "hooks.d", [tmp_path / "a", tmp_path / "b"]
    for place in places:
        place.mkdir()
        for number in range(5):
            (place / f"{number}.json").write_bytes(text(place.name))
    link.symlink_to(places[0])
    directories = opened(link)

    def swap() -> None:
        for place in places[::-1]:
            relink(link, place)

    with meanwhile(swap):
        for _ in range(TIMES):
            assert len(in_force(directories)) == 5
    assert set(in_force(directories).values()) == {os.readlink(link)[-1]}
