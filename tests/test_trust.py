"""Who can write to a file and to the directories above it, decided on real files."""

from __future__ import annotations

import logging
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from adapter.host import paths, trust
from adapter.host.trust import Verdict, judge

NOBODY, ADM = 65534, 4
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users and mount")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A file in three directories, all of them ours alone."""
    place = tmp_path / "a/b/file"
    place.parent.mkdir(parents=True)
    place.touch()
    for path in (place, place.parent, place.parent.parent):
        path.chmod(0o755)
    yield place
    (tmp_path / "a").chmod(0o755)


def error(path: Path) -> str:
    return judge(str(path)).error


def without_sticky(path: Path) -> Verdict:
    """The decision without the directories above the test's own: `/tmp` is sticky, where owners count for more."""
    root = next(above for above in path.parents if above.name == "a").parent
    return judge(f"/{path.relative_to(root)}", str(root))


def test_a_file_that_only_we_can_write_is_good_and_one_that_anybody_can_replace_an_error_that_names_the_place(
    place: Path,
) -> None:
    assert judge(str(place)) == Verdict("", ())
    for open_ in (place, place.parent, place.parent.parent):
        for mode in (0o703, 0o757, 0o777):
            open_.chmod(mode)
            assert error(place) == f"{open_} is world-writable"
        open_.chmod(0o755)


def test_a_sticky_directory_of_ours_is_none_for_others_cannot_replace_what_is_in_it(place: Path) -> None:
    place.parent.chmod(0o1777)
    assert judge(str(place)) == Verdict("", ())
    place.chmod(0o1777)
    assert error(place) == f"{place} is world-writable", "a sticky file is no directory"


@ROOT
def test_the_owner_of_a_sticky_directory_can_replace_what_is_in_it(place: Path) -> None:
    place.parent.chmod(0o1777)
    os.chown(place.parent, NOBODY, 0)
    assert without_sticky(place).error == f"{place.parent} is world-writable"


def test_what_a_group_can_write_is_a_warning(place: Path) -> None:
    place.parent.chmod(0o775)
    place.chmod(0o664)
    group = os.getegid()
    said = (f"{place.parent} is writable for group {group}", f"{place} is writable for group {group}")
    assert judge(str(place)) == Verdict("", said)


@ROOT
def test_what_belongs_to_another_user_is_a_warning(place: Path) -> None:
    os.chown(place.parent, NOBODY, 0)
    (place.parent / "link").symlink_to("file")
    os.chown(place.parent / "link", ADM, 0, follow_symlinks=False)
    said = f"{place.parent} belongs to user {NOBODY}"
    assert without_sticky(place) == Verdict("", (said,))
    assert without_sticky(place.parent / "link").warnings == (said, f"{place.parent}/link belongs to user {ADM}")


@ROOT
def test_below_a_sticky_directory_what_belongs_to_another_user_is_an_error(place: Path) -> None:
    """Any user can have put it there."""
    place.parent.parent.chmod(0o1777)
    for foreign in (place.parent / "link", place, place.parent):
        (place.parent / "link").unlink(missing_ok=True)
        (place.parent / "link").symlink_to("file")
        os.chown(foreign, NOBODY, 0, follow_symlinks=False)
        said = f"{foreign} belongs to user {NOBODY}"
        assert without_sticky(place.parent / "link") == Verdict(said, ()) == judge(str(place.parent / "link"))
    place.parent.parent.chmod(0o755)
    assert not without_sticky(place).error


