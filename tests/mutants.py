"""Random changes of random functions of adapter/: do the tests notice? Shows those that survive.

Each file of tests runs once with coverage. A mutant gets a few files that run the changed statement, or its module if
coverage sees none: first those that run little else. They run as in CI, with fewer examples. Needs root: a mutant has
a copy of the clone, a /tmp and processes of its own. It can only read the rest of /, but delete what other mounts have.
"""

import ast
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, islice
from pathlib import Path
from shutil import copytree, ignore_patterns
from tempfile import TemporaryDirectory
from typing import Any

from coverage import CoverageData

CLONE, SNAPSHOT = Path(__file__).resolve().parents[1], TemporaryDirectory(prefix="mutants-")
AT_ONCE, MOST, LIMIT = 4, 16, "600"  # mutants; files of tests for each; seconds, after which a mutant counts as found
ENTER = """# The shell stays: orphans would become children of tests
cd "$1"; mkdir -p .venv .cache/tmp; mount -B "$3" .venv; mount -R . "$2"; mount -B .cache/tmp /tmp
mount -o remount,bind,ro "$2/.venv"; mount -o remount,bind,ro /; cd "$2"; shift 3; ulimit -v 8000000; export CI=1
.venv/bin/python -m pytest -q --color=no -n0 -m "not deadline" --hypothesis-profile=first "$@" >.cache/output 2>&1; exit
"""
SPACE = ("timeout", LIMIT, "unshare", "-mpf", "--kill-child", "--mount-proc", "sh", "-ec", ENTER, "sh")
PAIRS = "Lt-LtE Lt-GtE Gt-GtE Gt-LtE Eq-NotEq Is-IsNot In-NotIn And-Or Add-Sub Mult-Add"
Function, Statement = ast.FunctionDef | ast.AsyncFunctionDef, ast.stmt | ast.ExceptHandler
File = tuple[str, dict[Path, set[int]], list[str]]  # tests; lines of modules that they run; options: without what fails


def inside(function: ast.AST) -> list[ast.AST]:
    """Returns all of a function that may change, what is outermost first. Parts of an f-string have no place in it."""
    nodes = [*ast.walk(function)]
    kept = [one for one in nodes if isinstance(one, ast.JoinedStr | ast.Assert) or getattr(one, "arg", "") == "strict"]
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


def run(copy: str, options: list[str], path: Path = CLONE, text: str = "") -> int:
    """Runs tests in a copy of the clone, with another text of a module; returns the status."""
    subprocess.run(["cp", "-a", f"{SNAPSHOT.name}/.", copy], check=True)
    if text:
        Path(copy, path.relative_to(CLONE)).write_text(text)
    return subprocess.run([*SPACE, copy, CLONE, sys.prefix, *options], check=False).returncode


def measure(path: Path) -> File:
    """Runs a file of tests with coverage, and once more without it what has failed."""
    failed = [name := str(path.relative_to(CLONE))]
    with TemporaryDirectory(prefix="mutant-") as copy:
        for options in (["--cov=adapter", "--cov-report="], []):
            if failed:
                if (status := run(copy, [*options, *failed])) not in (0, 1, 5):
                    print("NOT MEASURED", name, status)
                output = Path(copy, ".cache/output").read_text()
                failed = re.findall(r"(?m)^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", output)
        data = CoverageData(f"{copy}/.cache/coverage/data")
        data.read()
        runs = {module: INNER[module].intersection(data.lines(str(module)) or ()) for module in PATHS}
    return name, runs, [f"--deselect={test}" for test in failed]


def survives(files: list[File], path: Path, what: str, text: str, changed: set[int]) -> bool:
    """Runs the tests of a mutant."""
    of_module = [file for file in files if file[1][path]]
    of_module.sort(key=lambda file: sum(map(len, file[1].values())) / len(file[1][path]))
    tests = ([file for file in of_module if file[1][path] & changed] or of_module)[:MOST]
    names, unfit = [name for name, _, _ in tests], [option for _, _, options in tests for option in options]
    with TemporaryDirectory(prefix="mutant-") as copy:
        status = run(copy, ["-x", *names, *unfit], path, text) if tests else 0
    is_found = status not in (0, 5)  # 1: a test has failed; 124: in LIMIT seconds, none has
    print(*["found", status, what.partition("\n")[0]] if is_found else ["SURVIVES", what, "\n ran", *names], flush=True)
    return not is_found


def main(number: int = 20, seed: int = random.SystemRandom().randrange(1 << 32)) -> None:
    print(f"make mutants MUTANTS='{number} {seed}' repeats this")
    os.environ["TEST_SEED"] = str(seed)
    copytree(CLONE, SNAPSHOT.name, symlinks=True, ignore=ignore_patterns(".venv", ".*cache"), dirs_exist_ok=True)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        files = list(pool.map(measure, FILES))
        left = sum(pool.map(lambda mutant: survives(files, *mutant), islice(drawn(seed), number)))
    print(f"{left} of {number} survive")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
