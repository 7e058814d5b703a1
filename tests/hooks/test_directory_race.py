"""A change is in force for the very next container, 500 times out of 500, and a writer at work costs no hook."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.hooks.hookdirs import in_force, opened, relink, replace, text

TIMES = 500


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "hooks.d"
    place.mkdir()
    return place


def test_a_new_file_is_seen_every_time(place: Path) -> None:
    directories = opened([str(place)])
    for number in range(TIMES):
        (place / f"{number}.json").write_bytes(text(number))
        assert in_force(directories)[f"{number}.json"] == str(number)
    assert len(in_force(directories)) == TIMES


def test_a_file_written_anew_is_seen_every_time(place: Path) -> None:
    directories = opened([str(place)])
    for number in range(TIMES):
        (place / "x.json").write_bytes(text(number))
        assert in_force(directories) == {"x.json": str(number)}


def test_a_renamed_file_is_seen_every_time(place: Path) -> None:
    directories = opened([str(place)])
    for number in range(TIMES):
        replace(place / "x.json", text(number))
        assert in_force(directories) == {"x.json": str(number)}
        (place / "x.json").rename(place / "y.json")
        assert in_force(directories) == {"y.json": str(number)}
        (place / "y.json").rename(place.parent / "z.json")
        assert in_force(directories) == {}


def test_a_deleted_file_is_gone_every_time(place: Path) -> None:
    directories = opened([str(place)])
    for number in range(TIMES):
        (place / "x.json").write_bytes(text(number))
        assert in_force(directories) == {"x.json": str(number)}
        (place / "x.json").unlink()
        assert in_force(directories) == {}


def test_a_directory_swapped_by_a_link_is_seen_every_time(tmp_path: Path) -> None:
    link = tmp_path / "hooks.d"
    directories = opened([str(link)])
    for number in range(TIMES):
        new = tmp_path / str(number)
        new.mkdir()
        (new / f"{number}.json").write_bytes(text(number))
        relink(link, new)
        assert in_force(directories) == {f"{number}.json": str(number)}


def test_a_directory_swapped_by_renames_is_seen_every_time(tmp_path: Path, place: Path) -> None:
    directories = opened([str(place)])
    for number in range(TIMES):
        new = tmp_path / "new"
        new.mkdir()
        (new / f"{number}.json").write_bytes(text(number))
        place.rename(tmp_path / f"old-{number}")
        new.rename(place)
        assert in_force(directories) == {f"{number}.json": str(number)}


def test_a_kubernetes_volume_that_is_updated_is_seen_every_time(place: Path) -> None:
    (place / "x.json").symlink_to("..data/x.json")
    directories = opened([str(place)])
    for number in range(TIMES):
        new = place / f"..2026_{number}"
        new.mkdir()
        (new / "x.json").write_bytes(text(number))
        relink(place / "..data", new.name)
        assert in_force(directories) == {"x.json": str(number)}


@contextmanager
def meanwhile(path: Path, content: bytes) -> Iterator[None]:
    """Somebody writes a file anew all the time, without a temporary one."""
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            with open(path, "wb", buffering=0) as file:
                file.write(content[:20])
                file.write(content[20:])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        done.set()
        writer.join()


def test_a_file_that_is_written_all_the_time_is_in_force_all_the_time(place: Path) -> None:
    (place / "x.json").write_bytes(text(1))
    directories = opened([str(place)])
    with meanwhile(place / "x.json", text(1)):
        while directories.files_read < 2 * TIMES:
            assert in_force(directories) == {"x.json": "1"}


def test_an_override_that_is_written_all_the_time_never_uncovers_nothing(tmp_path: Path, place: Path) -> None:
    vendor = tmp_path / "vendor"
    vendor.mkdir()
    (vendor / "x.json").write_bytes(text("vendor"))
    directories = opened([str(vendor), str(place)])
    with meanwhile(place / "x.json", text("site")):
        while directories.files_read < 2 * TIMES:
            assert in_force(directories)["x.json"] in {"vendor", "site"}
    assert in_force(directories) == {"x.json": "site"}


def test_a_swap_under_way_shows_the_old_or_the_new_and_ends_with_the_new(tmp_path: Path) -> None:
    link, places = tmp_path / "hooks.d", [tmp_path / "a", tmp_path / "b"]
    for place in places:
        place.mkdir()
        for number in range(5):
            (place / f"{number}.json").write_bytes(text(place.name))
    link.symlink_to(places[0])
    directories = opened([str(link)])
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            for place in reversed(places):
                relink(link, place)

    writer = threading.Thread(target=swap)
    writer.start()
    try:
        for _ in range(TIMES):
            assert len(in_force(directories)) == 5
    finally:
        done.set()
        writer.join()
    assert set(in_force(directories).values()) == {os.readlink(link)[-1]}
