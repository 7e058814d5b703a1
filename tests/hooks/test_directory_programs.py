"""Hooks whose programs are not there: not injected, but named, until they are."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from adapter import paths
from tests.hooks.hookdirs import PROGRAM, in_force, later, opened, problems, relink, text


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """The root of a node."""
    (tmp_path / "host" / "usr" / "bin").mkdir(parents=True)
    return tmp_path / "host"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "hooks.d"
    place.mkdir()
    return place


def make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(0o755)


def test_a_hook_is_in_force_as_long_as_its_program_is_there(place: Path, host: Path) -> None:
    (place / "x.json").write_bytes(text(program="/usr/bin/hook"))
    directories = opened([str(place)], str(host))
    reason = "its program /usr/bin/hook: No such file or directory"
    for _ in range(3):
        assert in_force(directories) == {}
        assert problems(directories) == {"x.json": reason}
        make(host / "usr" / "bin" / "hook")
        assert in_force(directories) == {"x.json": "1"}
        assert directories.problems == []
        (host / "usr" / "bin" / "hook").unlink()


def test_a_program_counts_as_soon_as_the_last_missing_directory_on_its_way_is_there(place: Path, host: Path) -> None:
    (place / "x.json").write_bytes(text(program="/opt/a/b/hook"))
    directories = opened([str(place)], str(host))
    for step in ("opt", "opt/a", "opt/a/b"):
        (host / step).mkdir()
        assert in_force(directories) == {}
    make(host / "opt" / "a" / "b" / "hook")
    assert in_force(directories) == {"x.json": "1"}
    (host / "opt").rename(host / "away")
    assert in_force(directories) == {}
    (host / "away").rename(host / "opt")
    assert in_force(directories) == {"x.json": "1"}


def test_a_program_that_comes_and_goes_costs_no_reading_of_files(place: Path, host: Path) -> None:
    (place / "x.json").write_bytes(text(program="/usr/bin/hook"))
    directories = opened([str(place)], str(host), now=later)
    make(host / "usr" / "bin" / "hook")
    assert in_force(directories) == {"x.json": "1"}
    (host / "usr" / "bin" / "another").touch()
    assert directories.current() is directories.current()
    assert directories.files_read == 1


def test_links_on_the_way_to_a_program_are_those_of_the_host(place: Path, host: Path) -> None:
    (host / "bin").symlink_to("/usr/bin")
    (host / "usr" / "bin" / "hook").symlink_to("/etc/alternatives/hook")
    (place / "x.json").write_bytes(text(program="/../bin/../bin/hook"))
    directories = opened([str(place)], str(host))
    assert in_force(directories) == {}
    make(host / "etc" / "alternatives" / "real")
    (host / "etc" / "alternatives" / "hook").symlink_to("../../../../../etc/alternatives/real")
    assert in_force(directories) == {"x.json": "1"}
    relink(host / "bin", "/sbin")
    assert in_force(directories) == {}
    relink(host / "bin", "usr/bin")
    assert in_force(directories) == {"x.json": "1"}


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("/usr/bin/file", ""),
        ("/usr/bin", "not an executable file"),
        ("/usr/bin/plain", "not an executable file"),
        ("/", "not an executable file"),
        ("/usr//bin/./file", ""),
        ("/usr/bin/link", ""),
        ("/usr/bin/absent", "No such file or directory"),
        ("/usr/bin/dangling", "No such file or directory"),
        ("/usr/bin/loop", "Too many levels of symbolic links"),
        ("/usr/bin/file/x", "Not a directory"),
        ("/usr/bin/file/", "Not a directory"),
        ("/usr/bin/file/..", "Not a directory"),
        ("/usr/bin/absent/..", "No such file or directory"),
        ("/usr/bin/" + 300 * "x", "File name too long"),
        ("/usr/bin/a\nb", "No such file or directory"),
    ],
)
@pytest.mark.parametrize("inside", [True, False], ids=["host root", "real root"])
def test_whether_a_program_is_there_is_what_the_kernel_says(
    place: Path, host: Path, program: str, reason: str, inside: bool
) -> None:
    make(host / "usr" / "bin" / "file")
    for link, target in (("link", "file"), ("dangling", "nothing"), ("loop", "loop")):
        (host / "usr" / "bin" / link).symlink_to(target)
    (host / "usr" / "bin" / "plain").touch(0o644)
    there = f"{host}/{program}"
    assert (os.access(there, os.X_OK) and os.path.isfile(there)) == (not reason)
    shown = program if inside else there
    (place / "x.json").write_bytes(text(program=shown))
    directories = opened([str(place)], str(host) if inside else "/")
    expected = {"x.json": f"its program {shown}: {reason}".replace("\n", "\\n")} if reason else {}
    assert problems(directories) == expected
    assert in_force(directories) == ({} if reason else {"x.json": "1"})


@pytest.mark.parametrize("path", ["/a\0b", "/\ud800"])
def test_what_can_be_no_path_leads_nowhere(path: str, tmp_path: Path) -> None:
    with pytest.raises((OSError, ValueError)):
        paths.status(path, str(tmp_path))


def test_a_program_behind_as_many_links_as_the_kernel_follows_is_there_and_behind_one_more_is_not(
    place: Path, host: Path
) -> None:
    make(host / "0")
    for number in range(1, 42):
        (host / str(number)).symlink_to(str(number - 1))
    for number in (40, 41):
        assert os.access(host / str(number), os.F_OK) == (number == 40)
        (place / f"{number}.json").write_bytes(text(program=f"/{number}"))
    assert in_force(opened([str(place)], str(host))).keys() == {"40.json"}


def test_a_file_whose_program_is_missing_hides_nothing(tmp_path: Path, place: Path, host: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    make(host / "usr" / "bin" / "vendor")
    (place / "x.json").write_bytes(text("vendor", program="/usr/bin/vendor"))
    (site / "x.json").write_bytes(text("site", program="/usr/bin/site"))
    directories = opened([str(place), str(site)], str(host))
    assert in_force(directories) == {"x.json": "vendor"}
    make(host / "usr" / "bin" / "site")
    assert in_force(directories) == {"x.json": "site"}
    (host / "usr" / "bin" / "site").unlink()
    assert in_force(directories) == {"x.json": "vendor"}


def test_a_new_version_with_a_missing_program_replaces_the_old_one(place: Path, host: Path) -> None:
    make(host / "usr" / "bin" / "old")
    (place / "x.json").write_bytes(text(program="/usr/bin/old"))
    directories = opened([str(place)], str(host))
    (place / "x.json").write_bytes(text(2, program="/usr/bin/new"))
    assert in_force(directories) == {}
    make(host / "usr" / "bin" / "new")
    assert in_force(directories) == {"x.json": "2"}


def test_a_missing_program_is_logged_once_and_so_is_its_return(
    place: Path, host: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    (place / "x.json").write_bytes(text(program="/usr/bin/hook"))
    directories = opened([str(place)], str(host))
    for _ in range(3):
        os.utime(place / "x.json")
        directories.current()
    make(host / "usr" / "bin" / "hook")
    directories.current()
    path = place / "x.json"
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}: its program /usr/bin/hook: No such file or directory",
        f"{path}: no error any more",
        "hooks: 1 in force",
        f"hooks: {path} is in force: it runs /usr/bin/hook at prestart",
    ]


def test_each_file_is_logged_when_it_comes_into_force_and_when_it_has_another_hook(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    directories = opened([str(tmp_path)])

    def logged() -> list[str]:
        directories.current()
        lines = [record.getMessage().removeprefix(f"hooks: {tmp_path}/") for record in caplog.records]
        caplog.clear()
        return lines

    for name, number in (("a.json", 1), ("b\n.json", 2)):
        (tmp_path / name).write_bytes(text(number))
    said = f"{{}} is in force: it runs {PROGRAM} at prestart"
    assert logged() == ["hooks: 2 in force", said.format("a.json"), said.format("b\\n.json")]
    (tmp_path / "c.json").write_bytes(text(1))
    assert logged() == ["hooks: 3 in force", said.format("c.json")]
    (tmp_path / "a.json").write_bytes(text(3))
    assert logged() == ["hooks: 3 in force", said.format("a.json")]
    (tmp_path / "c.json").unlink()
    assert logged() == ["hooks: 2 in force"]
