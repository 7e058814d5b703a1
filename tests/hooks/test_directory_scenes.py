"""What happens to directories, hook files, links and programs counts for the very next container."""

from __future__ import annotations

from pathlib import Path

import pytest

from .hookdirs import Scene, opened, text

SCENES = """
# Directories that are missing, appear, vanish, are replaced.
a missing directory is no problem: open missing a/b/c; IS; BAD
no directories at all are no problem: open; IS; BAD
a directory that appears counts with what is in it: open a/b/d; write a/b/d/x.json; IS x.json=1
a directory that appears step by step counts: open a/b/d; mkdir a; IS; mkdir a/b; IS; mkdir a/b/d; IS;
    write a/b/d/x.json; IS x.json=1
a directory moved into place counts: open a/d; write b/d/x.json; mv b a; IS x.json=1
a file that stands where a directory belongs is a problem until it is gone: write d ?; open d; BAD d: Not a directory;
    rm d; write d/x.json; IS x.json=1; BAD
what happens in a directory that is not in place any more is not heard: write d/x.json; open now=later d; mv d old;
    write d/x.json 2; IS x.json=2; write old/x.json 3; IS x.json=2
a directory within another takes nothing from it: write x.json; open . within; write x.json 2; IS x.json=2;
    write within/x.json 3; IS x.json=3
the same directory may be given twice and as a link: mkdir d; ln link d; open d d link; write d/x.json; IS x.json=1;
    write d/x.json 2; IS x.json=2; rm d/x.json; IS
# Links.
a chain of links counts at every joint: write 1/deep/d/x.json 1; write 2/deep/d/x.json 2; write 3/deep/d/x.json 3;
    mkdir links; ln links/one ../two/deep; ln two BASE/1; open links/one/d/.././d/; IS x.json=1; ln two 2; IS x.json=2;
    ln links/one BASE/3/deep; IS x.json=3; ln two nowhere; IS x.json=3; ln links/one one; IS;
    BAD : Too many levels of symbolic links; ln links/one ../two; ln two BASE/1/deep; IS x.json=1
a file elsewhere that is linked to counts as if it were here: write store/y 1; mkdir d; ln d/x.json ../store/y; open d;
    IS x.json=1; write store/y 2; IS x.json=2; mv store away; IS; BAD x.json: leads nowhere: No such file or directory;
    write store/y 3; IS x.json=3; BAD
a file elsewhere that goes and comes back as it was is in force again: write store/y 1; mkdir d; ln d/x.json ../store/y;
    open now=never d; mv store away; IS; mv away store; IS x.json=1
a link that leads to no file for a while is no problem afterwards: write y; mkdir d; ln d/x.json ../joint; ln joint y;
    open now=never d; ln joint d; BAD x.json; ln joint y; BAD; IS x.json=1
neither is one to /dev/null: mkdir d; ln d/x.json ../joint; ln joint /dev/null; open now=never d; ln joint d;
    BAD x.json; ln joint /dev/null; BAD; IS
a file that is changed by another of its names counts: write d/x.json; hardlink y d/x.json; open d; write y 2;
    IS x.json=2; hardlink z y; rm y; write z 3; IS x.json=3
# A ConfigMap's volume, written as the kubelet's AtomicWriter does it: looked at after each step, and when it is done.
a volume is followed: mkdir v; open v; write v/..1/a.json; write v/..1/b.json; IS; ln v/..data ..1; IS;
    ln v/a.json ..data/a.json; IS a.json=1; ln v/b.json ..data/b.json; IS a.json=1 b.json=1; write v/..2/a.json 2;
    write v/..2/c.json 2; IS a.json=1 b.json=1; ln v/..data ..2; IS a.json=2; ln v/c.json ..data/c.json;
    IS a.json=2 c.json=2; rm v/b.json; rm v/..1; IS a.json=2 c.json=2; write v/..3/a.json {; write v/..3/c.json 3;
    ln v/..data ..3; IS a.json=2 c.json=3; BAD a.json; rm v/..2; IS a.json=2 c.json=3; write v/..4/c.json 4;
    ln v/..data ..4; IS c.json=4; rm v/a.json; rm v/..3; IS c.json=4; BAD
an update as a whole is followed: mkdir v; open v; write v/..1/a.json; write v/..1/b.json; ln v/..data ..1;
    ln v/a.json ..data/a.json; ln v/b.json ..data/b.json; IS a.json=1 b.json=1; write v/..2/a.json {;
    write v/..2/c.json 2; ln v/..data ..2; ln v/c.json ..data/c.json; rm v/b.json; rm v/..1; IS a.json=1 c.json=2;
    write v/..3/c.json 3; ln v/..data ..3; rm v/a.json; rm v/..2; IS c.json=3; BAD
# Several directories.
while an override is written for the first time it hides nothing: write a/x.json 1; mkdir b; open a b; empty b/x.json;
    IS x.json=1; write b/x.json 2; IS x.json=2
a broken file that was empty goes on hiding: write a/x.json; mkdir b; empty b/x.json; open now=later a b;
    write b/x.json {; IS; KEPT x.json: line 1, column 2: unexpected end; rm b/x.json; IS x.json=1
# Programs. A hook whose program is not there is not in force, but named.
a hook is in force as long as its program is there: write d/x.json 1 /bin/p; mkdir h; open host=h d; IS;
    BAD x.json: its program /bin/p: No such file or directory; program h/bin/p; IS x.json=1; BAD; rm h/bin/p; IS;
    BAD x.json; program h/bin/p; IS x.json=1; BAD
a program counts as soon as the last missing directory on its way is there: write d/x.json 1 /a/b/c/p; mkdir h;
    open host=h d; mkdir h/a; IS; mkdir h/a/b; IS; mkdir h/a/b/c; IS; program h/a/b/c/p; IS x.json=1; mv h/a h/away; IS;
    mv h/away h/a; IS x.json=1
links on the way to a program are those of the host: mkdir h/usr/bin; ln h/bin /usr/bin; ln h/usr/bin/p /etc/alt/p;
    write d/x.json 1 /../bin/../bin/p; open host=h d; IS; program h/etc/alt/real;
    ln h/etc/alt/p ../../../../../etc/alt/real; IS x.json=1; ln h/bin /sbin; IS; ln h/bin usr/bin; IS x.json=1
a file whose program is missing hides nothing: program h/p; write a/x.json one /p; write b/x.json two /q;
    open host=h a b; IS x.json=one; program h/q; IS x.json=two; rm h/q; IS x.json=one
a new version with a missing program replaces the old one: program h/p; write d/x.json 1 /p; open host=h d;
    write d/x.json 2 /q; IS; program h/q; IS x.json=2
# What anybody could have written is not used, and is named, until that has changed.
a file in a directory that anybody can write to: write d/x.json; chmod 777 d; open now=later d; IS;
    BAD x.json: BASE/d is world-writable; chmod 755 d; IS x.json=1; BAD
a file that anybody can write to: write d/x.json; chmod 777 d/x.json; open now=later d; IS;
    BAD x.json: BASE/d/x.json is world-writable; IS; chmod 755 d/x.json; IS x.json=1; BAD
a file just written that anybody can write to: write d/x.json; chmod 777 d/x.json; open now=zero d; IS; BAD x.json;
    chmod 755 d/x.json; IS x.json=1; BAD
a new file in a directory that has become writable: write d/x.json; open now=later d; chmod 777 d; write d/y.json;
    IS x.json=1
the last version that was trusted stays in force: write d/x.json; open now=later d; write d/x.json 2;
    chmod 666 d/x.json; IS x.json=1; KEPT x.json: BASE/d/x.json is world-writable; chmod 644 d/x.json; IS x.json=2
nobody else can mask a hook by an empty file: write a/x.json; mkdir b; chmod 777 b; empty b/x.json; open now=later a b;
    IS x.json=1; chmod 755 b; IS
nobody else can mask a hook by a link to /dev/null: write a/x.json; mkdir b; chmod 777 b; ln b/x.json /dev/null;
    open now=later a b; IS x.json=1; chmod 755 b; IS
a program that anybody can write to: program h/bin/p; write d/x.json 1 /bin/p; open host=h now=later d; IS x.json=1;
    chmod 777 h/bin/p; IS; BAD x.json: its program /bin/p: BASE/h/bin/p is world-writable; chmod 755 h/bin/p;
    IS x.json=1
# A directory's mode alone is no change of the program.
a program that anybody can replace: program h/bin/p; write d/x.json 1 /bin/p; open host=h now=later d; chmod 777 h/bin;
    touch h/bin/p; IS; BAD x.json: its program /bin/p: BASE/h/bin is world-writable; chmod 755 h/bin; IS x.json=1
a program below the real root that anybody can write to: program bin/p; write d/x.json 1 BASE/bin/p; open now=later d;
    IS x.json=1; chmod 777 bin/p; IS; BAD x.json: its program BASE/bin/p: BASE/bin/p is world-writable; chmod 755 bin/p;
    IS x.json=1
switched off, everything is used: write d/x.json; chmod 777 d; chmod 666 d/x.json; open trust=off d; IS x.json=1
"""


