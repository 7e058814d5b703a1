"""Random changes of random functions of adapter/: do the tests notice? Shows those that survive.

`python -m tests.mutants [NUMBER [SEED]]`. The tests of a module are the few files that import it in the fewest steps;
each word that the names share counts as two. A mutant may delete anything: it sees a copy in the clone's place, a /tmp
and processes of its own, and all else it can only read. That needs root.
"""

from __future__ import annotations

import ast
import difflib
import random
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import accumulate, islice
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any

CLONE = Path(__file__).resolve().parents[1]
AT_ONCE, FILES, LIMIT = 2, 6, 1200
"""Mutants at once; files of tests for each; seconds by the clock for them, after which the mutant counts as found."""
FAR = 3
"""Steps to tests that import nothing, but have the name of the module."""
SLOW = ("bench", "deploy", "peers")
"""Folders of tests that are left out."""
ENTER = """
copy=$1 clone=$2; mount --bind "$3" "$copy/.venv"; mount --rbind "$copy" "$clone"; mount --bind "$copy/.cache/tmp" /tmp
mount -o remount,bind,ro "$clone/.venv"; mount -o remount,bind,ro /; shift 3; cd "$clone"; ulimit -v 8000000
.venv/bin/python -m pytest -q -p no:xdist -m "not deadline" "$@" >.cache/output 2>&1 || exit $?
exit 0  # no exec: orphans would become children of the tests
"""
SPACE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-ec", ENTER, "sh")
PAIRS = "Lt-LtE Lt-GtE Gt-GtE Gt-LtE Eq-NotEq Is-IsNot In-NotIn And-Or Add-Sub Mult-Add"
NO_CODE = (ast.JoinedStr, ast.Assert)
Code = ast.expr | ast.stmt | ast.ExceptHandler
Mutant = tuple[Path, int, str, list[str]]
"""The module, a line, the changed text, and the tests."""


def name_of(path: Path) -> str:
    inner = str(path).removeprefix(f"{CLONE}/").removeprefix("adapter/")
    return inner.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


MODULES = {name_of(path): path for top in ("adapter", "tests") for path in sorted((CLONE / top).rglob("*.py"))}


def imports(name: str, path: Path) -> Iterator[str]:
    """What a module imports, by a name in a string, too; a test has the conftest of its folder."""
    package = (name if path.name == "__init__.py" else name.rpartition(".")[0]).split(".")
    yield ".".join([*package, "conftest"])
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Constant(str(text)):
                yield text
            case ast.ImportFrom(module, aliases, level):
                base = (
                    [*package[: len(package) + 1 - level], *([module] if module else [])] if level else [module or ""]
                )
                for alias in aliases:
                    whole = ".".join([*base, alias.name])
                    yield whole if whole in MODULES else ".".join(base)


def nearest(name: str, importers: dict[str, set[str]]) -> list[str]:
    """The files of tests for a module."""
    steps, words = {name: 0}, re.findall("[a-z]+", f"{name}.{name.rpartition('.')[2]}")  # the last ones twice
    for one in (queue := [name]):
        new = importers[one] - steps.keys()
        steps |= dict.fromkeys(new, steps[one] + 1)
        queue += sorted(new)
    own = [one for one in MODULES if words[-1] in re.findall("[a-z]+", one)]  # it may run the command
    tests = [one for one in {*queue, *own} if ".test_" in one and not set(SLOW) & set(one.split("."))]
    near = {one: steps.get(one, FAR) - 2 * sum(word in re.findall("[a-z]+", one) for word in words) for one in tests}
    tests.sort(key=lambda one: (near[one], one))
    return [str(MODULES[one].relative_to(CLONE)) for one in tests[:FILES]]


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


def drawn(seed: int) -> Iterator[Mutant]:
    """Random mutants without end, none twice."""
    draw, seen = random.Random(seed), set[str]()  # noqa: S311 - repeated, not secret
    importers: dict[str, set[str]] = defaultdict(set)
    for name, path in MODULES.items():
        for imported in imports(name, path):
            importers[imported].add(name)
    ours = [path for path in MODULES.values() if "adapter" in path.parts and "proto" not in path.parts]
    trees = {path: ast.parse(path.read_text()) for path in ours}
    dumps = {path: ast.dump(tree) for path, tree in trees.items()}
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    functions = [(path, node) for path in ours for node in ast.walk(trees[path]) if isinstance(node, kinds)]
    while True:
        path, function = draw.choice(functions)
        if possible := [change for node in inside(function) for change in changes(node)]:
            old, new = draw.choice(possible)
            whole = path.read_bytes()
            starts = [0, *accumulate(map(len, whole.splitlines(keepends=True)))]
            before = whole[: starts[old.lineno - 1] + old.col_offset]
            after = whole[starts[(old.end_lineno or 0) - 1] + (old.end_col_offset or 0) :]
            text = (before + ast.unparse(new).replace("\n    ", " ").encode() + after).decode()
            if text not in seen and ast.dump(ast.parse(text)) != dumps[path]:
                seen.add(text)
                yield path, old.lineno, text, nearest(name_of(path), importers)


def pytest(copy: Path, *options: str) -> int:
    """Runs tests in a copy; returns the status."""
    return subprocess.run([*SPACE, copy, CLONE, sys.prefix, *options], check=False, timeout=LIMIT).returncode


@cache
def unfit(copy: Path, file: str) -> list[str]:
    """The options that leave out the tests of a file that fail without a change, such as those that write to /etc."""
    pytest(copy, file)
    failed = re.findall(r"^(?:FAILED|ERROR) ([^\s\[]+)", (copy / ".cache/output").read_text(), re.MULTILINE)
    return [f"--deselect={test}" for test in sorted({*failed})]


def judge(copies: SimpleQueue[Path], mutant: Mutant) -> str:
    """Runs the tests of a mutant, in a copy that is free."""
    path, line, text, tests = mutant
    copy = copies.get()
    module = copy / path.relative_to(CLONE)
    options = [option for test in tests for option in unfit(copy, test)]
    module.write_text(text)
    try:
        result = "SURVIVES" if pytest(copy, "-x", *tests, *options) in (0, 5) else "found"
    except subprocess.TimeoutExpired:
        result = "hangs"
    shutil.copy(path, module)
    for compiled in module.parent.glob(f"__pycache__/{module.stem}.*"):
        compiled.unlink()  # it may be taken for that of the next mutant
    copies.put(copy)
    changed = list(difflib.unified_diff(path.read_text().split("\n"), text.split("\n"), n=0, lineterm=""))
    shown = [] if result == "found" else [*changed[3:], *tests]
    print(f"{result} {path.relative_to(CLONE)}:{line}", *shown, sep="\n  ", flush=True)
    return result


def main(number: int = 20, seed: int = random.SystemRandom().randrange(1 << 32)) -> None:
    """Judges mutants, some at once, each in a copy."""
    copies = SimpleQueue[Path]()
    with TemporaryDirectory(prefix="mutants-") as place, ThreadPoolExecutor(AT_ONCE) as pool:
        for copy in (Path(place, str(index)) for index in range(AT_ONCE)):
            shutil.copytree(CLONE, copy, symlinks=True, ignore=shutil.ignore_patterns(".venv", ".cache", ".*_cache"))
            (copy / ".cache/tmp").mkdir(parents=True)
            (copy / ".venv").mkdir()
            copies.put(copy)
        counts = Counter(pool.map(partial(judge, copies), islice(drawn(seed), number)))
    print(f"{dict(counts)}; make mutants MUTANTS='{number} {seed}' repeats it")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
