"""Random changes of random functions of adapter/: do the tests notice? Shows those that survive.

`python -m tests.mutants [NUMBER [SEED]]`. Each file of tests runs once with coverage. Then a mutant gets the files that
run the changed statement, or its module if coverage sees none (a keeper of holds is not measured); those first whose
lines are the module's in the largest part, and a few of them at most. They run as in CI, with fewer examples. A mutant
may delete anything: it sees a copy in the clone's place, a /tmp and processes of its own, and all else it can only
read. That needs root.
"""

import ast
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, islice
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from threading import local
from typing import Any

from coverage import CoverageData

CLONE = Path(__file__).resolve().parents[1]
AT_ONCE, FILES, LIMIT = 4, 16, "600"
"""Mutants at once; files of tests for each; seconds by the clock for them, after which the mutant counts as found."""
ENTER = """
copy=$1 clone=$2; mount --bind "$3" "$copy/.venv"; mount --rbind "$copy" "$clone"; mount --bind "$copy/.cache/tmp" /tmp
mount -o remount,bind,ro "$clone/.venv"; mount -o remount,bind,ro /; shift 3; cd "$clone"; ulimit -v 8000000
set -- -q -p no:xdist -m "not deadline" --hypothesis-profile=first "$@"
.venv/bin/python -m pytest "$@" >.cache/output 2>&1 || exit $?
exit 0  # no exec: orphans would become children of the tests
"""
SPACE = ("timeout", LIMIT, "unshare", "-mpf", "--kill-child", "--mount-proc", "sh", "-ec", ENTER, "sh")
PAIRS = "Lt-LtE Lt-GtE Gt-GtE Gt-LtE Eq-NotEq Is-IsNot In-NotIn And-Or Add-Sub Mult-Add"
OWN = local()  # `copy`: where a thread changes and tests the clone
Function, Statement = ast.FunctionDef | ast.AsyncFunctionDef, ast.stmt | ast.ExceptHandler
File = tuple[str, dict[Path, set[int]], list[str]]
"""Tests; the lines in functions of our modules that they run; options that leave out what always fails."""


def inside(node: ast.AST) -> Iterator[ast.AST]:
    """Yields all of a function that may change."""
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            is_code = isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr | ast.Assert)
            if is_code and name not in ("annotation", "returns") and getattr(child, "arg", "") != "strict":
                yield child
                yield from inside(child)


def changes(node: ast.AST) -> Iterator[tuple[Any, ast.AST]]:
    """Yields what may go, and what comes in its place."""
    operator = type(getattr(node, "op", getattr(node, "ops", [None])[0])).__name__
    pairs = [pair.split("-") for pair in PAIRS.split()]
    others = [getattr(ast, other)() for pair in pairs if operator in pair for other in pair if other != operator]
    match node:
        case ast.Compare(left, [_, *ops], values):
            yield from ((node, ast.Compare(left, [other, *ops], values)) for other in others)
        case ast.BoolOp() | ast.BinOp():
            yield from ((node, type(node)(**vars(node) | {"op": other})) for other in others)
        case ast.UnaryOp(ast.Not(), operand):
            yield node, operand
        case ast.If(test) | ast.IfExp(test) | ast.While(test):
            yield test, ast.UnaryOp(ast.Not(), test)
        case ast.Constant(bool(value)):
            yield node, ast.Constant(not value)
        case ast.Constant(int(value)):
            yield from ((node, ast.Constant(new)) for new in (value - 1, value + 1))
        case ast.Call(ast.Name("max" | "min" | "suppress")) | ast.Expr(ast.Constant()):
            pass  # in any order; a docstring
        case ast.Call(called, [first, second, *rest], keywords):
            yield node, ast.Call(called, [second, first, *rest], keywords)
        case ast.Return(value) if value and not isinstance(value, ast.Constant):
            yield node, ast.Return(ast.Constant(None))
        case ast.ExceptHandler(caught, name):
            yield node, ast.ExceptHandler(caught, name, [ast.Pass()])
        case ast.Expr() | ast.Assign() | ast.AugAssign() | ast.Delete() | ast.Raise() | ast.Continue() | ast.Break():
            yield node, ast.Pass()


def lines(nodes: list[Any]) -> set[int]:
    return {line for node in nodes for line in range(node.lineno, node.end_lineno + 1)}


PATHS = [path for path in sorted((CLONE / "adapter").rglob("*.py")) if "proto" not in path.parts]
OURS = [(path, node) for path in PATHS for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, Function)]
INNER = {path: lines([line for its, node in OURS if its == path for line in node.body]) for path in PATHS}
TESTS = [name for name in sorted(CLONE.glob("tests/**/test_*.py")) if not {"bench", "deploy"} & {*name.parts}]


