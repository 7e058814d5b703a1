"""Generates adapter/nri/proto/*_pb2.py and their typed stubs from the .proto files beside this script.

`--check` writes nothing and fails when the committed code is not what the generator makes today.
"""

from __future__ import annotations

import filecmp
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES, PACKAGE = ROOT / "adapter", "nri/proto"


def generate(out: Path) -> list[Path]:
    """Writes the generated files below `out`; returns their paths relative to it."""
    # The mapped include gives the files their names in the descriptor pool, where names must be unique.
    command = [
        *(sys.executable, "-m", "grpc_tools.protoc"),
        f"-I{PACKAGE}={ROOT / 'proto'}",
        f"--python_out={out}",
        f"--mypy_out={out}",
        f"--plugin=protoc-gen-mypy={Path(sys.executable).with_name('protoc-gen-mypy')}",
        *(f"{PACKAGE}/{source.name}" for source in sorted((ROOT / "proto").glob("*.proto"))),
    ]
    subprocess.run(command, check=True)  # noqa: S603 - our own command line
    return sorted(path.relative_to(out) for path in (out / PACKAGE).glob("*_pb2.py*"))


def main() -> int:
    """Generates, or with `--check` compares; returns the exit code."""
    if "--check" not in sys.argv[1:]:
        generate(SOURCES)
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        files = generate(Path(scratch))
        stale = [file for file in files if not same(Path(scratch) / file, SOURCES / file)]
    for file in stale:
        print(f"adapter/{file}: not what proto/generate.py makes of proto/: run `make proto`", file=sys.stderr)
    return 1 if stale else 0


def same(made: Path, committed: Path) -> bool:
    """Whether the committed file exists and has the content of the one just made."""
    return committed.is_file() and filecmp.cmp(made, committed, shallow=False)


if __name__ == "__main__":
    sys.exit(main())
