"""In a directory where others have planted modules and programs, no command runs any of them: root may work there."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from v010_adapter.cli.simulate import trial
from v010_adapter.cli.simulate.trial import Scratch
from v010_adapter.errors import ConfigError

from .rig.brief import CI, few
from .rig.interpreter import FIRST_LINE
from .rig.programs import Programs
from .rig.users import GIVES_FILES

ROOT = Path(__file__).parents[1]
COMMAND = str(Path(sys.executable).with_name("v010-adapter"))
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
"""Python starts itself anew in such a locale."""
NAMES = {*sys.stdlib_module_names, *packages_distributions(), "sitecustomize", "usercustomize"}


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a module of every name. Each tells, in the directory above, that it was run."""
    folder = tmp_path_factory.mktemp("planted") / "here"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(f"open({str(folder.parent / 'run')!r}, 'a').write('{name} ')\n")
    return folder


def ran(planted: Path, words: list[str], **environment: str) -> str:
    """Which modules a program has run there."""
    marks = planted.parent / "run"
    marks.unlink(missing_ok=True)
    environment = {"PATH": os.defpath, "TMPDIR": str(planted.parent), **environment}
    subprocess.run(words, cwd=planted, env=environment, input=b"{}", capture_output=True, check=False)
    return marks.read_text() if marks.exists() else ""


def test_the_planted_modules_are_run_where_the_current_directory_counts(planted: Path) -> None:
    assert ran(planted, [sys.executable, "-c", "import json"])  # Python 3.13 runs linecache first


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs that the commands run: a plugin in Python that imports, which is a hook, too."""
    folder = tmp_path_factory.mktemp("programs")
    plugin = str(Programs(folder).shell("plugin", "python3 -c 'import json; print(json.dumps({}))'"))
    (folder / "hooks.d").mkdir()
    hook = {"version": "1.0.0", "hook": {"path": plugin}, "when": {"always": True}, "stages": ["precreate"]}
    (folder / "hooks.d/hook.json").write_text(json.dumps(hook))
    (folder / "conf.json").write_text(json.dumps({"plugins": [{"type": plugin}]}))
    hooks = {"directories": [f"{folder}/hooks.d"], "precreate": True}
    legacy, state = {"config": f"{folder}/conf.json"}, {"directory": f"{folder}/state"}
    (folder / "own.yaml").write_text(json.dumps({"legacy": legacy, "hooks": hooks, "state": state}))
    shutil.copytree(ROOT / "hooks.d/containers", folder / "containers")
    return folder


CONFIGURED = "-config {0}/own.yaml"
LINES = (
    *("demo", "simulate -legacy {0}/plugin -hooks {0}/hooks.d", "simulate -plugin {0}/plugin"),
    *(f"check {CONFIGURED} -probe {{0}}/plugin -yes", f"invoke {{0}}/plugin {CONFIGURED}", f"status {CONFIGURED}"),
    f"hooks match {CONFIGURED} -container {{0}}/containers/pod.yaml",
    *("install -root {0}/root", "uninstall -root {0}/root", "completion bash", "-once -socket /nowhere"),
    *("--version", "-h"),
)


@pytest.mark.parametrize("line", few(LINES, 1))
def test_no_command_runs_them(line: str, planted: Path, copies: Path) -> None:
    words = [COMMAND, *line.format(copies).split()]
    assert not ran(planted, [sys.executable, *words], **ASCII), "started anew in UTF-8"
    for path in ("", str(planted), ":") if CI else (f"{planted}:",):
        kept = {"PYTHONPATH": path, "PYTHONUSERBASE": str(planted), "PYTHONSTARTUP": f"{planted}/json.py"}
        assert not ran(planted, words, **kept if path else {}), "of a user, kept by su"


@pytest.mark.parametrize("form", few(["launched", "-external"], 1))
def test_what_an_installation_starts_runs_none_of_a_users_modules(form: str, planted: Path, tmp_path: Path) -> None:
    bin_ = tmp_path / "opt/v010-adapter/bin"
    venv.create(bin_.parent, symlinks=True)
    packages = sysconfig.get_path("purelib", "venv", {"base": str(bin_.parent)})
    Path(packages, "tests.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    shutil.copy(COMMAND, bin_)
    install = [str(bin_ / "v010-adapter"), "install", "-root", str(tmp_path)]
    subprocess.run(install if form == "launched" else [*install, form], capture_output=True, check=False)
    if form == "launched":
        started = os.readlink(tmp_path / "opt/nri/plugins/00-v010-adapter")
    else:
        unit = (tmp_path / "etc/systemd/system/v010-adapter.service").read_text()
        started = unit.split('ExecStart="')[1].split('"')[0]
    link = tmp_path / "link"
    link.symlink_to(f"{tmp_path}{started}")
    for path in (str(planted), ":"):
        assert not ran(planted, [str(link), "-once", "-socket", "/nowhere"], PYTHONPATH=path)
        done = subprocess.run(
            [link, "--version"], env={"PYTHONPATH": path}, cwd=planted, check=True, capture_output=True
        )
        assert done.stdout.startswith(b"v010-adapter ")


def test_no_launched_adapter_runs_them_under_its_guard_and_the_package_is_no_command(planted: Path) -> None:
    """`python -m` puts the current directory first, before a line of ours could prevent it."""
    assert not ran(planted, [COMMAND], NRI_PLUGIN_NAME="v010-adapter", NRI_PLUGIN_IDX="00", NRI_PLUGIN_SOCKET="0")
    assert importlib.util.find_spec("v010_adapter.__main__") is None


BUILDS = "build", "try"
"""They are run in a clone, by those who develop it."""
OTHERS = [
    path
    for pattern in ("examples/*", "legacy-plugins/*", "hooks.d/*", "deploy/image/*", "deploy/v010-adapter")
    for path in sorted(ROOT.glob(pattern))
    if path.is_file() and path.name not in BUILDS and path.read_bytes().startswith(b"#!")
]


@pytest.mark.parametrize("program", few(OTHERS), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_sample_and_no_example_runs_them_also_if_it_lies_there(program: Path, planted: Path, tmp_path: Path) -> None:
    """`/tmp/x.py`, where everybody can put `/tmp/json.py`: a script's own directory counts, unless it says `-I`."""
    text = program.read_text().replace("#!/opt/v010-adapter/bin/python3", FIRST_LINE)
    copy = Programs(planted).write(f"a copy of {program.name}", text)
    try:
        assert not ran(planted, [str(copy), *(["-h"] if "examples" in program.parts else [])])
    finally:
        copy.unlink()


