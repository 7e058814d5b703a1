"""Who may know whom in the two packages; and what is installed with them: bounded, and locked by hashes."""

from __future__ import annotations

import ast
import functools
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from graphlib import TopologicalSorter
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from .rig.debian import missing

CLONE = Path(__file__).parents[1]
ROOT = CLONE / "adapter"
MODULES = sorted(path.relative_to(ROOT) for path in ROOT.rglob("*.py"))

# From the bottom to the top: a room imports only what stands before it. The stub stands below the whole adapter, and
# knows nothing of it. `nri` are the stub's modules outside of its rooms, `errors` is below all others of its package.
STUB = ("nri.errors", "nri.text", "nri.proto", "nri.wire", "nri", "nri.testing", "pytest_nri")
ADAPTER = (
    *("errors", "base", "oci", "host", "settings", "monitoring", "programs"),
    *("legacy", "hooks", "state", "events", "daemon", "container_files", "cli"),
)
ORDER = (*STUB, *(f"v010_adapter.{room}" for room in ADAPTER))
STRANGERS = {"hooks": {"legacy"}, "state": {"hooks"}, "container_files": {"state", "events", "daemon"}}
"""Rooms that stand before others and are none of their business."""
PLAYERS = {"nri.testing", "pytest_nri", "v010_adapter.container_files", "v010_adapter.cli"}
"""Who may know the embedded runtime. A daemon does without."""
# What would make the protocol depend on where its bytes come from and go to.
INPUT_AND_OUTPUT = {
    *("asyncio", "io", "logging", "os", "select", "selectors"),
    *("socket", "subprocess", "threading", "time"),
}


@functools.cache
def imported(module: Path) -> Sequence[str]:
    """Dotted names of all that a module imports, wherever in it."""
    names: list[str] = []
    for node in ast.walk(ast.parse((ROOT / module).read_text())):
        if isinstance(node, ast.Import):
            names += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: a relative import"
            names += (f"{node.module}.{alias.name}" for alias in node.names)
    return names


def dotted(module: Path) -> str:
    return ".".join(module.with_suffix("").parts).removesuffix(".__init__")


def room(name: str) -> str:
    """The room of a dotted name, empty for others' names and for names of `v010_adapter` itself."""
    first, part, *_ = f"{name}..".split(".")
    known = [one for one in (f"{first}.{part}", first) if one in ORDER]
    is_ours = first == "v010_adapter" and ((ROOT / first / part).is_dir() or (ROOT / first / f"{part}.py").is_file())
    return known[0] if known else f"{first}.{part}" if is_ours and part else ""


def test_a_module_imports_only_what_stands_below_it() -> None:
    assert {room(dotted(module)) for module in MODULES} - {""} == set(ORDER)
    for module in MODULES:
        own = room(dotted(module))
        if own:
            strangers = {f"v010_adapter.{one}" for one in STRANGERS.get(own.removeprefix("v010_adapter."), ())}
            below = set(ORDER[: ORDER.index(own) + 1]) - strangers
            below -= set() if own in PLAYERS else PLAYERS & {*STUB}
            assert {room(name) for name in imported(module)} - {""} <= below, module


