"""Holds the direction of dependencies inside the package: who may know whom."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import adapter

ROOT = Path(adapter.__file__).parent
MODULES = sorted(path.relative_to(ROOT) for path in ROOT.rglob("*.py"))

# From the bottom to the top: a package imports only what stands before it. `errors` is below all of them.
ORDER = (
    *("errors", "base", "proto", "wire", "nri", "oci", "host", "settings", "monitoring", "programs"),
    *("legacy", "owed", "hooks", "daemon", "container_files", "runtime", "pytest_plugin", "cli"),
)
STRANGERS = {"hooks": {"legacy", "owed"}, "runtime": {"daemon"}, "container_files": {"daemon"}}
"""Packages that stand before others and are none of their business."""
# What would make the protocol depend on where its bytes come from and go to.
INPUT_AND_OUTPUT = {
    *("asyncio", "io", "logging", "os", "select", "selectors"),
    *("socket", "subprocess", "threading", "time"),
}


def imported(module: Path) -> Iterator[str]:
    """Dotted names of all that a module imports, wherever in it."""
    for node in ast.walk(ast.parse((ROOT / module).read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def package(name: str) -> str:
    """The part of ours that a dotted name belongs to, empty for others' and for names of `adapter` itself."""
    first, part, *_ = f"{name}..".split(".")
    return part if first == "adapter" and ((ROOT / part).is_dir() or (ROOT / f"{part}.py").is_file()) else ""


def test_a_module_imports_only_what_stands_below_it() -> None:
    parts = {module.parts[0].removesuffix(".py") for module in MODULES} - {"__init__"}
    assert parts == set(ORDER)
    for module in MODULES:
        own = module.parts[0].removesuffix(".py")
        if own in ORDER:
            below = set(ORDER[: ORDER.index(own) + 1]) - STRANGERS.get(own, set())
            assert {package(name) for name in imported(module)} - {""} <= below, module


def test_the_page_for_developers_lists_the_packages_in_their_order() -> None:
    page = (ROOT.parent / "docs/development.md").read_text()
    listed = re.findall(r"^  (\w+)(?:/|\.py) ", page, re.MULTILINE)
    assert listed == list(ORDER)


def test_no_module_imports_itself_by_way_of_others() -> None:
    dotted = (".".join(["adapter", *module.with_suffix("").parts]).removesuffix(".__init__") for module in MODULES)
    names = dict(zip(dotted, MODULES, strict=True))

    def module_of(name: str) -> str:
        """The module that a dotted name is, or is in; empty for others' modules."""
        while name and name not in names:
            name = name.rpartition(".")[0]
        return name

    graph = {name: {*map(module_of, imported(module))} - {"", name, "adapter"} for name, module in names.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_the_wire_does_no_input_and_no_output() -> None:
    for module in MODULES:
        if module.parts[0] == "wire":
            assert not {name.partition(".")[0] for name in imported(module)} & INPUT_AND_OUTPUT, module
