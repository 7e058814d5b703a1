"""What stands where conf.json should be and is no file of a bearable size."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from adapter.errors import ConfigError
from adapter.legacy.config import MAX_SIZE, ConfigFile

from .disk import Disk, errors, naming, pretend


def make_directory(path: Path) -> None:
    path.mkdir()


def make_fifo(path: Path) -> None:
    """Make a FIFO, which to open would block for ever."""
    os.mkfifo(path)


def make_device(path: Path) -> None:
    """Make a link to what never ends."""
    path.symlink_to("/dev/zero")


def make_loop(path: Path) -> None:
    path.symlink_to(path.name)


def make_huge(path: Path) -> None:
    path.write_bytes(b" " * MAX_SIZE + b"{}")


def make_sparse(path: Path) -> None:
    """Make a file that is too large to be read even once."""
    with path.open("wb") as file:
        file.truncate(1 << 40)


UNUSABLE = [
    (make_directory, "regular file"),
    (make_fifo, "regular file"),
    (make_device, "regular file"),
    (make_loop, "symbolic links"),
    (make_huge, f"{MAX_SIZE + 2} bytes, at most {MAX_SIZE}"),
    (make_sparse, f"{1 << 40} bytes, at most {MAX_SIZE}"),
]


@pytest.mark.parametrize(("make", "reason"), UNUSABLE)
def test_what_is_no_file_of_a_bearable_size_is_an_error(disk: Disk, make: Callable[[Path], None], reason: str) -> None:
    make(disk.path)
    with pytest.raises(ConfigError) as caught:
        disk.conf.current()
    assert str(caught.value).startswith(f"{disk.path}: ")
    assert reason in str(caught.value)


@pytest.mark.parametrize(("make", "reason"), UNUSABLE)
def test_what_is_no_file_of_a_bearable_size_leaves_the_last_good_version(
    disk: Disk, make: Callable[[Path], None], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    disk.write(naming("a"))
    disk.types()
    disk.path.unlink()
    make(disk.path)
    assert disk.types() == disk.types() == ["a"]
    [said] = errors(caplog)
    assert reason in said


def test_the_largest_file_is_read_whole(disk: Disk) -> None:
    assert MAX_SIZE == 1 << 20
    text = naming("a")
    disk.write(text + " " * (MAX_SIZE - len(text)))
    assert disk.types() == ["a"]


@pytest.mark.parametrize("function", ["open", "stat"])
def test_a_file_that_may_not_be_read_is_an_error(disk: Disk, monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    """The tests may run as root, whom no file's mode stops."""

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    disk.write(naming("a"))
    pretend(monkeypatch, **{function: refuse})
    with pytest.raises(ConfigError) as caught:
        disk.conf.current()
    assert str(caught.value) == f"{disk.path}: Permission denied"


def test_a_path_through_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "nri").write_text("")
    with pytest.raises(ConfigError, match="Not a directory"):
        ConfigFile(str(tmp_path / "nri" / "conf.json")).current()


def test_looking_at_a_file_leaves_no_descriptor_open(disk: Disk) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for make in (
        lambda path: path.write_text(naming("a")),
        make_directory,
        make_huge,
        lambda path: path.write_text("{"),
    ):
        make(disk.path)
        for _ in range(3):
            disk.conf.current()
        disk.path.rmdir() if disk.path.is_dir() else disk.path.unlink()
    assert len(os.listdir("/proc/self/fd")) == before
