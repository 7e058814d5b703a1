"""Random changes of random functions of adapter/: do the tests notice? Shows those that survive.

`python -m tests.mutants [NUMBER [SEED]]`. Each file of tests runs once with coverage. Then a mutant gets the files that
run the changed statement, or its module if coverage sees none (a keeper of holds is not measured); those first whose
lines are the module's in the largest part, and a few of them at most. A mutant may delete anything: it sees a copy in
the clone's place, a /tmp and processes of its own, and all else it can only read. That needs root.
"""

from __future__ import annotations

import ast
import difflib
import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import accumulate, islice
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from coverage import CoverageData

CLONE = Path(__file__).resolve().parents[1]
AT_ONCE, FILES, LIMIT = 2, 8, 300
"""Mutants at once; files of tests for each; seconds by the clock for them, after which the mutant counts as found."""
SLOW = {"bench", "deploy", "peers"}
"""Folders of tests that are left out."""
OURS = sorted(path for path in (CLONE / "adapter").rglob("*.py") if "proto" not in path.parts)
TESTS = [str(path.relative_to(CLONE)) for path in sorted(CLONE.glob("tests/**/test_*.py")) if not SLOW & {*path.parts}]
ENTER = """
copy=$1 clone=$2; mount --bind "$3" "$copy/.venv"; mount --rbind "$copy" "$clone"; mount --bind "$copy/.cache/tmp" /tmp
mount -o remount,bind,ro "$clone/.venv"; mount -o remount,bind,ro /; shift 3; cd "$clone"; ulimit -v 8000000
set -- -q -p no:xdist -m "not deadline" --hypothesis-profile=first "$@"
.venv/bin/python -m pytest "$@" >.cache/output 2>&1 || exit $?
exit 0  # no exec: orphans would become children of the tests
"""
SPACE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-ec", ENTER, "sh")
PAIRS = "Lt-LtE Lt-GtE Gt-GtE Gt-LtE Eq-NotEq Is-IsNot In-NotIn And-Or Add-Sub Mult-Add"
NO_CODE = (ast.JoinedStr, ast.Assert)
Code = ast.expr | ast.stmt | ast.ExceptHandler


class Mutant(NamedTuple):
    """A changed module."""

    path: Path
    line: int
    text: str
    lines: set[int]
    """The lines of the statement that has changed."""


class File(NamedTuple):
    """A file of tests."""

    name: str
    runs: dict[Path, set[int]]
    """The lines in functions of our modules that it runs."""
    unfit: list[str]
    """The options that leave out the tests that fail without a change, such as those that write to /etc."""


def inside(node: ast.AST) -> Iterator[ast.AST]:
    """All of a function that may change."""
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, NO_CODE) and name not in ("annotation", "returns"):
                yield child
                yield from inside(child)


def others(operator: ast.AST) -> list[Any]:
    """The operators that may take its place."""
    name = type(operator).__name__
    pairs = [pair.split("-") for pair in PAIRS.split()]
    return [getattr(ast, other)() for pair in pairs if name in pair for other in pair if other != name]


def changes(node: ast.AST) -> Iterator[tuple[Code, ast.AST]]:
    """What may go, and what comes in its place."""
    match node:
        case ast.Compare(left, [op, *ops], values):
            yield from ((node, ast.Compare(left, [other, *ops], values)) for other in others(op))
        case ast.BoolOp(op, values):
            yield from ((node, ast.BoolOp(other, values)) for other in others(op))
        case ast.BinOp(left, op, right):
            yield from ((node, ast.BinOp(left, other, right)) for other in others(op))
        case ast.UnaryOp(ast.Not(), operand):
            yield node, operand
        case ast.If(test) | ast.IfExp(test) | ast.While(test):
            yield test, ast.UnaryOp(ast.Not(), test)
        case ast.Constant(bool(value)):
            yield node, ast.Constant(not value)
        case ast.Constant(int(value)):
            yield from ((node, ast.Constant(new)) for new in (value - 1, value + 1))
        case ast.Call(called, [first, second, *rest], keywords):
            yield node, ast.Call(called, [second, first, *rest], keywords)
        case ast.Return(value) if value:
            yield node, ast.Return(ast.Constant(None))
        case ast.ExceptHandler(caught, name):
            yield node, ast.ExceptHandler(caught, name, [ast.Pass()])
        case ast.Expr(value) if isinstance(value, ast.Constant):
            pass  # a docstring
        case ast.Expr() | ast.Assign() | ast.AugAssign() | ast.Delete() | ast.Raise() | ast.Continue() | ast.Break():
            yield node, ast.Pass()


def lines(nodes: list[Any]) -> set[int]:
    return {line for node in nodes for line in range(node.lineno, node.end_lineno + 1)}


@cache
def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions of a module, whose lines run when they are called."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)]


