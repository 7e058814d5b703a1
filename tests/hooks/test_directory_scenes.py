"""What happens to directories, links and programs counts for the very next container, and whom to trust is looked at.

What happens to files stands in test_directory_properties.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .hookdirs import Scene, opened, text

SCENES = """
missing directories are no problem: open missing a/b/c; IS; BAD; open; IS; BAD
a directory that appears step by step counts: open a/b/d; mkdir a; IS; mkdir a/b; IS; mkdir a/b/d; IS;
    write a/b/d/x.json; IS x.json=1
a chain of links counts at every joint: write 1/deep/d/x.json 1; write 2/deep/d/x.json 2; write 3/deep/d/x.json 3;
    mkdir links; ln links/one ../two/deep; ln two BASE/1; open links/one/d/.././d/; IS x.json=1; ln two 2; IS x.json=2;
    ln links/one BASE/3/deep; IS x.json=3; ln two nowhere; IS x.json=3; ln links/one one; IS;
    BAD : Too many levels of symbolic links; ln links/one ../two; ln two BASE/1/deep; IS x.json=1
a file elsewhere that goes and comes back as it was is in force again: write store/y 1; mkdir d; ln d/x.json ../store/y;
    open now=never d; mv store away; IS; mv away store; IS x.json=1
a link that leads to no file for a while is no problem afterwards: write y; mkdir d; ln d/x.json ../joint; ln joint y;
    open now=never d; ln joint d; BAD x.json; ln joint y; BAD; IS x.json=1
# A ConfigMap's volume, written as the kubelet's AtomicWriter does it, and looked at after each step.
a volume is followed: mkdir v; open v; write v/..1/a.json; write v/..1/b.json; IS; ln v/..data ..1; IS;
    ln v/a.json ..data/a.json; IS a.json=1; ln v/b.json ..data/b.json; IS a.json=1 b.json=1; write v/..2/a.json 2;
    write v/..2/c.json 2; IS a.json=1 b.json=1; ln v/..data ..2; IS a.json=2; ln v/c.json ..data/c.json;
    IS a.json=2 c.json=2; rm v/b.json; rm v/..1; IS a.json=2 c.json=2; write v/..3/a.json {; write v/..3/c.json 3;
    ln v/..data ..3; IS a.json=2 c.json=3; BAD a.json; rm v/..2; IS a.json=2 c.json=3; write v/..4/c.json 4;
    ln v/..data ..4; IS c.json=4; rm v/a.json; rm v/..3; IS c.json=4; BAD
a broken file that was empty goes on hiding: write a/x.json; touch b/x.json; open now=later a b;
    write b/x.json {; IS; KEPT x.json: line 1, column 2: unexpected end; rm b/x.json; IS x.json=1
# What anybody could have written is not used, and is named, until that has changed.
a file in a directory that anybody can write to: write d/x.json; chmod 777 d; open now=later d; IS;
    BAD x.json: BASE/d is world-writable; chmod 755 d; IS x.json=1; BAD
a file just written that anybody can write to: write d/x.json; chmod 777 d/x.json; open now=zero d; IS; BAD x.json;
    chmod 755 d/x.json; IS x.json=1; BAD
a new file in a directory that has become writable: write d/x.json; open now=later d; chmod 777 d; write d/y.json;
    IS x.json=1
the last version that was trusted stays in force: write d/x.json; open now=later d; write d/x.json 2;
    chmod 666 d/x.json; IS x.json=1; KEPT x.json: BASE/d/x.json is world-writable; chmod 644 d/x.json; IS x.json=2
nobody else can mask a hook: write a/x.json; write a/y.json; touch b/x.json; ln b/y.json /dev/null; chmod 777 b;
    open now=later a b; IS x.json=1 y.json=1; chmod 755 b; IS
a program that anybody can write to: touch h/bin/p; write d/x.json 1 /bin/p; open host=h now=later d; IS x.json=1;
    chmod 777 h/bin/p; IS; BAD x.json: its program /bin/p: BASE/h/bin/p is world-writable; chmod 755 h/bin/p;
    IS x.json=1
# A directory's mode alone is no change of the program.
a program that anybody can replace: touch h/bin/p; write d/x.json 1 /bin/p; open host=h now=later d; chmod 777 h/bin;
    touch h/bin/p; IS; BAD x.json: its program /bin/p: BASE/h/bin is world-writable; chmod 755 h/bin; IS x.json=1
switched off, everything is used: write d/x.json; chmod 777 d; chmod 666 d/x.json; open trust=off d; IS x.json=1
"""


def told(scenes: str) -> dict[str, str]:
    """Returns the steps of each scene by its title; a line with an indent continues the one before."""
    lines = [line for line in scenes.replace("\n    ", " ").splitlines() if line and not line.startswith("# ")]
    return dict(line.split(": ", 1) for line in lines)


@pytest.mark.parametrize("steps", told(SCENES).values(), ids=told(SCENES))
def test_a_scene_goes_as_told(tmp_path: Path, steps: str) -> None:
    Scene(tmp_path).play(steps)


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
    scene.play("touch p; chmod 777 p; mkdir d")
    (tmp_path / "d/x.json").write_bytes(text(program=f"{tmp_path}/p").replace(b"prestart", b"startContainer"))
    scene.play("open d; IS x.json=1")


def test_the_stage_precreate_is_accepted_where_it_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(text(1).replace(b"prestart", b"precreate"))
    assert opened(tmp_path).in_force == []
    assert [named.file for named in opened(tmp_path, precreate=True).in_force] == ["x.json"]
