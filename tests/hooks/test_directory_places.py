"""Directories that are missing, appear, vanish, are replaced, are links, or hold links."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hooks.hookdirs import in_force, later, opened, problems, relink, text


def fill(place: Path, version: str | int = 1, name: str = "x.json") -> None:
    place.mkdir(parents=True, exist_ok=True)
    (place / name).write_bytes(text(version))


def test_a_missing_directory_is_no_problem(tmp_path: Path) -> None:
    directories = opened([str(tmp_path / "missing"), str(tmp_path / "a" / "b" / "c"), "/no/such/place"])
    assert in_force(directories) == {}
    assert directories.problems == []


def test_no_directories_at_all_is_no_problem() -> None:
    assert in_force(opened([])) == {}


def test_a_directory_that_appears_counts_at_once_with_what_is_in_it(tmp_path: Path) -> None:
    directories = opened([str(tmp_path / "a" / "b" / "hooks.d")])
    fill(tmp_path / "a" / "b" / "hooks.d")
    assert in_force(directories) == {"x.json": "1"}


def test_a_directory_that_appears_step_by_step_counts_at_once(tmp_path: Path) -> None:
    place = tmp_path / "a" / "b" / "hooks.d"
    directories = opened([str(place)])
    for step in (place.parent.parent, place.parent, place):
        step.mkdir()
        assert in_force(directories) == {}
    fill(place)
    assert in_force(directories) == {"x.json": "1"}


def test_a_directory_moved_into_place_counts_at_once(tmp_path: Path) -> None:
    directories = opened([str(tmp_path / "a" / "hooks.d")])
    fill(tmp_path / "b" / "hooks.d")
    (tmp_path / "b").rename(tmp_path / "a")
    assert in_force(directories) == {"x.json": "1"}


def test_a_file_that_stands_where_a_directory_belongs_is_a_problem_until_it_is_gone(tmp_path: Path) -> None:
    place = tmp_path / "hooks.d"
    place.touch()
    directories = opened([str(place)])
    assert problems(directories) == {"hooks.d": "Not a directory"}
    place.unlink()
    fill(place)
    assert in_force(directories) == {"x.json": "1"}
    assert directories.problems == []


def link_instead(path: Path, target: Path) -> None:
    path.rename(path.with_name("old"))
    path.symlink_to(target)


# What happens to /a/b/hooks.d, and what is in force afterwards. `aside` is another such directory with version 2.
FATES: dict[str, tuple[Callable[[Path, Path], object], dict[str, str]]] = {
    "deleted": (lambda place, aside: shutil.rmtree(place), {}),
    "deleted with its parents": (lambda place, aside: shutil.rmtree(place.parent.parent), {}),
    "renamed away": (lambda place, aside: place.rename(place.parent / "away"), {}),
    "its parent renamed away": (lambda place, aside: place.parent.rename(place.parent.parent / "away"), {}),
    "its grandparent renamed away": (lambda place, aside: place.parent.parent.rename(aside.parent / "away"), {}),
    "emptied": (lambda place, aside: (place / "x.json").unlink(), {}),
    "replaced": (lambda place, aside: place.rename(place.parent / "old") and aside.rename(place), {"x.json": "2"}),
    "replaced by a link": (link_instead, {"x.json": "2"}),
    "its parent replaced by a link": (lambda place, aside: link_instead(place.parent, aside.parent), {"x.json": "2"}),
}


@pytest.mark.parametrize("fate", FATES)
def test_what_happens_to_a_directory_counts_at_once_and_so_does_its_return(tmp_path: Path, fate: str) -> None:
    place, aside = tmp_path / "a" / "b" / "hooks.d", tmp_path / "c" / "hooks.d"
    fill(place, 1)
    fill(aside, 2)
    directories = opened([str(place)])
    assert in_force(directories) == {"x.json": "1"}
    happen, expected = FATES[fate]
    happen(place, aside)
    assert in_force(directories) == expected
    shutil.rmtree(tmp_path / "a", ignore_errors=True)
    assert in_force(directories) == {}
    fill(place, 3)
    assert in_force(directories) == {"x.json": "3"}
    assert directories.problems == []


def test_what_happens_in_a_directory_that_is_not_in_place_any_more_is_not_heard(tmp_path: Path) -> None:
    place = tmp_path / "hooks.d"
    fill(place, 1)
    directories = opened([str(place)], now=later)
    place.rename(tmp_path / "old")
    fill(place, 2)
    assert in_force(directories) == {"x.json": "2"}
    read = directories.files_read
    for version in range(3, 6):
        fill(tmp_path / "old", version)
        assert in_force(directories) == {"x.json": "2"}
    assert directories.files_read == read


def test_a_chain_of_links_counts_at_every_joint(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        fill(tmp_path / str(number) / "deep" / "hooks.d", number)
    (tmp_path / "links").mkdir()
    one, two = tmp_path / "links" / "one", tmp_path / "two"
    one.symlink_to("../two/deep")
    two.symlink_to(tmp_path / "1")
    directories = opened([f"{one}/hooks.d/.././hooks.d/"])
    assert in_force(directories) == {"x.json": "1"}
    relink(two, "2")
    assert in_force(directories) == {"x.json": "2"}
    relink(one, tmp_path / "3" / "deep")
    assert in_force(directories) == {"x.json": "3"}
    relink(two, "nowhere")
    assert in_force(directories) == {"x.json": "3"}
    relink(one, one)
    assert in_force(directories) == {}
    assert problems(directories) == {"": "Too many levels of symbolic links"}
    relink(one, "../two")
    relink(two, tmp_path / "1" / "deep")
    assert in_force(directories) == {"x.json": "1"}


class Volume:
    """A ConfigMap's volume, written as the kubelet's AtomicWriter does it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.place.mkdir()
        self._number = 0

    def update(self, files: dict[str, bytes], *, observe: Callable[[], object] = lambda: None) -> None:
        self._number += 1
        new = self.place / f"..2026_11_21_{self._number}"
        new.mkdir()
        for name, content in files.items():
            (new / name).write_bytes(content)
        observe()
        old = self.place / os.readlink(self.place / "..data") if self._number > 1 else None
        relink(self.place / "..data", new.name)
        observe()
        for name in files:
            if not os.path.lexists(self.place / name):
                (self.place / name).symlink_to(f"..data/{name}")
                observe()
        for path in list(self.place.iterdir()):
            if not path.name.startswith("..") and path.name not in files:
                path.unlink()
        if old:
            shutil.rmtree(old)
        observe()


