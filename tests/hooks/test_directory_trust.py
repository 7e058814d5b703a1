"""Hook files, and programs of hooks, that anybody could have written are not used, and are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapter import trust

from .hookdirs import in_force, later, opened, problems, text


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "hooks.d"
    place.mkdir()
    (place / "x.json").write_bytes(text())
    return place


@pytest.mark.parametrize("at", [".", "x.json"], ids=["its directory", "itself"])
@pytest.mark.parametrize("now", [later, lambda: 0], ids=["settled", "just written"])
def test_a_file_that_anybody_can_replace_is_not_used_until_that_has_changed(place: Path, at: str, now: object) -> None:
    (place / at).chmod(0o777)
    directories = opened([str(place)], now=now)
    for _ in range(2):
        assert in_force(directories) == {}
        assert problems(directories) == {"x.json": f"{place / at} is world-writable"}
    (place / at).chmod(0o755)
    assert in_force(directories) == {"x.json": "1"}
    assert problems(directories) == {}


def test_a_new_file_in_a_directory_that_has_become_writable_is_not_used(place: Path) -> None:
    directories = opened([str(place)], now=later)
    place.chmod(0o777)
    (place / "y.json").write_bytes(text(2))
    assert in_force(directories) == {"x.json": "1"}


def test_of_a_file_the_last_version_that_was_trusted_stays_in_force(place: Path) -> None:
    directories = opened([str(place)], now=later)
    (place / "x.json").write_bytes(text(2))
    (place / "x.json").chmod(0o666)
    assert in_force(directories) == {"x.json": "1"}
    reason = f"{place}/x.json is world-writable; the last good version stays in force"
    assert problems(directories) == {"x.json": reason}
    (place / "x.json").chmod(0o644)
    assert in_force(directories) == {"x.json": "2"}


@pytest.mark.parametrize("is_link", [True, False])
def test_nobody_else_can_mask_a_hook(place: Path, tmp_path: Path, is_link: bool) -> None:
    later_place = tmp_path / "later.d"
    later_place.mkdir()
    later_place.chmod(0o777)
    mask = later_place / "x.json"
    mask.symlink_to("/dev/null") if is_link else mask.touch()
    directories = opened([str(place), str(later_place)], now=later)
    assert in_force(directories) == {"x.json": "1"}
    later_place.chmod(0o755)
    assert in_force(directories) == {}


@pytest.mark.parametrize("inside", [True, False], ids=["host root", "real root"])
def test_a_hook_whose_program_anybody_can_replace_is_not_injected(tmp_path: Path, place: Path, inside: bool) -> None:
    host = tmp_path / "host"
    (host / "bin").mkdir(parents=True)
    (host / "bin/hook").touch(0o755)
    shown = "/bin/hook" if inside else f"{host}/bin/hook"
    (place / "x.json").write_bytes(text(program=shown))
    directories = opened([str(place)], str(host) if inside else "/", now=later)
    assert in_force(directories) == {"x.json": "1"}
    for at in (host / "bin/hook", host / "bin"):
        at.chmod(0o777)
        (host / "bin/hook").touch()  # a directory's mode alone is no change of the program
        assert in_force(directories) == {}
        assert problems(directories) == {"x.json": f"its program {shown}: {at} is world-writable"}
        at.chmod(0o755)
        assert in_force(directories) == {"x.json": "1"}


def test_a_program_that_runs_in_the_container_is_not_the_nodes(place: Path, tmp_path: Path) -> None:
    program = tmp_path / "hook"
    program.touch()
    program.chmod(0o777)
    in_container = text(program=str(program)).replace(b"prestart", b"startContainer")
    (place / "x.json").write_bytes(in_container)
    assert in_force(opened([str(place)])) == {"x.json": "1"}


def test_switched_off_everything_is_used(place: Path) -> None:
    place.chmod(0o777)
    (place / "x.json").chmod(0o666)
    assert in_force(opened([str(place)], trust=trust.off)) == {"x.json": "1"}