def told(scenes: str) -> dict[str, str]:
    """Returns the steps of each scene by its title; a line with an indent continues the one before."""
    lines = [line for line in scenes.replace("\n    ", " ").splitlines() if line and not line.startswith("# ")]
    return dict(line.split(": ", 1) for line in lines)


@pytest.mark.parametrize("steps", told(SCENES).values(), ids=told(SCENES))
def test_a_scene_goes_as_told(tmp_path: Path, steps: str) -> None:
    Scene(tmp_path).play(steps)


# A change of one file, and the version in force then; 1 is there before.
CHANGES = {"written anew": ("write d/x.json 2", "2"), "replaced": ("replace d/x.json 2", "2"),
    "replaced by a link": ("ln d/x.json BASE/elsewhere", "7"), "deleted": ("rm d/x.json", ""),
    "renamed away": ("mv d/x.json away", ""), "renamed to no hook file's name": ("mv d/x.json d/x.off", ""),
    "emptied, which a writer does first": ("empty d/x.json", "1"),
    "cut off with a version that was good": ("cut d/x.json", "1"), "broken": ("write d/x.json {", "1"),
    "replaced by a broken one": ("replace d/x.json {", "1"),
    "deleted and made anew, broken": ("rm d/x.json; write d/x.json {", "1"),
    "renamed away and made anew, broken": ("mv d/x.json d/x; write d/x.json {", "1"),
    "replaced by a link to nothing": ("ln d/x.json nothing", ""),
    "replaced by a link to itself": ("ln d/x.json x.json", ""),
    "replaced by a directory": ("rm d/x.json; mkdir d/x.json", "1"),
    "replaced by a link to /dev/null": ("ln d/x.json /dev/null", ""),
    "replaced by a link to a device": ("ln d/x.json /dev/zero", "1")}  # fmt: skip