def test_no_module_imports_itself_by_way_of_others() -> None:
    names = {dotted(module): module for module in MODULES}

    def module_of(name: str) -> str:
        """The module that a dotted name is, or is in; empty for others' modules."""
        while name and name not in names:
            name = name.rpartition(".")[0]
        return name

    houses = {"", "nri", "v010_adapter"}
    graph = {name: {*map(module_of, imported(module))} - {name} - houses for name, module in names.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_the_wire_does_no_input_and_no_output() -> None:
    for module in MODULES:
        if module.parts[:2] == ("nri", "wire"):
            assert not {name.partition(".")[0] for name in imported(module)} & INPUT_AND_OUTPUT, module


LOADS = "import nri.wire; from nri import run, serve", "from nri import *; import nri.wire, nri.testing.node"


@pytest.mark.parametrize("code", LOADS)
def test_the_stub_loads_its_own_modules_and_protobuf_alone(code: str) -> None:
    def loaded(code: str) -> set[str]:
        code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}; print(*sys.modules)"
        return set(
            subprocess.run(
                [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
            ).stdout.split()
        )

    found = loaded(code) - loaded("pass")
    others = {name for name in found if name.partition(".")[0] not in {*sys.stdlib_module_names, "nri"}}
    assert {".".join(name.split(".")[:2]) for name in others} == {"google", "google._upb", "google.protobuf"}
    assert "nri.stub" in found
    assert code != LOADS[0] or not {"asyncio", "socket", "argparse", "inspect", "signal"} & found


# tests


def test_a_test_starts_processes_only_through_what_ends_them() -> None:
    """A test that fails would leave others, or wait for ever for their end. `limit` is for all other waits."""
    tests = CLONE / "tests"
    for path in tests.rglob("test_*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "Popen" in text else ():
            called = node.func if isinstance(node, ast.Call) else None
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            assert name != "Popen", f"{path.relative_to(CLONE)}:{getattr(node, 'lineno', 0)}: use waiting.running"


def test_the_page_of_the_rig_has_each_of_its_modules() -> None:
    rig = CLONE / "tests/rig"
    page = (rig / "README.md").read_text()
    assert [path.stem for path in rig.glob("[a-z]*.py") if f"`{path.stem}`" not in page] == []


def test_each_folder_of_tests_says_what_it_is_about() -> None:
    folders = {path.parent for path in CLONE.glob("tests/*/test_*.py")}
    assert [folder.name for folder in folders if not (folder / "__init__.py").read_text().startswith('"""')] == []


# what is installed


def locked(name: str) -> dict[str, Requirement]:
    """Returns the packages of a lock file, by name; each with its one version, and hashes on the lines after it."""
    lines = re.findall(r"^([a-z0-9-]+==.*?) \\\n    --hash=sha256:", (CLONE / name).read_text(), re.MULTILINE)
    return {found.name: found for found in map(Requirement, lines)}


LOCKED = locked("requirements.lock")
PROJECT = tomllib.loads((CLONE / "pyproject.toml").read_text())["project"]
NRI = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BESIDE = tomllib.loads((CLONE / "pyproject.toml").read_text())["tool"]["hatch"]["metadata"]["hooks"]["custom"][
    "dependencies"
]
DIRECT = [Requirement(text) for text in (*NRI["dependencies"], *BESIDE)]
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


def test_what_builds_the_wheels_is_locked_with_all_that_it_requires() -> None:
    builds = locked("requirements-build.lock")
    for project in (CLONE, ROOT):
        for one in map(
            Requirement, tomllib.loads((project / "pyproject.toml").read_text())["build-system"]["requires"]
        ):
            [pin] = builds[one.name].specifier
            assert one.specifier.contains(pin.version), f"{one}: `make lock`"
    required = [Requirement(text) for name in builds for text in requires(name) or ()]
    needed = {
        canonicalize_name(one.name) for one in required if one.marker is None or one.marker.evaluate({"extra": ""})
    }
    assert needed | {"hatchling"} == set(builds)


def test_what_is_installed_exactly_has_hashes_or_asks_no_index() -> None:
    page = (CLONE / "docs/security.md").read_text()
    [block] = re.findall(r"To install exactly these.*?```console\n(.*?)```", page, re.DOTALL)
    lines = [line.split() for line in block.splitlines() if "pip " in line]
    assert len(lines) == 4
    for line in lines:
        is_build = {"--no-build-isolation", "--no-deps"} <= {*line}
        assert "--require-hashes" in line or "--no-index" in line or is_build, line


_COMMAND = re.compile(r"^\s*(?:[$#-]|RUN|dependencies =).*")
"""A line of a page or a file that runs a command, or lists dependencies."""
_BY_NAME = re.compile(r"""[\s"'\[](?:nri|nri-v010-adapter)(?:[<>=~\[][^\s@]*)?(?=["'\s]|$)(?!\s*@)""")


def test_no_page_and_no_example_asks_an_index_for_a_name_that_nobody_has_registered() -> None:
    """Anybody can register it, and what has the name runs as root."""
    names = ("README.md", "SECURITY.md", "docs", "examples", "adapter/nri/README.md", "deploy")
    files = [file for name in names for file in [CLONE / name, *(CLONE / name).rglob("*")] if file.is_file()]
    installs = [
        (file.name, line)
        for file in files
        if file.suffix != ".pyc"
        for line in file.read_text(errors="replace").splitlines()
        if _COMMAND.match(line) and re.search(r"\b(?:pipx? install|uv (?:add|tool|pip)|dependencies = )", line)
    ]
    assert len(installs) > 10
    commands = [(name, line.partition("  # ")[0]) for name, line in installs if "--no-index" not in line]
    assert [one for one in commands if _BY_NAME.search(one[1])] == []


def test_the_tools_of_a_release_are_installed_from_their_lock(tmp_path: Path) -> None:
    if shutil.which("make") is None:
        missing("make is not installed")
    line = ["make", "--no-print-directory", "--dry-run", f"VENV={tmp_path}", f"{tmp_path}/.release"]
    steps = subprocess.run(line, cwd=CLONE, check=True, capture_output=True, text=True).stdout.splitlines()
    installs = [step for step in steps if " install " in step]
    assert len(installs) == 3
    assert "--require-hashes --requirement requirements-release.lock" in installs[0]
    assert all({"--no-deps", "--no-build-isolation"} <= set(install.split()) for install in installs[1:])
