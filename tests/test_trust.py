"""Who can write to a file and to the directories above it, decided on real files."""

from __future__ import annotations

import logging
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import pytest

from v010_adapter.host import paths, trust
from v010_adapter.host.trust import FileVerdict, judge

from .rig.mounts import OWN_MOUNTS, require_mounts
from .rig.users import GIVES_FILES, NOBODY

ADM = 4
GROUP = os.getegid()


PLACES = ("a", "a/b", "a/b/file")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A file in directories, all of them ours alone, and a link to it beside it."""
    place = tmp_path / "a/b/file"
    place.parent.mkdir(parents=True)
    place.touch()
    (place.parent / "link").symlink_to("file")
    for name in PLACES:
        (tmp_path / name).chmod(0o755)
    yield place
    (tmp_path / "a").chmod(0o755)


def error(path: Path) -> str:
    return judge(str(path)).error


class Case(NamedTuple):
    """Modes and owners that places have, and what is decided about the link."""

    modes: Mapping[str, int] = {}
    owners: Mapping[str, int] = {}
    error: str = ""
    warnings: Sequence[str] = ()


OPEN = [Case({name: mode}, {}, f"{name} is world-writable") for name in PLACES for mode in (0o702, 0o757, 0o777)]
OURS = [
    Case(),
    *OPEN,
    Case({"a/b": 0o1777}),  # others cannot replace what is in it
    Case({"a/b/file": 0o1777}, {}, "a/b/file is world-writable"),  # a sticky file is no directory
    Case({"a/b": 0o775, "a/b/file": 0o664}, {}, "", [f"{name} is writable for group {GROUP}" for name in PLACES[1:]]),
]
FOREIGN = "a/b", "a/b/link", "a/b/file"
OF_OTHERS = [
    Case(
        {}, {"a/b": NOBODY, "a/b/link": ADM}, "", [f"a/b belongs to user {NOBODY}", f"a/b/link belongs to user {ADM}"]
    ),
    Case({"a/b": 0o1777}, {"a/b": NOBODY}, "a/b is world-writable", [f"a/b belongs to user {NOBODY}"]),
    # Any user can have put it into a sticky directory.
    *(Case({"a": 0o1777}, {name: NOBODY}, f"{name} belongs to user {NOBODY}") for name in FOREIGN),
]


@pytest.mark.parametrize("cases", [OURS, pytest.param(OF_OTHERS, marks=GIVES_FILES)], ids=["ours", "of others"])
def test_who_can_write_is_named_with_the_place(cases: list[Case], place: Path, tmp_path: Path) -> None:
    for modes, owners, expected, warnings in cases:
        for name in (*PLACES, "a/b/link"):
            if owners:
                os.chown(tmp_path / name, owners.get(name, 0), -1, follow_symlinks=False)
            if name in PLACES:
                (tmp_path / name).chmod(modes.get(name, 0o755))
        verdict = judge("/a/b/link", str(tmp_path))
        assert verdict.error == (expected and f"{tmp_path}/{expected}")
        assert verdict.warnings == tuple(f"{tmp_path}/{warning}" for warning in warnings)


@GIVES_FILES
def test_our_own_files_are_good_and_so_are_roots(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chown(place, NOBODY, 0)
    place.parent.chmod(0o1777)
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    assert judge("/a/b/file", str(tmp_path)) == FileVerdict("", ())


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


def test_a_link_to_the_null_device_is_good_although_anybody_can_write_to_that(place: Path) -> None:
    (place.parent / "mask").symlink_to("/dev/null")
    assert judge(str(place.parent / "mask")) == FileVerdict("", ())


def test_below_another_root_links_lead_below_it_and_the_directories_above_do_not_count(place: Path) -> None:
    host = place.parent
    (host / "whole").symlink_to("/file")
    host.parent.chmod(0o777)
    assert judge("/whole", str(host)) == FileVerdict("", ())
    host.chmod(0o777)
    assert judge("/whole", f"{host}/").error == f"{host} is world-writable"


def test_what_cannot_be_looked_at_is_an_error() -> None:
    for path in ("/no/such/file", "/etc/passwd/x", "/a\0b", "/" + "x" * 300):
        assert judge(path).error, path


VOLUME = """set -e
mkdir -p volume/..2026 hooks.d; touch volume/..2026/x.json; ln -s ..2026 volume/..data; chmod 777 volume
ln -s ..data/x.json volume/x.json
{}
mount --bind volume hooks.d; mount -o remount,bind,{} "$PWD/hooks.d"
exec "$0" -c "$1"
"""
"""Makes what the kubelet makes of a ConfigMap, and something more; mounts it."""
JUDGED = "import os; from v010_adapter.host.trust import judge; print(judge('/hooks.d/x.json', os.getcwd()).error)"


@pytest.mark.parametrize(
    ("more", "mode", "bad"),
    [
        ("", "ro", ""),
        ("", "rw", "hooks.d"),  # anybody can make `..data` in it, and a hostPath may be mounted like that
        ("mount --bind volume hooks.d; mount -o remount,bind,ro hooks.d", "rw", "hooks.d"),  # the last mount counts
        ("chmod 777 volume/..2026", "ro", "hooks.d/..2026"),  # only the root of the volume is protected
        (f"chown {NOBODY} volume", "ro", "hooks.d"),
        ("ln -sfn ..2026/x.json volume/x.json; rm volume/..data", "ro", "hooks.d"),
    ],
)
def test_a_config_map_volume_is_good_if_read_only_and_roots(tmp_path: Path, more: str, mode: str, bad: str) -> None:
    require_mounts()
    folder = tmp_path / "with a blank"
    folder.mkdir()
    words = [*OWN_MOUNTS, "sh", "-c", VOLUME.format(more, mode), sys.executable, JUDGED]
    ran = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == (f"{folder}/{bad} is world-writable\n" if bad else "\n", "")


# What is made of the decision


def test_each_warning_is_logged_once(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    place.parent.chmod(0o775)
    (place.parent / "other").touch(0o600)
    for name in ("file", "other", "file"):
        assert trust.strict(f"{place.parent}/{name}", "/") == ""
    said = f"trust: {place.parent} is writable for group {GROUP}"
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [(logging.WARNING, said)]
    place.chmod(0o666)
    assert trust.off(str(place), "/") == ""


def test_a_good_program_is_decided_on_again_when_its_status_has_changed_and_a_bad_one_each_time(place: Path) -> None:
    asked: list[str] = []

    def decide(path: str, root: str) -> str:
        asked.append(path)
        return trust.strict(path, root)

    trusted = trust.TrustedPrograms(decide)

    def faults() -> list[str]:
        return [trusted.fault(str(place), place.stat()) for _ in range(2)]

    assert (faults(), len(asked)) == (["", ""], 1)
    place.chmod(0o666)
    assert faults() == [f"{place} is world-writable"] * 2
    place.chmod(0o644)
    place.parent.chmod(0o777)
    assert faults() == [f"{place.parent} is world-writable"] * 2
    place.parent.chmod(0o755)
    assert (faults(), len(asked)) == (["", ""], 6)


# The walk


@pytest.mark.parametrize("number", range(5))
def test_the_walk_ends_where_the_kernels_does(tmp_path: Path, seed: int, number: int) -> None:
    """Random trees of directories, files and links, and random paths through them."""
    dice = random.Random(f"{seed} {number}")  # noqa: S311 - no secret
    names = ["a", "b", "c"]
    steps = [*names, *names, "..", ".", ""]
    same = attrgetter("st_dev", "st_ino")  # others may change meanwhile what is above

    def path(length: int) -> str:
        return "/".join(dice.choice(steps) for _ in range(length))

    for depth in (1, 2, 3):
        for _ in range(6):
            new = tmp_path.joinpath(*(dice.choice(names) for _ in range(depth)))
            target = path(dice.randint(1, 3)) or "."
            link = partial(new.symlink_to, dice.choice(["", f"{tmp_path}/"]) + target)
            makes: list[Callable[[], object]] = [new.mkdir, new.touch, link]
            with suppress(OSError):
                dice.choice(makes)()
    for _ in range(200):
        through = f"{tmp_path}/{path(dice.randint(1, 5))}"
        try:
            expected: object = same(os.stat(through))
        except OSError as caught:
            expected = caught.errno
        try:
            found: object = same([status for _, status in paths.walk(through)][-1])
        except OSError as caught:
            found = caught.errno
        assert found == expected, through
