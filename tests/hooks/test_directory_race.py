"""A writer at work costs no hook. Changes one by one stand in test_directory_scenes and test_directory_properties."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .hookdirs import in_force, opened, relink, text

TIMES = 200


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
