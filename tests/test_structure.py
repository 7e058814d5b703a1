"""Holds the direction of dependencies inside the package: who may know whom."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import adapter

ROOT = Path(adapter.__file__).parent
MODULES = sorted(path.relative_to(ROOT) for path in ROOT.rglob("*.py"))

# What a package, or a module, may import of ours besides itself. What has no line here stands above all of these: it
# may import everything, and none of these may import it.
MAY_IMPORT = {
    "errors": set(),
    "gojson": set(),
    "proto": set(),
    "loop": set(),
    "monitoring": {"errors", "loop", "sanitize", "state_directory", "times", "trunk", "trust"},
    "times": set(),
    "paths": {"errors"},
    "children": set(),
    "mount_namespace": {"errors"},
    "process": {"children", "loop", "mount_namespace", "paths"},
    "trunk": {"loop"},
    "job": {"errors", "loop", "mount_namespace", "nri", "paths", "process", "times"},
    "settings": {"errors", "mount_namespace", "nri", "paths", "settings_reader", "trust"},
    "settings_reader": {"errors"},
    "sanitize": set(),
    "trust": {"paths", "sanitize"},
    "log_lines": {"sanitize"},
    "logs": {"errors", "log_lines", "settings"},
    "wire": {"errors", "proto"},
    "nri": {"errors", "proto", "sanitize", "wire"},
    "oci": {"errors", "gojson", "proto"},
    "creation": {"log_lines", "nri"},
    "inventory": {"proto"},
    "owner": {"errors", "state_directory", "trust"},
    "state_directory": {"errors", "trust"},
    "container_files": {"errors", "gojson", "oci", "paths", "proto"},
    "legacy": {
        *("errors", "gojson", "job", "log_lines", "loop", "mount_namespace", "nri", "oci", "owner", "paths", "process"),
        *("proto", "settings", "state_directory", "trust"),
    },
    "hooks": {
        *("creation", "errors", "gojson", "job", "loop", "mount_namespace", "nri", "oci", "paths", "process", "proto"),
        *("sanitize", "settings", "trust"),
    },
    "runtime": {"container_files", "errors", "nri", "paths", "wire"},
}
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
    parts = {module.parts[0].removesuffix(".py") for module in MODULES}
    assert set(MAY_IMPORT) <= parts
    for module in MODULES:
        own = module.parts[0].removesuffix(".py")
        if own in MAY_IMPORT:
            assert {package(name) for name in imported(module)} - {"", own} <= MAY_IMPORT[own], module


def test_the_wire_does_no_input_and_no_output() -> None:
    for module in MODULES:
        if module.parts[0] == "wire":
            assert not {name.partition(".")[0] for name in imported(module)} & INPUT_AND_OUTPUT, module
