"""Who may know whom inside the package; and what is installed with it: bounded, and locked by hashes."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import adapter

ROOT = Path(adapter.__file__).parent
CLONE = Path(__file__).parents[1]
MODULES = sorted(path.relative_to(ROOT) for path in ROOT.rglob("*.py"))

# From the bottom to the top: a package imports only what stands before it. `errors` is below all of them.
ORDER = (
    *("errors", "base", "proto", "wire", "nri", "oci", "host", "turns", "settings", "monitoring", "programs"),
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


# what is installed


def locked(name: str) -> dict[str, Requirement]:
    """Returns the packages of a lock file, by name; each with its one version, and hashes on the lines after it."""
    lines = re.findall(r"^([a-z0-9-]+==.*?) \\\n    --hash=sha256:", (CLONE / name).read_text(), re.MULTILINE)
    return {found.name: found for found in map(Requirement, lines)}


LOCKED = locked("requirements.lock")
PROJECT = tomllib.loads((CLONE / "pyproject.toml").read_text())["project"]
DIRECT = [Requirement(text) for text in PROJECT["dependencies"]]
HERE = [name for name, locked in LOCKED.items() if locked.marker is None or locked.marker.evaluate()]


def version(package: str) -> Version:
    [pin] = LOCKED[canonicalize_name(package)].specifier
    return Version(pin.version)


def test_a_dependency_is_bounded_by_its_next_major_version() -> None:
    for dependency in DIRECT:
        bounds = [Version(one.version) for one in dependency.specifier if one.operator == "<"]
        assert [bound.major for bound in bounds] == [version(dependency.name).major + 1], dependency


def test_what_packages_require_here_is_locked_and_nothing_else() -> None:
    required = [Requirement(text) for name in HERE for text in requires(name) or ()]
    needed = [*DIRECT, *(one for one in required if one.marker is None or one.marker.evaluate({"extra": ""}))]
    for one in needed:
        assert one.specifier.contains(version(one.name)), f"{one}: `make lock`"
    assert {canonicalize_name(one.name) for one in needed} == set(HERE)


def test_the_tools_of_a_release_are_locked_with_the_packages_of_a_node() -> None:
    tools = locked("requirements-release.lock")
    for one in map(Requirement, PROJECT["optional-dependencies"]["release"]):
        [pin] = tools[one.name].specifier
        assert one.specifier.contains(pin.version), f"{one}: `make lock`"
    assert {name: tools.get(name) for name in LOCKED} == LOCKED


def test_the_tools_of_a_release_are_installed_from_their_lock(tmp_path: Path) -> None:
    line = ["make", "--no-print-directory", "--dry-run", f"VENV={tmp_path}", f"{tmp_path}/.release"]
    steps = subprocess.run(line, cwd=CLONE, check=True, capture_output=True, text=True).stdout.splitlines()
    installs = [step for step in steps if " install " in step]
    assert len(installs) == 2
    assert "--require-hashes --requirement requirements-release.lock" in installs[0]
    assert {"--no-deps", "--no-build-isolation"} <= set(installs[1].split())