@ROOT
def test_what_is_our_own_is_good_and_so_is_what_is_roots(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chown(place, NOBODY, 0)
    assert without_sticky(place).warnings
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    assert judge(str(place)) == Verdict("", ())


def test_every_directory_that_is_passed_on_the_way_counts(place: Path, tmp_path: Path) -> None:
    """A link in a good directory to a file in a good directory, by way of a link in a bad one."""
    for name in ("bad", "good"):
        (tmp_path / name).mkdir()
    (tmp_path / "bad/middle").symlink_to("../a/b")
    (tmp_path / "good/start").symlink_to(tmp_path / "bad/middle/file")
    assert error(tmp_path / "good/start") == error(tmp_path / "bad/../a/./b//file") == ""
    (tmp_path / "bad").chmod(0o777)
    assert error(tmp_path / "good/start") == f"{tmp_path}/bad is world-writable"
    assert error(tmp_path / "bad/../a/b/file") == f"{tmp_path}/bad is world-writable"


def test_a_relative_path_is_one_of_the_working_directory(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.parent)
    assert judge("file") == Verdict("", ())
    place.parent.parent.chmod(0o777)
    assert error(Path("file")) == f"{place.parent.parent} is world-writable"


def test_a_link_to_the_null_device_is_good_although_anybody_can_write_to_that(place: Path) -> None:
    (place.parent / "mask").symlink_to("/dev/null")
    assert judge(str(place.parent / "mask")) == Verdict("", ())


def test_below_another_root_links_lead_below_it_and_the_directories_above_do_not_count(place: Path) -> None:
    host = place.parent
    (host / "link").symlink_to("/file")
    host.parent.chmod(0o777)
    assert judge("/link", str(host)) == Verdict("", ())
    host.chmod(0o777)
    assert judge("/link", f"{host}/").error == f"{host} is world-writable"


def test_what_cannot_be_looked_at_is_an_error() -> None:
    for path in ("/no/such/file", "/etc/passwd/x", "/a\0b", "/" + "x" * 300):
        assert judge(path).error, path


def test_a_name_is_printed_on_one_line(place: Path) -> None:
    odd = place.parent / "a\nb"
    odd.touch()
    odd.chmod(0o666)
    assert error(odd) == f"{place.parent}/a\\nb is world-writable"


def config_map(root: Path) -> Path:
    """Makes what the kubelet makes of a ConfigMap; returns its file."""
    (root / "..2026").mkdir(parents=True)
    (root / "..2026/x.json").touch()
    (root / "..data").symlink_to("..2026")
    (root / "x.json").symlink_to("..data/x.json")
    root.chmod(0o777)
    return root / "x.json"


def test_the_root_of_a_config_map_volume_is_good_if_it_is_a_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = config_map(tmp_path / "volume")
    mounts = [str(tmp_path / "volume")]
    monkeypatch.setattr(trust, "_is_read_only_mount", lambda place: place in mounts)
    assert error(file) == ""
    mounts.clear()
    assert error(file) == f"{tmp_path}/volume is world-writable"
    mounts.append(str(tmp_path / "volume"))
    (tmp_path / "volume/..2026").chmod(0o777)
    assert "world-writable" in error(file), "only the root of the volume"


@ROOT
def test_a_mount_that_anybody_can_write_and_that_is_no_config_map_of_roots_is_an_error(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust, "_is_read_only_mount", lambda place: True)
    place.parent.chmod(0o777)
    assert error(place)
    (place.parent / "..data").symlink_to(".")
    assert not error(place)
    os.chown(place.parent, NOBODY, 0)
    assert error(place)


@ROOT
@pytest.mark.parametrize("is_read_only", [True, False])
def test_a_mounted_config_map_is_good_also_on_the_same_file_system_if_it_is_read_only(
    tmp_path: Path, is_read_only: bool
) -> None:
    """Anybody can make `..data` in a directory that anybody can write to, and a hostPath may be mounted like that."""
    tmp_path = tmp_path / "with a blank"
    tmp_path.mkdir()
    config_map(tmp_path / "volume")
    (tmp_path / "hooks.d").mkdir()
    judged = f"from adapter.host.trust import judge; print(judge('{tmp_path}/hooks.d/x.json').error)"
    script = 'mount --bind "$1/volume" "$1/hooks.d" && mount -o "remount,bind,$4" "$1/hooks.d" && exec "$2" -c "$3"'
    mode = "ro" if is_read_only else "rw"
    words = ["unshare", "--mount", "sh", "-c", script, "sh", str(tmp_path), sys.executable, judged, mode]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    if "unshare" in ran.stderr or "mount:" in ran.stderr:
        pytest.skip(f"nothing can be mounted here: {ran.stderr}")
    assert (ran.stdout, ran.stderr) == ("\n" if is_read_only else f"{tmp_path}/hooks.d is world-writable\n", "")


# What is made of the decision


def test_each_warning_is_logged_once(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    place.parent.chmod(0o775)
    (place.parent / "other").touch(0o600)
    for name in ("file", "other", "file"):
        assert trust.strict(f"{place.parent}/{name}", "/") == ""
    said = f"trust: {place.parent} is writable for group {os.getegid()}"
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [(logging.WARNING, said)]


def test_off_trusts_everything_without_a_word(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    place.chmod(0o666)
    place.parent.chmod(0o775)
    assert trust.off(str(place), "/") == ""
    assert not caplog.records


def test_a_good_file_is_decided_on_again_when_its_status_has_changed(place: Path) -> None:
    asked: list[str] = []

    def decide(path: str, root: str) -> str:
        asked.append(path)
        return trust.strict(path, root)

    trusted = trust.TrustedPrograms(decide)

    def fault() -> str:
        return trusted.fault(str(place), place.stat())

    assert [fault(), fault(), len(asked)] == ["", "", 1]
    place.chmod(0o666)
    assert fault() == fault() == f"{place} is world-writable"
    place.chmod(0o644)
    assert [fault(), fault(), len(asked)] == ["", "", 4]


def test_a_bad_file_is_decided_on_again_each_time_for_the_reason_may_be_a_directory(place: Path) -> None:
    trusted = trust.TrustedPrograms(trust.strict)
    place.parent.chmod(0o777)
    assert trusted.fault(str(place), place.stat()) == f"{place.parent} is world-writable"
    place.parent.chmod(0o755)
    assert trusted.fault(str(place), place.stat()) == ""


# The walk


Make = Callable[[Path, Path], object]


@pytest.mark.parametrize("number", range(5))
def test_the_walk_ends_where_the_kernels_does(tmp_path: Path, seed: int, number: int) -> None:
    """Random trees of directories, files and links, and random paths through them."""
    dice = random.Random(f"{seed} {number}")  # noqa: S311 - no secret
    names = ["a", "b", "c"]
    steps = [*names, *names, "..", ".", ""]

    def path(length: int) -> str:
        return "/".join(dice.choice(steps) for _ in range(length))

    for depth in (1, 2, 3):
        for _ in range(6):
            new = tmp_path.joinpath(*(dice.choice(names) for _ in range(depth)))
            target = path(dice.randint(1, 3)) or "."
            make: Make = dice.choice(
                [lambda at, _: at.mkdir(), lambda at, _: at.touch(), lambda at, to: at.symlink_to(to)]
            )
            try:
                make(new, Path(dice.choice(["", f"{tmp_path}/"]) + target))
            except OSError:
                continue
    for _ in range(200):
        through = f"{tmp_path}/{path(dice.randint(1, 5))}"
        try:
            expected: object = paths.version(os.stat(through))
        except OSError as caught:
            expected = caught.errno
        try:
            found: object = paths.version([status for _, status in paths.walk(through)][-1])
        except OSError as caught:
            found = caught.errno
        assert found == expected, through