@pytest.mark.parametrize("observed", [False, True], ids=["looked at when done", "looked at after each step"])
def test_a_kubernetes_volume_is_followed(tmp_path: Path, observed: bool) -> None:
    directories = opened([str(tmp_path / "volume")])
    observe = directories.current if observed else lambda: None
    volume = Volume(tmp_path / "volume")
    volume.update({"a.json": text(1), "b.json": text(1)}, observe=observe)
    assert in_force(directories) == {"a.json": "1", "b.json": "1"}
    volume.update({"a.json": text(2), "c.json": text(2)}, observe=observe)
    assert in_force(directories) == {"a.json": "2", "c.json": "2"}
    volume.update({"a.json": b"{", "c.json": text(3)}, observe=observe)
    assert in_force(directories) == {"a.json": "2", "c.json": "3"}
    volume.update({"c.json": text(4)}, observe=observe)
    assert in_force(directories) == {"c.json": "4"}
    assert directories.problems == []


def test_a_file_elsewhere_that_is_linked_to_counts_as_if_it_were_here(tmp_path: Path) -> None:
    fill(tmp_path / "store", 1, "stored")
    (tmp_path / "hooks.d").mkdir()
    (tmp_path / "hooks.d" / "x.json").symlink_to("../store/stored")
    directories = opened([str(tmp_path / "hooks.d")])
    assert in_force(directories) == {"x.json": "1"}
    fill(tmp_path / "store", 2, "stored")
    assert in_force(directories) == {"x.json": "2"}
    (tmp_path / "store").rename(tmp_path / "away")
    assert in_force(directories) == {}
    assert problems(directories) == {"x.json": "leads nowhere: No such file or directory"}
    fill(tmp_path / "store", 3, "stored")
    assert in_force(directories) == {"x.json": "3"}
    assert directories.problems == []