def statement(function: ast.FunctionDef | ast.AsyncFunctionDef, node: Code) -> set[int]:
    """The lines of the statement that a node is in; those of the body for a default of an argument."""
    within = [one for one in inside(function) if isinstance(one, ast.stmt | ast.ExceptHandler)]
    around = [one for one in within if node.lineno in lines([one])]
    return lines(around[-1:] or function.body)  # the inner ones come last


def drawn(seed: int) -> Iterator[Mutant]:
    """Random mutants without end, none twice."""
    draw, seen = random.Random(seed), set[str]()  # noqa: S311 - repeated, not secret
    dumps = {path: ast.dump(ast.parse(path.read_text())) for path in OURS}
    all_of_them = [(path, function) for path in OURS for function in functions(path)]
    while True:
        path, function = draw.choice(all_of_them)
        if possible := [change for node in inside(function) for change in changes(node)]:
            old, new = draw.choice(possible)
            whole = path.read_bytes()
            starts = [0, *accumulate(map(len, whole.splitlines(keepends=True)))]
            before = whole[: starts[old.lineno - 1] + old.col_offset]
            after = whole[starts[(old.end_lineno or 0) - 1] + (old.end_col_offset or 0) :]
            text = (before + ast.unparse(new).replace("\n    ", " ").encode() + after).decode()
            if text not in seen and ast.dump(ast.parse(text)) != dumps[path]:
                seen.add(text)
                yield Mutant(path, old.lineno, text, statement(function, old))


def pytest(copy: Path, *options: str) -> int:
    """Runs tests in a copy; returns the status."""
    return subprocess.run([*SPACE, copy, CLONE, sys.prefix, *options], check=False, timeout=LIMIT).returncode


def failed(copy: Path) -> set[str]:
    return set(re.findall(r"^(?:FAILED|ERROR) ([^\s\[]+)", (copy / ".cache/output").read_text(), re.MULTILINE))


def measured(copies: SimpleQueue[Path], name: str) -> File:
    """Runs a file of tests with coverage, and once more without it what has failed."""
    copy = copies.get()
    pytest(copy, name, "--cov=adapter", "--cov-report=")
    data = CoverageData(str(copy / ".cache/coverage/data"))
    data.read()
    if tests := failed(copy):
        pytest(copy, *tests)
        tests = failed(copy)
    copies.put(copy)
    inner = {path: lines([node for function in functions(path) for node in function.body]) for path in OURS}
    runs = {path: inner[path].intersection(data.lines(str(path)) or ()) for path in OURS}
    return File(name, runs, [f"--deselect={test}" for test in sorted(tests)])


def judge(copies: SimpleQueue[Path], files: list[File], mutant: Mutant) -> str:
    """Runs the tests of a mutant."""
    path, line, text, changed = mutant
    of_module = [file for file in files if file.runs[path]]
    of_module.sort(key=lambda file: sum(map(len, file.runs.values())) / len(file.runs[path]))
    tests = ([file for file in of_module if file.runs[path] & changed] or of_module)[:FILES]
    names, unfit = [file.name for file in tests], [option for file in tests for option in file.unfit]
    copy = copies.get()
    module = copy / path.relative_to(CLONE)
    module.write_text(text)
    try:
        result = "SURVIVES" if not tests or pytest(copy, "-x", *names, *unfit) in (0, 5) else "found"
    except subprocess.TimeoutExpired:
        result = "hangs"
    shutil.copy(path, module)
    for compiled in module.parent.glob(f"__pycache__/{module.stem}.*"):
        compiled.unlink()  # it may be taken for that of the next mutant
    copies.put(copy)
    difference = list(difflib.unified_diff(path.read_text().split("\n"), text.split("\n"), n=0, lineterm=""))
    shown = [] if result == "found" else [*difference[3:], *names]
    print(f"{result} {path.relative_to(CLONE)}:{line}", *shown, sep="\n  ", flush=True)
    return result


def main(number: int = 20, seed: int = random.SystemRandom().randrange(1 << 32)) -> None:
    """Judges mutants, some at once, each in a copy."""
    os.environ["TEST_SEED"] = str(seed)
    copies = SimpleQueue[Path]()
    with TemporaryDirectory(prefix="mutants-") as place, ThreadPoolExecutor(AT_ONCE) as pool:
        for copy in (Path(place, str(index)) for index in range(AT_ONCE)):
            shutil.copytree(CLONE, copy, symlinks=True, ignore=shutil.ignore_patterns(".venv", ".cache", ".*_cache"))
            (copy / ".cache/tmp").mkdir(parents=True)
            (copy / ".venv").mkdir()
            copies.put(copy)
        files = list(pool.map(partial(measured, copies), TESTS))
        counts = Counter(pool.map(partial(judge, copies, files), islice(drawn(seed), number)))
    print(f"{dict(counts)}; make mutants MUTANTS='{number} {seed}' repeats it")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