# What happens to the directory a/b/d, and the version in force then; c/d is another one with version 2.
FATES = {"deleted": ("rm a/b/d", ""), "deleted with its parents": ("rm a", ""),
    "renamed away": ("mv a/b/d a/b/away", ""), "its parent renamed away": ("mv a/b a/away", ""),
    "its grandparent renamed away": ("mv a c/away", ""), "emptied": ("rm a/b/d/x.json", ""),
    "replaced": ("mv a/b/d a/b/old; mv c/d a/b/d", "2"),
    "replaced by a link": ("mv a/b/d a/b/old; ln a/b/d BASE/c/d", "2"),
    "its parent replaced by a link": ("mv a/b a/old; ln a/b BASE/c", "2")}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_a_file_counts_at_once_and_so_does_its_repair(tmp_path: Path, change: str) -> None:
    steps, version = CHANGES[change]
    scene = Scene(tmp_path)
    scene.play(f"write elsewhere 7; write d/x.json 1; open d; IS x.json=1; {steps}")
    scene.IS(*[f"x.json={version}"] * bool(version))
    if (tmp_path / "d/x.json").is_dir():
        scene.play("rm d/x.json")
    scene.play("replace d/x.json 3; IS x.json=3; BAD")


@pytest.mark.parametrize("fate", FATES)
def test_what_happens_to_a_directory_counts_at_once_and_so_does_its_return(tmp_path: Path, fate: str) -> None:
    steps, version = FATES[fate]
    scene = Scene(tmp_path)
    scene.play(f"write a/b/d/x.json 1; write c/d/x.json 2; open a/b/d; IS x.json=1; {steps}")
    scene.IS(*[f"x.json={version}"] * bool(version))
    if (tmp_path / "a").exists():
        scene.play("rm a")
    scene.play("IS; write a/b/d/x.json 3; IS x.json=3; BAD")


def test_what_changes_again_and_again_is_seen_every_time(tmp_path: Path) -> None:
    """However short the time between two changes: sizes and times of files may stay the same."""
    scene = Scene(tmp_path)
    scene.play("mkdir v; ln v/x.json ..data/x.json; mkdir d; open d l v")
    for number in range(100, 200):
        scene.play(
            f"write d/a.json {number}; IS a.json={number}; replace d/a.json 1{number}; IS a.json=1{number};"
            f" mv d/a.json d/b.json; IS b.json=1{number}; rm d/b.json; IS;"
            f" write {number}/l.json {number}; ln l BASE/{number}; IS l.json={number};"
            f" write v/..{number}/x.json {number}; ln v/..data ..{number}; IS l.json={number} x.json={number};"
            " rm v/..data; IS " + f"l.json={number}; mv d old-{number}; mkdir d; rm l; IS"
        )


def test_a_program_that_runs_in_the_container_is_not_the_nodes(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.play("program p; chmod 777 p; mkdir d")
    (tmp_path / "d/x.json").write_bytes(text(program=f"{tmp_path}/p").replace(b"prestart", b"startContainer"))
    scene.play("open d; IS x.json=1")


def test_reading_again_costs_nothing_where_only_programs_or_what_is_out_of_place_change(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.play("write d/x.json 1 /bin/p; mkdir h/bin; open host=h now=later d; program h/bin/p; IS x.json=1")
    scene.play("program h/bin/other; mkdir elsewhere; write elsewhere/x.json")
    assert scene.directories.current() is scene.directories.current()
    assert scene.directories.files_read == 1


def test_only_names_that_end_in_lower_case_json_count(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.play("mkdir d; open d")
    for name in ("a.json", ".hidden.json", ".json", "B.json", "a.JSON", "a.json.bak", "a.json~", "json", "a.jsonx"):
        scene.play(f"write d/{name}; touch d")
    for _ in range(2):
        scene.play("IS a.json=1 .hidden.json=1 .json=1 B.json=1; open d")


def test_stages_of_others_are_accepted_where_they_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(text(1).replace(b"prestart", b"precreate"))
    assert opened(tmp_path).in_force == []
    assert [named.file for named in opened(tmp_path, precreate=True).in_force] == ["x.json"]
