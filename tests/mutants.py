"""Random changes of random functions of adapter/: do the tests notice? Shows those that survive.

`python -m tests.mutants [NUMBER [SEED]]`. Each file of tests runs once with coverage. A mutant gets a few files that
run the changed statement, or its module if coverage sees none: first those that run little else. They run as in CI,
with fewer examples. A mutant may delete anything: it has a copy of the clone, a /tmp and processes of its own, and can
only read all else. That needs root.
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
from tempfile import TemporaryDirectory
from typing import Any

from coverage import CoverageData

CLONE = Path(__file__).resolve().parents[1]
AT_ONCE, MOST, LIMIT = 4, 16, "600"  # mutants; files of tests for each; seconds, after which a mutant counts as found
ENTER = """
cd "$1"; mkdir -p .venv .cache/tmp .cache/coverage; mount -B "$3" .venv; mount -R . "$2"; mount -B .cache/tmp /tmp
mount -o remount,bind,ro "$2/.venv"; mount -o remount,bind,ro /; cd "$2"; shift 3; ulimit -v 8000000
set -- -q -p no:xdist -m "not deadline" --hypothesis-profile=first "$@"
.venv/bin/python -m pytest "$@" >.cache/output 2>&1; exit  # no exec: orphans would become children of the tests
"""
SPACE = ("timeout", LIMIT, "unshare", "-mpf", "--kill-child", "--mount-proc", "sh", "-ec", ENTER, "sh")
PAIRS = "Lt-LtE Lt-GtE Gt-GtE Gt-LtE Eq-NotEq Is-IsNot In-NotIn And-Or Add-Sub Mult-Add"
FIXED = ast.JoinedStr | ast.Assert  # the parser does not know where in the text of a string a part is
Function, Statement = ast.FunctionDef | ast.AsyncFunctionDef, ast.stmt | ast.ExceptHandler
File = tuple[str, dict[Path, set[int]], list[str]]  # tests; lines of modules that they run; options: without what fails


def inside(function: ast.AST) -> list[ast.AST]:
    """Returns all of a function that may change, what is outermost first."""
    nodes = [*ast.walk(function)]
    kept = [node for node in nodes if isinstance(node, FIXED) or getattr(node, "arg", "") == "strict"]
    return [node for node in nodes if not any(node in ast.walk(one) for one in kept)]


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
        case ast.Constant(int(value)):
            others = [not value] if isinstance(value, bool) else [value - 1, value + 1]
            yield from ((node, ast.Constant(other)) for other in others)
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
FILES = [path for path in sorted(CLONE.glob("tests/**/test_*.py")) if path.parent.name not in ("bench", "deploy")]


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


def ran(*options: str, change: tuple[Path, str] | None = None) -> tuple[int, list[str], dict[Path, set[int]]]:
    """Runs tests in a copy of the clone; returns the status, the tests that failed, and the lines that they ran."""
    with TemporaryDirectory(prefix="mutant-") as place:
        copy = Path(place)
        shutil.copytree(CLONE, copy, True, shutil.ignore_patterns(".venv", ".cache", ".*_cache"), dirs_exist_ok=True)
        if change:
            (copy / change[0].relative_to(CLONE)).write_text(change[1])
        status = subprocess.run([*SPACE, copy, CLONE, sys.prefix, *options], check=False).returncode
        failed = re.findall(r"(?m)^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", (copy / ".cache/output").read_text())
        data = CoverageData(str(copy / ".cache/coverage/data"))
        data.read()
        return status, failed, {path: INNER[path].intersection(data.lines(str(path)) or ()) for path in PATHS}


def measured(path: Path) -> File:
    """Runs a file of tests with coverage, and once more without it what has failed."""
    status, failed, runs = ran("--cov=adapter", "--cov-report=", name := str(path.relative_to(CLONE)))
    if failed:
        status, failed, _ = ran(*failed)
    if status not in (0, 1, 5):
        print("NOT MEASURED", name, status)
    return name, runs, [f"--deselect={test}" for test in failed]


def survives(files: list[File], path: Path, what: str, text: str, changed: set[int]) -> bool:
    """Runs the tests of a mutant."""
    of_module = [file for file in files if file[1][path]]
    of_module.sort(key=lambda file: sum(map(len, file[1].values())) / len(file[1][path]))
    tests = ([file for file in of_module if file[1][path] & changed] or of_module)[:MOST]
    names, unfit = [name for name, _, _ in tests], [option for _, _, options in tests for option in options]
    status = ran("-x", *names, *unfit, change=(path, text))[0] if tests else 0
    is_found = status not in (0, 5)  # 1: a test has failed; 124: in LIMIT seconds, none has
    print(*["found", status, what.split("\n", 1)[0]] if is_found else ["SURVIVES", what, *names], flush=True)
    return not is_found


def main(number: int = 20, seed: int = random.SystemRandom().randrange(1 << 32)) -> None:
    os.environ |= {"TEST_SEED": str(seed), "CI": "1"}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        files = list(pool.map(measured, FILES))
        left = sum(pool.map(lambda mutant: survives(files, *mutant), islice(drawn(seed), number)))
    print(f"{left} of {number} survive; make mutants MUTANTS='{number} {seed}' repeats it")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