def drawn(seed: int) -> Iterator[tuple[Path, str, str, set[int]]]:
    """Yields random mutants, none twice: a module, what has changed there, its text, the lines of the statement."""
    draw, seen = random.Random(seed), {ast.dump(ast.parse(path.read_text())) for path in PATHS}  # noqa: S311
    while True:
        path, function = draw.choice(OURS)
        if possible := [change for node in inside(function) for change in changes(node)]:
            old, new = draw.choice(possible)
            whole = path.read_bytes()
            starts = [0, *accumulate(map(len, whole.splitlines(keepends=True)))]
            before = whole[: starts[old.lineno - 1] + old.col_offset]
            after = whole[starts[old.end_lineno - 1] + old.end_col_offset :]
            text = (before + ast.unparse(new).replace("\n    ", " ").encode() + after).decode()
            if (dump := ast.dump(ast.parse(text))) not in seen:
                seen.add(dump)
                around = [one for one in inside(function) if isinstance(one, Statement) and old.lineno in lines([one])]
                what = f"{path.relative_to(CLONE)}:{old.lineno}\n  - {ast.unparse(old)}\n  + {ast.unparse(new)}"
                yield path, what, text, lines(around[-1:] or function.body)  # the inner ones come last


def copied(place: str) -> None:
    """Makes the copy of a thread in a temporary directory."""
    OWN.copy = Path(mkdtemp(dir=place))
    ignored = shutil.ignore_patterns(".venv", ".cache", ".*_cache")
    shutil.copytree(CLONE, OWN.copy, symlinks=True, ignore=ignored, dirs_exist_ok=True)
    for made in (".cache/tmp", ".venv"):
        (OWN.copy / made).mkdir(parents=True)


def pytest(*options: str) -> int:
    """Runs tests in a copy; returns the status."""
    return subprocess.run([*SPACE, OWN.copy, CLONE, sys.prefix, *options], check=False).returncode


def measured(path: Path) -> File:
    """Runs a file of tests with coverage, and once more without it what has failed."""
    failed = [name := str(path.relative_to(CLONE))]
    for options in (["--cov=adapter", "--cov-report="], []):
        if failed:
            if (status := pytest(*options, *failed)) not in (0, 1, 5):
                print("NOT MEASURED", path, status)
            told = (OWN.copy / ".cache/output").read_text()
            failed = sorted(set(re.findall(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", told, re.MULTILINE)))
    data = CoverageData(str(OWN.copy / ".cache/coverage/data"))
    data.read()
    runs = {module: INNER[module].intersection(data.lines(str(module)) or ()) for module in PATHS}
    return name, runs, [f"--deselect={test}" for test in failed]


def survives(files: list[File], path: Path, what: str, text: str, changed: set[int]) -> bool:
    """Runs the tests of a mutant."""
    of_module = [file for file in files if file[1][path]]
    of_module.sort(key=lambda file: sum(map(len, file[1].values())) / len(file[1][path]))
    tests = ([file for file in of_module if file[1][path] & changed] or of_module)[:FILES]
    names, unfit = [name for name, _, _ in tests], [option for _, _, options in tests for option in options]
    module = OWN.copy / path.relative_to(CLONE)
    module.write_text(text)
    status = pytest("-x", *names, *unfit) if tests else 0
    shutil.copy(path, module)
    for compiled in module.parent.glob(f"__pycache__/{module.stem}.*"):
        compiled.unlink()  # it may be taken for that of the next mutant
    is_found = status not in (0, 5)  # 1: a test has failed; 124: in LIMIT seconds, none has
    print(*["found", status, what.split("\n", 1)[0]] if is_found else ["SURVIVES", what, *names], flush=True)
    return not is_found


def main(number: int = 20, seed: int = random.SystemRandom().randrange(1 << 32)) -> None:
    """Judges mutants, some at once."""
    os.environ |= {"TEST_SEED": str(seed), "CI": "1"}
    with (
        TemporaryDirectory(prefix="mutants-") as place,
        ThreadPoolExecutor(AT_ONCE, initializer=lambda: copied(place)) as pool,
    ):
        files = list(pool.map(measured, TESTS))
        left = sum(pool.map(lambda mutant: survives(files, *mutant), islice(drawn(seed), number)))
    print(f"{left} of {number} survive; make mutants MUTANTS='{number} {seed}' repeats it")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