def test_programs_are_never_written_to_the_current_directory(planted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner could put others in their place. Python takes it if /tmp is full."""
    monkeypatch.chdir(planted)
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", os.getcwd())
    with Scratch("made-") as directory:
        assert Path(directory).parent == Path("/tmp")  # noqa: S108 - the subject


@GIVES_FILES
@pytest.mark.parametrize(("mode", "owner", "reason"), [(0o700, 65534, "belongs to user 65534"), (0o777, 0, "is world")])
@pytest.mark.parametrize("place", few(["theirs", "theirs/deep"], 1))
def test_programs_are_never_written_to_a_tmpdir_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, owner: int, reason: str, place: str
) -> None:
    """`su` keeps the variable: its owner could put another program in place of the one that root is about to run."""
    (tmp_path / "theirs/deep").mkdir(parents=True)
    os.chown(tmp_path / "theirs", owner, -1)
    (tmp_path / "theirs").chmod(mode)
    monkeypatch.setenv("TMPDIR", str(tmp_path / place))
    with pytest.raises(ConfigError, match=f"^TMPDIR {tmp_path / place}: {tmp_path}/theirs {reason}"):
        Scratch("made-")
    monkeypatch.delenv("TMPDIR")
    monkeypatch.setattr(trial, "DEFAULT", str(tmp_path / place))
    with pytest.raises(ConfigError, match=f"^{tmp_path / place}: {tmp_path}/theirs {reason}"):
        Scratch("made-")
    monkeypatch.setenv("TMPDIR", str(tmp_path / place))
    for line in few(["demo", "simulate -legacy /bin/true", "invoke /bin/true"], 1):
        done = subprocess.run([COMMAND, *line.split()], capture_output=True, text=True, check=False)
        assert done.returncode
        assert done.stderr.startswith(f"v010-adapter: TMPDIR {tmp_path / place}: "), done
    assert list((tmp_path / place).glob("[!d]*")) == []
