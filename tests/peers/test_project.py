"""examples/project is a project to start from: a copy of it is installed, tested, and launched by NRI's own code."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest
import yaml

from nri import __version__

from ..rig.debian import missing
from .build import NEWEST, PeerMissing, run
from .harness import PATIENT, GoRuntime

PROJECT = Path(__file__).parents[2] / "examples/project"
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NRI_", "PYTEST"))}


@pytest.mark.ci
def test_the_copy_is_installed_and_tested_and_its_program_is_launched(tmp_path: Path) -> None:
    copied = shutil.copytree(PROJECT, tmp_path / "project", ignore=shutil.ignore_patterns("__pycache__"))
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True, env=ENVIRONMENT)
    (site,) = environment.glob("lib/python*/site-packages")
    # The stub, protobuf and pytest are those of this environment.
    (site / "these.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    python = str(environment / "bin/python")
    try:
        install = ["--python", python, "install", "--quiet", "--no-deps", str(copied)]
        run([sys.executable, "-m", "pip", *install], PeerMissing, tmp_path, ENVIRONMENT)
    except PeerMissing as reason:
        missing(f"what pip builds a project with: {reason}")
    tested = [python, "-m", "pytest", "-q", "--color=no", "-p", "no:cacheprovider", str(copied / "tests")]
    done = subprocess.run(tested, cwd=copied / "tests", env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert "7 passed" in done.stdout, done.stdout + done.stderr
    with GoRuntime(tmp_path, NEWEST) as runtime:
        runtime.open(environment / "bin/my-plugin", name="30-my-plugin", **PATIENT)
        assert runtime.play("start").names == ["30-my-plugin"]
        pod = {"id": "pod", "annotations": {"my-plugin.example.com/cpu-shares": "512"}}
        adjust = runtime.event("CreateContainer", pod, {"id": "ctr"}).adjust
    assert adjust
    assert adjust["linux"]["resources"]["cpu"] == {"shares": {"value": "512"}}


def test_the_project_depends_on_one_package_and_its_files_start_its_program() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    wheel = f"nri @ {{root:uri}}/nri-{__version__}-py3-none-any.whl"  # by no name: see docs/security.md, A release
    assert project["dependencies"] == [wheel]
    major, minor, _ = __version__.split(".")
    bounds = f"nri>={major}.{minor},<{major}.{int(minor) + 1}"
    for page in (PROJECT / "pyproject.toml", PROJECT.parents[1] / "docs/stub.md"):
        assert bounds in page.read_text()
    (program,) = project["scripts"]
    daemon_set = yaml.safe_load((PROJECT / "daemonset.yaml").read_text())["spec"]["template"]["spec"]
    (container,) = daemon_set["containers"]
    assert container["image"].endswith(f"/{program}:{project['version']}")
    assert f'ENTRYPOINT ["{program}"]' in (PROJECT / "Containerfile").read_text()
    flags = " ".join(container["args"])
    assert f"ExecStart=/opt/{program}/bin/{program} {flags}\n" in (PROJECT / f"{program}.service").read_text()
