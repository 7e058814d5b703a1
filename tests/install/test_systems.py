"""On a node of each system: `check`, `install` and the image's `switch-nri-on` find the runtime, and switch NRI on."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.rig.brief import few
from tests.rig.command import Command
from tests.rig.daemon import COMMAND
from tests.rig.layouts import ETC, K3S, LAYOUTS, NRI, Layout
from tests.rig.programs import Programs
from tests.rig.sockets import bind, listening
from v010_adapter.cli import command_line as cli
from v010_adapter.cli import systems

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "deploy/image/switch-nri-on"
PLUGIN = "io.containerd.nri.v1.nri"
SETTINGS = {"crio": {"crio": {"nri": {"enable_nri": True}}}}
CONTAINERDS = {"plugins": {PLUGIN: {"disable": False}}}


class System(Command):
    """A node's root directory, and a chroot that writes down what it is asked to run."""

    def __init__(self, root: Path, layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
        super().__init__(layout.make(root / "node"), capsys)
        self.layout = layout
        self.ran = root / "ran"
        chroot = Programs(root / "bin").shell("chroot", f'echo $SYSTEMD_OFFLINE "$@" >> {self.ran}')
        self._path = f"{chroot.parent}:{os.defpath}"

    def __call__(self, *words: str) -> tuple[int, str]:
        code = self.run(*words, "-root", self.folder)
        return code, self.out + self.err

    def switch(self, *words: str) -> tuple[int, str]:
        """Runs the image's script; returns its exit code and what it says."""
        done = subprocess.run(
            [sys.executable, SCRIPT, *words], capture_output=True, text=True, env={"PATH": self._path}, check=False
        )
        return done.returncode, done.stdout + done.stderr

    def on(self, name: str = "auto") -> tuple[int, str]:
        return self.switch(str(self.folder), str(self.folder / "nri.sock"), name)

    def off(self) -> tuple[int, str]:
        return self.switch("-undo", str(self.folder), "auto")

    @property
    def restarted(self) -> list[str]:
        """The units that were restarted, by the systemctl of the node."""
        lines = self.ran.read_text().splitlines() if self.ran.exists() else []
        self.ran.unlink(missing_ok=True)
        return [line.removeprefix(f"0 {self.folder} systemctl restart ") for line in lines]

    def files(self) -> dict[str, str]:
        return {
            str(path.relative_to(self.folder)): path.read_text() for path in self.folder.rglob("*") if path.is_file()
        }


def id_of(layout: Layout) -> str:
    return f"{layout.name}-{layout.unit or layout.by_hand[:9]}"


@pytest.fixture(params=few(LAYOUTS, 6), ids=id_of)
def node(request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> System:
    return System(tmp_path, request.param, capsys)


@pytest.fixture
def k3s(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> System:
    return System(tmp_path, next(layout for layout in LAYOUTS if layout.name == "k3s"), capsys)


@pytest.fixture
def containerd(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> System:
    """One whose configuration is edited."""
    return System(tmp_path, LAYOUTS[0], capsys)


def test_check_finds_the_runtime_and_says_where_nri_is_switched_on(node: System) -> None:
    code, said = node("check")
    lines = [line for line in said.splitlines() if f" {node.layout.shown}: " in line]
    assert code == 1
    assert len(lines) == 1, lines
    assert node.layout.drop_in in lines[0]
    assert node.layout.by_hand in lines[0]
    assert {name for name in systems.NAMES if systems.NAMES[name].name == node.layout.shown} == {node.layout.name}


@pytest.mark.parametrize("node", few(LAYOUTS), indirect=True, ids=id_of)
def test_the_images_script_switches_nri_on_and_undoes_it(node: System) -> None:
    layout, before = node.layout, node.files()
    code, said = node.on()
    if layout.by_hand:
        assert (code, node.files(), node.restarted) == (1, before, [])
        assert layout.by_hand in said
        assert len(said.splitlines()) == 1
        assert node.off() == (0, "")
        return
    assert (code, node.restarted) == (0, [layout.unit]), said
    written = {name for name, text in node.files().items() if before.get(name) != text}
    changed = f"{layout.drop_in or layout.edited}"[1:]
    assert written - {f"{changed}.before-v010-adapter"} == {changed}
    if layout.drop_in:
        assert tomllib.loads(node.files()[changed]) == SETTINGS.get(layout.name, CONTAINERDS)
    assert f"{layout.shown}: NRI is on" in node("check")[1]
    assert node.on(layout.name)[1].startswith("NRI is on in ")
    assert node.restarted == []
    assert node.off() == (0, f"{layout.shown}: NRI is as it was before\n{layout.unit} restarts\n")
    assert (node.files(), node.restarted) == (before, [layout.unit])
    Programs(node.ran.parent / "bin").shell("chroot", "exit 1")
    code, said = node.on()
    assert (code, said.endswith(f"\n{layout.unit}: it does not restart\n")) == (1, True)


def test_install_writes_the_drop_in_and_uninstall_removes_it(node: System, monkeypatch: pytest.MonkeyPatch) -> None:
    program = node.folder / "opt/v010-adapter/bin/v010-adapter"
    program.parent.mkdir(parents=True)
    shutil.copy(COMMAND, program)
    monkeypatch.setattr("sys.argv", [str(program)])
    layout, before = node.layout, node.files()
    code, planned = node("install", "-dry-run")
    assert node.files() == before
    assert (f"would make    {layout.drop_in}\n" in planned) is bool(layout.drop_in)
    assert code == (not layout.drop_in)
    assert layout.by_hand in planned
    assert not layout.unit or f"systemctl restart {layout.unit}\n" in planned
    code, said = node("install", "-external")
    assert (f"{layout.shown}: NRI is on" in said) is bool(layout.drop_in)
    unit = node.files()["etc/systemd/system/v010-adapter.service"]
    order = [line for line in unit.splitlines() if line.startswith(("After=", "Before="))]
    assert f"{layout.unit}.service" in "".join(order) or not layout.unit
    assert "{" not in "".join(order)
    assert "systemctl restart" not in node("install", "-external")[1].replace("restart v010-adapter", "")
    assert code == (not layout.drop_in)
    node("uninstall")
    assert node.files() == before


def test_a_runtime_without_its_configuration_is_named(k3s: System) -> None:
    (k3s.folder / K3S[1:] / "config.toml").unlink()
    code, said = k3s("check")
    assert f"{K3S}/config.toml: K3s: there is no such file; NRI is on since containerd 2.0" in said
    assert code == 0


def test_without_a_runtime_and_without_an_nri_socket_check_fails_and_says_where_it_looked(tmp_path: Path) -> None:
    assert cli.main(["check", "-root", str(tmp_path)]) == 1
    (tmp_path / "run/nri").mkdir(parents=True)
    (tmp_path / "var").mkdir()
    (tmp_path / "var/run").symlink_to("/run")
    with socket.socket(socket.AF_UNIX) as served:
        bind(served, tmp_path / "run/nri/nri.sock")
        assert cli.main(["check", "-root", str(tmp_path)]) == 0


def test_the_script_fails_without_a_runtime_and_for_a_system_that_nobody_knows(k3s: System) -> None:
    empty = str(k3s.ran.parent)
    code, said = k3s.switch(empty, f"{empty}/nri.sock", "auto")
    assert (code, said.startswith("no runtime found: /run/k3s/containerd/containerd.sock, ")) == (1, True)
    code, said = k3s.on("k4s")
    assert (code, said[:21]) == (1, "k4s: unknown system; ")


OFF = f'version = 2\n[plugins."{PLUGIN}"]\n  disable = true\n  socket_path = "/s"\n[debug]\n  level = "info"\n'
INDENTED = f"""\
version = 2
[plugins]
  [plugins."{PLUGIN}"]
    socket_path = "/run/nri.sock"
    disable = true
  [plugins."io.containerd.other.v1.other"]
    disable = true
"""
TEXTS = {
    "off": OFF,
    "no key": OFF.replace("  disable = true\n", ""),
    "other quotes": OFF.replace('"', "'"),
    "indented": INDENTED,
    "no table": "version = 2\n",
    "no last newline": f'version = 2\n[plugins."{PLUGIN}"]\n  disable = true',
    "no file": None,
    "1.7.35": (ROOT / "tests/check/configurations/containerd-1.7.35.toml").read_text(),
}


@pytest.mark.parametrize("name", few(list(TEXTS), 3))
def test_an_edit_changes_one_key_however_the_file_is_written(containerd: System, name: str) -> None:
    text = TEXTS[name]
    config = containerd.folder / ETC[1:]
    config.unlink() if text is None else config.write_text(text)
    assert containerd.on() == (0, f"NRI is switched on in {ETC}\ncontainerd restarts\n")
    before, after = tomllib.loads(text or "version = 2"), tomllib.loads(config.read_text())
    before.setdefault("plugins", {}).setdefault(PLUGIN, {})["disable"] = False
    assert after == before
    assert containerd.restarted == ["containerd"]
    assert containerd.off()[0] == 0
    assert (config.read_text() if config.exists() else None) == text
    assert not list(config.parent.glob("*.before-*"))


def test_where_nri_is_served_nothing_is_done_and_a_socket_that_was_left_is_not_served(containerd: System) -> None:
    before = containerd.files()
    with listening(containerd.folder / "nri.sock"):
        assert containerd.on() == (0, "NRI is on\n")
    assert (containerd.files(), containerd.restarted) == (before, [])
    assert containerd.on()[0] == 0  # the runtime was killed
    assert containerd.restarted


def test_what_says_that_nri_is_on_or_cannot_be_patched_stays_as_it_is(containerd: System) -> None:
    on = OFF.replace("true", "false")
    config = containerd.write(ETC[1:], on)
    assert containerd.on() == (0, f"NRI is on in {ETC}\n")
    assert config.read_text() == on
    for text, reason in (
        ("[plugins.cri]\n", "its configuration has version 1, and NRI cannot be switched on there\n"),
        ("version = [\n", f"{ETC}:"),
        (f"version = 3\ndisabled_plugins = ['{PLUGIN}']\n", f"disabled_plugins in {ETC} switches NRI off\n"),
        (
            OFF.replace("disable = true", "disable = false\n  disable_connections = true"),
            "disable_connections keeps the adapter from joining\n",
        ),
        (f"version = 3\n[plugins]\n  '{PLUGIN}'.disable = true\n", "Cannot declare "),
    ):
        config.write_text(text)
        code, said = containerd.on()
        assert (code, config.read_text()) == (1, text)
        assert said.startswith(f"containerd: {reason}")
    assert containerd.restarted == []


def test_an_edited_configuration_that_was_changed_since_is_kept(containerd: System) -> None:
    assert containerd.on()[0] == 0
    config = containerd.folder / ETC[1:]
    config.write_text(f"{config.read_text()}# mine\n")
    code, said = containerd.off()
    assert (code, config.read_text()[-7:]) == (1, "# mine\n")
    kept = f"{config}.before-v010-adapter is how it was before NRI was switched on"
    assert said == f"containerd: {config} was changed since; {kept}\n"


def test_a_drop_in_of_somebody_else_is_neither_overruled_nor_removed(k3s: System) -> None:
    own = k3s.folder / f"{K3S[1:]}/config-v3.toml.d/off.toml"
    own.parent.mkdir()
    own.write_text(f"{NRI}  disable = true\n")
    code, said = k3s.on()
    assert (code, said) == (1, f"K3s: disable in {K3S}/config-v3.toml.d/off.toml switches NRI off\n")
    assert k3s.off() == (0, "")
    assert own.exists()


def test_a_configuration_that_cannot_be_understood_is_named(k3s: System) -> None:
    (k3s.folder / K3S[1:] / "config.toml").write_text(f"version = '3'\n{NRI}  disable = true\n  plugin_path = '/x'\n")
    assert k3s("check")[1].count(": a value has the wrong type: K3s may not start") == 1
    assert k3s.off()[1] == f"K3s: {K3S}/config.toml: a value has the wrong type\n"


def test_what_a_removed_k3s_leaves_is_not_taken_for_the_rke2_that_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = System(tmp_path, next(layout for layout in LAYOUTS if layout.name == "rke2"), capsys)
    (node.folder / "var/lib/rancher/k3s/agent").mkdir(parents=True)
    assert "K3s" not in node("check")[1]
    assert (node.on()[0], node.restarted) == (0, [node.layout.unit])


def test_an_os_release_that_is_no_file_names_no_system(k3s: System) -> None:
    (k3s.folder / "etc").mkdir(exist_ok=True)
    os.mkfifo(k3s.folder / "etc/os-release")
    assert " K3s: " in k3s("check")[1]


def test_a_dry_run_ends_as_the_run_where_a_drop_in_helps_only_one_of_two_runtimes(
    k3s: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    LAYOUTS[0].make(k3s.folder)
    program = k3s.folder / "v010-adapter"
    shutil.copy(COMMAND, program)
    monkeypatch.setattr("sys.argv", [str(program)])
    assert [k3s("install", "-dry-run")[0], k3s("install")[0]] == [1, 1]


def test_status_names_the_log_of_the_nodes_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (config := tmp_path / "own.yaml").touch()
    for name, log in (
        ("rke2", "/var/lib/rancher/rke2/agent/containerd/containerd.log"),
        ("crio", "journalctl -u crio"),
    ):
        monkeypatch.setattr(systems, "present", lambda _, name=name: [systems.NAMES[name]])
        assert cli.main(["status", "-directory", str(tmp_path)]) == 3
        first, *more = capsys.readouterr().err.splitlines()
        assert cli.main(["status", "-config", str(config), "-name", name]) == 3
        assert f" with the state directory /run/nri-{name}. " in capsys.readouterr().err
        assert first == f"no adapter runs with the state directory {tmp_path}. Where to look:"
        assert more == [
            "  the link in /opt/nri/plugins, or the service that starts the adapter",
            "  the adapter's log, in syslog or the journal:  journalctl -t v010-adapter",
            f"  the runtime's log: does it list the plugin?  {log}",
            "  v010-adapter check",
        ]
