"""The two wheels: what is in them, what they require, and that nothing beside them breaks them."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable
from email import message_from_bytes
from pathlib import Path

import pytest

from v010_adapter import __version__

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.long, pytest.mark.ci]


PIP = [sys.executable, "-m", "pip", "--quiet"]


def built(folder: Path, *projects: str, **environ: str) -> list[Path]:
    """The wheels of projects of this clone."""
    options = ["--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    subprocess.run([*PIP, "wheel", *options, *projects], cwd=ROOT, env={**os.environ, **environ}, check=True)
    return sorted(folder.glob("*.whl"))


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A directory that the processes which run the tests share: the first one that needs it makes it."""
    above = factory.getbasetemp()
    folder = (above.parent if "PYTEST_XDIST_WORKER" in os.environ else above) / name
    with folder.with_name(f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            try:
                make(folder)
            except BaseException:  # the next one is not to find half of it
                shutil.rmtree(folder, ignore_errors=True)
                raise
    return folder


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Those of a release: of nri, and of the adapter."""
    folder = once(tmp_path_factory, "wheels", lambda made: built(made, "./adapter", ".", V010_ADAPTER_RELEASE="1"))
    return sorted(folder.glob("*.whl"))


class Site:
    """A directory of a user, with a virtual environment that has both wheels and, from the tests' own, the rest."""

    def __init__(self, folder: Path, venv: Path) -> None:
        self.folder, self._venv = folder, venv
        self.packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(venv)}))

    def make(self, wheels: list[Path]) -> None:
        """Makes the environment."""
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self._venv], check=True)
        self.packages.joinpath("others.pth").write_text(sysconfig.get_path("purelib") + "\n")
        self.pip("install", "--no-deps", *map(str, wheels))

    def pip(self, *words: str) -> None:
        subprocess.run([*PIP, "--python", str(self._venv / "bin/python"), *words], check=True)

    def run(self, *words: str, program: str = "python", **environ: str) -> subprocess.CompletedProcess[str]:
        """Runs a program of the environment in the directory."""
        line = [str(self._venv / "bin" / program), *words]
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
        return subprocess.run(
            line, cwd=self.folder, env={**clean, **environ}, capture_output=True, text=True, check=False
        )

    def project(self, **files: str) -> None:
        """Writes the modules of a project."""
        for name, text in files.items():
            (self.folder / f"{name}.py").write_text(text)


@pytest.fixture
def site(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, wheels: list[Path]) -> Site:
    """One environment for all tests, none of which installs anything there, and a directory for each."""
    return Site(tmp_path, once(tmp_path_factory, "site", lambda made: Site(made, made).make(wheels)))


def intruder(folder: Path) -> Path:
    """The wheel of an unrelated package `adapter`, as the index has one."""
    made = folder / "adapter-0.1-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as wheel:
        wheel.writestr("adapter/__init__.py", "NAME = 'the other'\n")
        info = "adapter-0.1.dist-info"
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: adapter\nVersion: 0.1\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "adapter/__init__.py,,\n")
    return made


# ---- what they are


def required(wheel: Path) -> list[str]:
    """What a wheel requires without extras."""
    with zipfile.ZipFile(wheel) as opened:
        [name] = [one for one in opened.namelist() if one.endswith(".dist-info/METADATA")]
        found = message_from_bytes(opened.read(name)).get_all("Requires-Dist", [])
    return [text for text in found if "extra ==" not in text]


def test_no_file_is_in_both_and_each_has_the_names_that_it_says(wheels: list[Path]) -> None:
    files = [set(zipfile.ZipFile(wheel).namelist()) for wheel in wheels]
    assert files[0] & files[1] == set()
    tops = [{name.partition("/")[0] for name in one if ".dist-info/" not in name} for one in files]
    command = f"nri_v010_adapter-{__version__}.data"
    assert tops == [{"nri", "pytest_nri.py"}, {"v010_adapter", command}]
    assert {name for name in files[1] if name.startswith(command)} == {f"{command}/scripts/v010-adapter"}
    assert "v010_adapter/samples/hooks.d/record.json" in files[1]


