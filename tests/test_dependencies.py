"""What is installed on a node: bounded, locked by hashes, and of known licences."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import metadata, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
LOCK = (ROOT / "requirements.lock").read_text()
LOCKED = {found.name: found for found in map(Requirement, re.findall(r"^([a-z0-9-]+==.*?) \\$", LOCK, re.MULTILINE))}
"""The packages of the lock file, by name; each with its one version."""
DIRECT = [Requirement(text) for text in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]]
HERE = [name for name, locked in LOCKED.items() if locked.marker is None or locked.marker.evaluate()]


def version(package: str) -> Version:
    [pin] = LOCKED[canonicalize_name(package)].specifier
    return Version(pin.version)


def licence(package: str) -> str:
    """A package's licence in its own words."""
    about = metadata(package)
    classified = [text.rpartition(" :: ")[2] for text in about.get_all("Classifier", []) if text.startswith("License")]
    named = [text for field in ("License-Expression", "License") for text in about.get_all(field, [])]
    return str([*named, *classified][0])


def test_a_dependency_is_bounded_by_its_next_major_version() -> None:
    for dependency in DIRECT:
        bounds = [Version(one.version) for one in dependency.specifier if one.operator == "<"]
        assert [bound.major for bound in bounds] == [version(dependency.name).major + 1], dependency


def test_what_packages_require_here_is_locked_and_nothing_else() -> None:
    required = [Requirement(text) for name in HERE for text in requires(name) or ()]
    needed = [*DIRECT, *(one for one in required if one.marker is None or one.marker.evaluate({"extra": ""}))]
    for one in needed:
        assert one.specifier.contains(version(one.name)), f"{one}: `make lock`"
    assert {canonicalize_name(one.name) for one in needed} == set(HERE)


def test_each_package_has_hashes() -> None:
    blocks = re.split(r"^(?=[a-z])", LOCK, flags=re.MULTILINE)[1:]
    assert len(LOCKED) == len(blocks)
    assert all("--hash=sha256:" in block for block in blocks)


def test_the_licences_in_the_documentation_are_the_packages_own() -> None:
    text = (ROOT / "docs/security.md").read_text()
    found = re.findall(r"^\| ([a-z0-9-]+) \| ([^|]+) \|$", text.partition("| package | licence |")[2], re.MULTILINE)
    rows = dict(found)
    assert len(found) == len(rows)
    assert rows.keys() == LOCKED.keys()
    # Another version than the locked one may have other words.
    here = [name for name in HERE if Version(metadata(name)["Version"]) == version(name)]
    assert {name: rows[name] for name in here} == {name: licence(name) for name in here}
