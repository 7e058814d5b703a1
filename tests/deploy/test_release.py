"""What a release says of itself: where its Debian comes from, its bill of materials, and its provenance."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.rig.programs import Programs

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
GIT = ("git", "-C", ROOT, "rev-parse", "HEAD")
CLONE = pytest.mark.skipif(
    not shutil.which("git") or subprocess.run(GIT, capture_output=True, check=False).returncode != 0,
    reason="git is not installed, or takes this for no clone of ours",
)


def output(*line: str | Path, given: str = "", **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DEBIAN", "BUILDER"))}
    done = subprocess.run(
        line, cwd=ROOT, input=given, env=kept | environment, check=True, capture_output=True, text=True
    )
    return done.stdout


def git(*line: str) -> str:
    return output("git", *line).strip()


# ---- Debian


@CLONE
def test_debian_comes_from_the_archives_snapshot_of_the_commits_date() -> None:
    committed = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(int(git("log", "-1", "--format=%ct"))))
    chosen = "20260102T030405Z"
    for date, environment in ((committed, {"TZ": "Asia/Tokyo"}), (chosen, {"DEBIAN_SNAPSHOT": chosen})):
        assert output(DEPLOY / "image/sources", **environment).splitlines() == [
            f"deb [check-valid-until=no] http://snapshot.debian.org/archive/{archive}/{date} {suite} main"
            for archive, suite in ARCHIVES
        ]


ARCHIVES = ("debian", "trixie"), ("debian", "trixie-updates"), ("debian-security", "trixie-security")
"""Of the snapshots: without the last, the image would lack what was mended since the last point release."""


def test_a_mirror_counts_instead_of_the_snapshot() -> None:
    url, lines = (
        "http://mirror.example/debian",
        "deb http://a.example/debian trixie main\ndeb http://b.example/x y main",
    )
    assert output(DEPLOY / "image/sources", DEBIAN_MIRROR=url) == f"deb {url} trixie main\n"
    assert output(DEPLOY / "image/sources", DEBIAN_MIRROR=lines) == f"{lines}\n"


def test_the_image_is_made_of_these_sources(tmp_path: Path) -> None:
    Programs(tmp_path).shell("mmdebstrap", f'echo "$@" >{tmp_path}/line\ncat >{tmp_path}/sources\nexit 7')
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "DEBIAN_MIRROR": "http://mirror.example/debian"}
    with pytest.raises(subprocess.CalledProcessError):
        output(DEPLOY / "image/build", tmp_path / "image.tar", "1", **path)
    assert (tmp_path / "sources").read_text() == "deb http://mirror.example/debian trixie main\n"
    assert (tmp_path / "line").read_text().endswith(" -\n")


# ---- the bill of materials

STATUS = """\
Package: libstdc++6
Status: install ok installed
Architecture: amd64
Source: gcc-14
Version: 14.2.0-19
Description: library
 Package: a line of the text
 .

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1

Package: login
Status: install ok installed
Architecture: all
Version: 1:4.16.0-2+really2.41~rc1
"""


def test_debians_packages_are_components_of_the_bill_of_materials(tmp_path: Path) -> None:
    bom = tmp_path / "bom.json"
    own = {"type": "library", "name": "protobuf", "version": "7", "bom-ref": "protobuf==7"}
    bom.write_text(json.dumps({"bomFormat": "CycloneDX", "components": [own], "metadata": {"a": 1}}))
    for _ in range(2):  # image and bundle may have the same ones
        output(sys.executable, DEPLOY / "materials.py", bom, "trixie", given=STATUS)
    written = json.loads(bom.read_text())
    assert written["metadata"] == {"a": 1}
    login = "pkg:deb/debian/login@1:4.16.0-2%2Breally2.41~rc1?arch=all&distro=trixie"
    library = "pkg:deb/debian/libstdc%2B%2B6@14.2.0-19?arch=amd64&distro=trixie"
    assert written["components"] == [
        own,
        {"type": "library", "name": "libstdc++6", "version": "14.2.0-19", "purl": library, "bom-ref": library},
        {"type": "library", "name": "login", "version": "1:4.16.0-2+really2.41~rc1", "purl": login, "bom-ref": login},
    ]


# ---- provenance


def provenance(directory: Path, given: str = "", **environment: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(
        output(sys.executable, DEPLOY / "provenance.py", directory, given=given, **environment)
    )
    return told


@CLONE
def test_the_provenance_says_what_was_built_from_which_commit_with_what(tmp_path: Path) -> None:
    texts = {"a.whl": b"wheel", "b.tgz": b"chart"}
    for name, text in texts.items():
        (tmp_path / name).write_bytes(text)
    debian = "deb http://mirror.example/debian trixie main"
    told = provenance(tmp_path, f"{debian}\n", BUILDER="https://builder.example")
    assert (told["_type"], told["predicateType"]) == (
        "https://in-toto.io/Statement/v1",
        "https://slsa.dev/provenance/v1",
    )
    assert told["subject"] == [
        {"name": name, "digest": {"sha256": hashlib.sha256(text).hexdigest()}} for name, text in texts.items()
    ]
    definition, run = told["predicate"]["buildDefinition"], told["predicate"]["runDetails"]
    source, *locks, system = definition["resolvedDependencies"]
    assert source["digest"] == {"gitCommit": git("rev-parse", "HEAD")}
    assert source["annotations"] == {"uncommitted": bool(git("status", "--porcelain"))}
    assert locks == [
        {"name": name, "digest": {"sha256": hashlib.sha256((ROOT / name).read_bytes()).hexdigest()}}
        for name in ("requirements-release.lock", "requirements.lock")
    ]
    assert system == {"name": debian, "uri": "http://mirror.example/debian"}
    assert run["builder"]["id"] == "https://builder.example"
    assert {"python", "pip", "git"} <= set(run["builder"]["version"])


@CLONE
def test_without_an_image_no_debian_has_been_used(tmp_path: Path) -> None:
    assert len(provenance(tmp_path)["predicate"]["buildDefinition"]["resolvedDependencies"]) == 3
