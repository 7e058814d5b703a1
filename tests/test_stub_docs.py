"""The stub's documentation: its tables and lists are the code's, and the test that it shows passes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from adapter import nri, runtime, wire
from adapter.nri import runtimes
from adapter.runtime import FLAVOURS, Flavour
from adapter.runtime.node import Node

from .test_docs import DOCS, ROOT, blocks

DOCKER = Flavour("docker", "29", "v0.12.3")
"""Tested, but it tells of creations only: nobody would play it."""
NAMES = {"containerd": "containerd", "cri-o": "CRI-O", "docker": "Docker"}


def row(flavour: Flavour) -> str:
    """A runtime's line in the table, from what the stub knows of it."""
    known = runtimes.of(flavour.configure_request(""))
    tells = "all" if flavour.configure_request("").NRI_version else "no pod updates, no validation"
    if known.habits.no_ends:
        tells = "the creation of containers only"
    no_updates = "no, they may deadlock" if known.nri < runtimes.UPDATES_AT_ANY_TIME else "no updates at all"
    stays = "yes" if known.nri >= runtimes.LATE_PLUGINS_STAY else "no"
    updates = no_updates if known.refuses_updates else "yes"
    version = flavour.version.removeprefix("v")
    return f"| {NAMES[flavour.name]} {version} | {flavour.nri[1:]} | {tells} | {stays} | {updates} |"


def test_the_table_of_runtimes_is_what_the_stub_knows_of_them() -> None:
    later = Flavour("containerd", "v9.9.9", "v" + ".".join(map(str, runtimes.LATE_PLUGINS_STAY)))
    rows = [row(flavour) for flavour in (*FLAVOURS.values(), DOCKER)]
    rows.append(re.sub(r"^\| .*? \| (.*?) \|", r"| later ones | from \1 |", row(later)))
    text = (DOCS / "stub.md").read_text()
    assert "\n".join(rows) + "\n\n" in text, "\n".join(rows)


@pytest.mark.parametrize("package", [nri, runtime, wire])
def test_the_reference_has_every_public_name(package: Any) -> None:
    text = (DOCS / "stub-api.rst").read_text()
    part = text.partition(f"module:: {package.__name__}\n")[2]
    shown = set(re.findall(r"^\.\. (?:auto\w+|data):: (\w+)", part, re.MULTILINE))
    assert set(package.__all__) - {"api"} <= shown


def test_the_test_on_the_page_passes(tmp_path: Path) -> None:
    _, _, test = blocks(DOCS / "stub.md", "python")
    assert len(test.strip().splitlines()) <= 12
    (tmp_path / "test_nice.py").write_text(test)
    words = [
        "-P",
        "-m",
        "pytest",
        "-q",
        "-p",
        "adapter.pytest_plugin",
        "-p",
        "no:cacheprovider",
        tmp_path / "test_nice.py",
    ]
    done = subprocess.run([sys.executable, *map(str, words)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert re.search(r"^2 passed in ", done.stdout, re.MULTILINE), done.stdout + done.stderr


def test_the_coroutine_on_the_page_answers(nri_runtime: Node) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    exec(blocks(DOCS / "stub.md", "python")[1], names)  # noqa: S102 - it is our own
    nri_runtime.add(names["Labels"]())
    adjust = nri_runtime.event("CreateContainer").adjust
    assert adjust
    assert adjust.annotations == {"labelled": "yes"}


def test_the_lines_that_install_nothing_else_name_the_package_and_protobuf() -> None:
    (lines,) = [block for block in blocks(DOCS / "stub.md", "console") if "pip" in block]
    assert lines == "# pip install protobuf\n# pip install --no-deps nri-v010-adapter\n"