def test_the_stub_requires_protobuf_alone_and_the_adapter_this_stub(wheels: list[Path]) -> None:
    stub, adapter = map(required, wheels)
    assert [re.match(r"[\w-]+", text)[0] for text in stub] == ["protobuf"]  # type: ignore[index]
    assert f"nri=={__version__}" in adapter
    assert not any(text.startswith("protobuf") for text in adapter)


def test_a_wheel_that_is_built_to_be_installed_here_requires_the_stub_beside_it(tmp_path: Path) -> None:
    """So `pip install .` asks no index for nri."""
    assert f"nri @ {(ROOT / 'adapter').as_uri()}" in required(*built(tmp_path, ".", V010_ADAPTER_RELEASE=""))


def test_a_released_source_distribution_requires_the_stub_s_version_wherever_it_is_built(tmp_path: Path) -> None:
    """The variable is that of the machine that releases, not of the one that installs."""
    line = [sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", str(tmp_path)]
    released = {**os.environ, "V010_ADAPTER_RELEASE": "1"}
    subprocess.run(line, cwd=ROOT, env=released, capture_output=True, check=True)
    [source] = tmp_path.glob("*.tar.gz")
    [wheel] = built(tmp_path, str(source), V010_ADAPTER_RELEASE="")
    assert f"nri=={__version__}" in required(wheel)
    assert not any("file:" in text for text in required(wheel))


# ---- what lies beside them


def test_the_command_of_an_installation_runs_no_module_of_a_user_whose_environment_root_has(site: Site) -> None:
    """`su` keeps PYTHONPATH. Python runs sitecustomize before a line of the command."""
    site.project(sitecustomize="print('it was run')\n", json="print('it was run')\n")
    for path in (str(site.folder), ":"):
        said = site.run("--version", program="v010-adapter", PYTHONPATH=path)
        assert said.stdout.startswith(f"v010-adapter {__version__}, "), said.stderr
        assert "it was run" not in said.stdout


def test_the_command_works_beside_an_unrelated_package_adapter_and_after_its_end(
    wheels: list[Path], tmp_path: Path
) -> None:
    site = Site(tmp_path, tmp_path / "venv")
    site.make(wheels)
    site.pip("install", "--no-deps", str(intruder(tmp_path)))
    told = site.run("-c", "import adapter, nri, v010_adapter; print(adapter.NAME, v010_adapter.__version__)")
    assert told.stdout == f"the other {__version__}\n", told.stderr
    for step in "beside it", "without it":
        said = site.run("--version", program="v010-adapter")
        assert said.stdout.startswith(f"v010-adapter {__version__}, "), (step, said.stderr)
        if step == "beside it":
            site.pip("uninstall", "--yes", "adapter")
    assert not (site.packages / "adapter").exists()


TEST = """
import adapter, runtime
from nri import Plugin


class Mine(Plugin):
    def start_container(self, request, context):
        raise ValueError(adapter.NAME + runtime.NAME)


def test_mine(nri_runtime):
    nri_runtime.add(Mine())
    assert nri_runtime.event("StartContainer").error == "10-mine: ValueError: mine, too"


def test_other():
    pass
"""


def test_a_project_with_modules_of_the_same_names_has_its_tests_and_the_fixture(site: Site) -> None:
    site.project(adapter="NAME = 'mine, '\n", runtime="NAME = 'too'\n", test_mine=TEST)
    done = site.run("-m", "pytest", "-q", "--color=no", "-p", "no:cacheprovider", "test_mine.py")
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_a_plugin_may_be_called_adapter(site: Site) -> None:
    site.project(adapter="from nri import Plugin, run\n\nrun(Plugin(), path='/nowhere/nri.sock')\n")
    done = site.run("adapter.py")
    assert done.stderr == "adapter.py: no runtime at /nowhere/nri.sock: No such file or directory\n"


def test_where_a_file_hides_the_stub_pytest_runs_and_the_fixture_names_the_file(site: Site) -> None:
    test = "def test_mine(nri_runtime):\n    pass\n\n\ndef test_other():\n    pass\n"
    site.project(nri="raise SystemExit('it was run')\n", test_mine=test)
    done = site.run("-m", "pytest", "-q", "--color=no", "-p", "no:cacheprovider", "test_mine.py")
    assert "1 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert f"{site.folder}/nri.py hides the package nri" in done.stdout
