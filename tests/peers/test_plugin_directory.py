"""What NRI's own runtime does at its start with files in its plugin directory: docs/install.md has the table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rig.brief import few
from tests.rig.programs import Programs

from .build import VERSIONS
from .harness import GoRuntime

MISNAMED = 'invalid plugin name "tool", idx-pluginname expected'
LAUNCH = "failed to initialize pre-installed NRI plugin"


def file(name: str, mode: int, text: str = "#!/bin/sh\nexit 0\n") -> Callable[[Path], object]:
    return lambda directory: Programs(directory).write(name, text, mode)


def link(name: str, target: str) -> Callable[[Path], None]:
    return lambda directory: (directory / name).symlink_to(target)


def no_configuration(directory: Path) -> None:
    (directory / "05-tool").symlink_to("/bin/true")
    (directory.parent / "conf.d/05-tool.conf").mkdir()


def looping_configuration(directory: Path) -> None:
    (directory / "05-tool").symlink_to("/bin/true")
    (directory.parent / "conf.d/tool.conf").symlink_to("tool.conf")


# What is in the directory, the runtime's error at its start, and a part of the warning in its log.
FILES = {
    "a dangling link": (link("05-tool", "/nowhere"), "", LAUNCH),
    "a link to a file that is not executable": (link("05-tool", "/etc/passwd"), "", LAUNCH),
    "an executable that is no program": (file("05-tool", 0o755, "text"), "", LAUNCH),
    "a program that ends at once": (file("05-tool", 0o755), "", "failed to start pre-installed NRI plugin"),
    "a file that is not executable": (file("05-tool", 0o644), "", ""),
    "a misnamed file that is not executable": (file("tool", 0o644), "", ""),
    "a directory": (lambda directory: (directory / "tool").mkdir(), "", ""),
    "a misnamed executable": (file("tool", 0o755), MISNAMED, ""),
    "a misnamed link": (link("tool", "/etc/passwd"), MISNAMED, ""),
    "a misnamed dangling link": (link("tool", "/nowhere"), MISNAMED, ""),
    "a configuration that cannot be read": (no_configuration, "failed to read configuration for plugin", ""),
    "a configuration that is a loop of links": (looping_configuration, "failed to read configuration for plugin", ""),
}


@pytest.mark.parametrize("version", few(VERSIONS))
@pytest.mark.parametrize("what", FILES)
def test_a_wrong_name_stops_the_runtime_and_a_plugin_that_cannot_be_launched_is_a_warning(
    tmp_path: Path, version: str, what: str
) -> None:
    make, error, warning = FILES[what]
    with GoRuntime(tmp_path, version) as runtime:
        runtime.open()
        make(tmp_path / "plugins")
        started = runtime.play("start")
    assert (error in started.error, bool(started.error), started.names) == (True, bool(error), [])
    log = [line for line in runtime.log.read_text().splitlines() if "pre-installed" in line and "=warning" in line]
    assert [warning in line for line in log] == ([True] if warning else [])
