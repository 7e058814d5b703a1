"""Reading hook files in steps, between which the daemon's loop is served."""

from __future__ import annotations

from pathlib import Path

from tests.hooks.hookdirs import hooks, in_force, later, opened, replace, text


def test_while_it_reads_in_steps_the_version_before_stays_in_force_until_the_new_one_is_whole(tmp_path: Path) -> None:
    directories = opened([str(tmp_path)])
    for number in range(5):
        (tmp_path / f"{number}.json").write_bytes(
            text(number).replace(b'{"always": true}', b'{"commands": ["a%d", "b%d"]}' % (number, number))
        )
    assert directories.changed()
    steps = directories.read()
    seen = [len(hooks(directories.matcher)) for _ in steps]
    assert len(seen) == 5 + 10 + 10, "one for each file, one for each pattern to check it, and one to compile it"
    assert set(seen) == {0}
    assert len(hooks(directories.matcher)) == 5
    assert steps is not directories.read()


def test_reading_that_was_given_up_half_way_is_made_up_for(tmp_path: Path) -> None:
    for steps in range(30):
        directories = opened([str(tmp_path)], now=later)
        for number in range(5):
            content = text(f"{steps}").replace(b"true}", b'true, "commands": ["", "%d"]}' % steps)
            replace(tmp_path / f"{number}.json", content)
        reading = directories.read()
        for _ in range(steps):
            next(reading, None)
        assert set(in_force(directories).values()) == {str(steps)}
