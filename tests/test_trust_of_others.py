"""Who else can write to what is executed: users and groups of access lists, and writers of a script's interpreters."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path

import pytest

from v010_adapter.errors import PluginError
from v010_adapter.hooks.directory import Directories
from v010_adapter.host import trust
from v010_adapter.host.trust import judge
from v010_adapter.legacy.find import Programs
from v010_adapter.settings import HooksSettings

from .rig.users import GIVES_FILES, NOBODY

USER, GROUP_OBJ, GROUP, MASK = 2, 4, 8, 16


def set_acl(path: Path, *entries: tuple[int, int, int]) -> None:
    """Sets an access list as `setfacl` does (linux/posix_acl_xattr.h); the owner may do everything, others read."""
    nobody = 0xFFFFFFFF
    whole = sorted([(1, 7, nobody), (32, 4, nobody), *entries])
    if not any(tag == GROUP_OBJ for tag, *_ in entries):
        whole = sorted([*whole, (GROUP_OBJ, 4, nobody)])
    text = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in whole)
    try:
        os.setxattr(path, "system.posix_acl_access", text)
    except OSError as error:
        pytest.skip(f"this file system has no access lists: {error}")


@GIVES_FILES
@pytest.mark.parametrize("is_below_sticky", [False, True])
@pytest.mark.parametrize("place", ["a/file", "a"])
def test_who_can_write_by_an_access_list_counts(tmp_path: Path, place: str, is_below_sticky: bool) -> None:
    file = tmp_path / "a/file"
    file.parent.mkdir()
    file.touch()
    os.chown(file, 0, 4)
    os.chown(file.parent, 0, 4)
    tmp_path.chmod(0o1777 if is_below_sticky else 0o700)
    path, mask = tmp_path / place, (MASK, 7, 0)
    for entries, expected in (
        ([(USER, 7, NOBODY), mask], f"user {NOBODY}"),
        ([(USER, 7, 0), mask], ""),
        ([(USER, 5, NOBODY), mask], ""),
        ([(USER, 7, NOBODY), (MASK, 5, 0)], ""),
        ([(GROUP, 7, 7), mask], "group 7"),
        ([(GROUP_OBJ, 7, 0), mask], "group 4"),
        ([(USER, 6, NOBODY), (USER, 4, 8), (GROUP, 6, 7), mask], f"user {NOBODY}"),
    ):
        set_acl(path, *entries)
        verdict = judge("/a/file", str(tmp_path))
        is_error = is_below_sticky and expected.startswith("user")
        said = f"{path} is writable for {expected}" if expected else ""
        assert (verdict.error if is_error else "".join(verdict.warnings[:1])) == said, entries


# What is executed, besides the program


class Place:
    """A plugin and a hook whose programs are scripts, and the directory that both have in PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("bin", "hooks.d"):
            (folder / name).mkdir()
        self.interpreter = self.write("bin/shell", "#!/bin/sh\n")
        hook = {"path": f"{folder}/program", "env": ["PATH=/bin", f"PATH={folder}/bin"]}
        made = {"version": "1.0.0", "hook": hook, "when": {"always": True}, "stages": ["poststop"]}
        (folder / "hooks.d/a.json").write_text(json.dumps(made))
        self._programs = Programs([str(folder)], {"PATH": f"{folder}/bin"})
        self._hooks = Directories(HooksSettings(directories=(str(folder / "hooks.d"),)))

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def faults(self) -> list[str]:
        """Why the plugin and the hook are not used; empty if both are."""
        self._hooks.current()
        found = [reason.partition(": ")[2] for reason in self._hooks.problems.values()]
        try:
            self._programs.program("program")
        except PluginError as error:
            found.append(error.reason.partition(": ")[2])
        return found


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


LINES = "#!{0}/bin/shell", "#!/usr/bin/env shell", "#!/usr/bin/env -S A=b shell -x", "#!{0}/bin/middle"


@pytest.mark.parametrize("line", LINES)
def test_an_interpreter_that_anybody_can_write_is_an_error_as_soon_as_it_is_one(line: str, place: Place) -> None:
    place.write("bin/middle", f"#!{place.interpreter}\n")
    place.write("program", line.format(place.folder) + "\n")
    assert place.faults() == []
    place.interpreter.chmod(0o777)
    assert place.faults() == [f"its interpreter {place.interpreter}: {place.interpreter} is world-writable"] * 2
    place.interpreter.chmod(0o755)
    assert place.faults() == []


def test_an_interpreter_that_is_found_earlier_in_the_path_is_judged(place: Place, tmp_path: Path) -> None:
    place.write("program", "#!/usr/bin/env shell\n")
    (tmp_path / "first").mkdir()
    programs = Programs([str(tmp_path)], {"PATH": f"{tmp_path}/first:{tmp_path}/bin"})
    assert programs.program("program")
    place.write("first/shell", "").chmod(0o777)
    with pytest.raises(PluginError, match=r"its interpreter .*/first/shell is world-writable"):
        programs.program("program")


def test_below_another_root_the_interpreter_is_that_of_the_other_root(place: Place) -> None:
    program = place.write("program", "#!/bin/shell\n")
    trusted = trust.TrustedPrograms(trust.strict)
    assert trusted.fault("/program", program.stat(), str(place.folder)) == ""
    place.interpreter.chmod(0o777)
    fault = trusted.fault("/program", program.stat(), str(place.folder))
    assert fault == f"its interpreter /bin/shell: {place.interpreter} is world-writable"


def test_a_script_without_its_interpreter_is_no_matter_of_trust(place: Place) -> None:
    for line in ("#!/no/such/interpreter\n", "#!/usr/bin/env -i no-such-shell\n"):
        place.write("program", line)
        assert place.faults() == []