def test_a_file_elsewhere_that_goes_and_comes_back_as_it_was_is_in_force_again(tmp_path: Path) -> None:
    fill(tmp_path / "store", 1, "stored")
    (tmp_path / "hooks.d").mkdir()
    (tmp_path / "hooks.d" / "x.json").symlink_to("../store/stored")
    directories = opened([str(tmp_path / "hooks.d")], now=lambda: 1 << 62)
    (tmp_path / "store").rename(tmp_path / "away")
    assert in_force(directories) == {}
    (tmp_path / "away").rename(tmp_path / "store")
    assert in_force(directories) == {"x.json": "1"}


@pytest.mark.parametrize("target", ["stored", "/dev/null"])
def test_a_link_that_leads_to_no_file_for_a_while_is_no_problem_afterwards(tmp_path: Path, target: str) -> None:
    fill(tmp_path, 1, "stored")
    (tmp_path / "hooks.d").mkdir()
    (tmp_path / "hooks.d" / "x.json").symlink_to("../joint")
    (tmp_path / "joint").symlink_to(target)
    directories = opened([str(tmp_path / "hooks.d")], now=lambda: 1 << 62)
    expected = in_force(directories)
    relink(tmp_path / "joint", "hooks.d")
    assert problems(directories).keys() == {"x.json"}
    relink(tmp_path / "joint", target)
    assert problems(directories) == {}
    assert in_force(directories) == expected


def test_a_directory_within_another_takes_nothing_from_it(tmp_path: Path) -> None:
    fill(tmp_path, 1)
    directories = opened([str(tmp_path), str(tmp_path / "within")])
    fill(tmp_path, 2)
    assert in_force(directories) == {"x.json": "2"}
    fill(tmp_path / "within", 3)
    assert in_force(directories) == {"x.json": "3"}


def test_a_file_that_is_changed_by_another_of_its_names_counts_at_once(tmp_path: Path) -> None:
    fill(tmp_path / "hooks.d", 1)
    (tmp_path / "other").hardlink_to(tmp_path / "hooks.d" / "x.json")
    directories = opened([str(tmp_path / "hooks.d")])
    (tmp_path / "other").write_bytes(text(2))
    assert in_force(directories) == {"x.json": "2"}
    (tmp_path / "another").hardlink_to(tmp_path / "other")
    (tmp_path / "other").unlink()
    (tmp_path / "another").write_bytes(text(3))
    assert in_force(directories) == {"x.json": "3"}


MOUNTS = """
import subprocess, sys, time
from pathlib import Path
from adapter.hooks.directory import Directories
from tests.hooks.hookdirs import in_force, opened, text

def mount(*words):
    subprocess.run(["mount", *map(str, words)], check=True)

base, ahead = Path(sys.argv[1]), 0
mount("-t", "tmpfs", "none", base / "volume")
(base / "volume" / "x.json").write_bytes(text(1))
(base / "hooks.d" / "y.json").touch()
mount("--bind", base / "volume" / "x.json", base / "hooks.d" / "y.json")
directories = opened([str(base / "volume"), str(base / "hooks.d")], now=lambda: time.time_ns() + ahead)
assert in_force(directories) == {"x.json": "1", "y.json": "1"}
(base / "volume" / "x.json").write_bytes(text(2))
assert in_force(directories) == {"x.json": "2", "y.json": "2"}
for path in (base / "hooks.d" / "y.json", base / "volume"):
    subprocess.run(["umount", path], check=True)
ahead = 2_000_000_000
assert in_force(directories) == {}, "what was mounted is gone, and y.json is empty"
"""


def test_files_and_directories_that_are_mounted_from_elsewhere_count_until_they_are_unmounted(tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    (tmp_path / "hooks.d").mkdir()
    alone = ["unshare", "--mount"]
    if os.getuid() or subprocess.run([*alone, "true"], check=False, capture_output=True).returncode:
        pytest.skip("mounting needs a mount namespace of one's own, which is not to be had here")
    done = subprocess.run([*alone, sys.executable, "-c", MOUNTS, tmp_path], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
