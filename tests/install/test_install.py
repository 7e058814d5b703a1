"""`install` and `uninstall`: both forms, repeated, undone, and what is in the way."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from adapter import settings
from adapter.cli.install import example
from tests.processes import impatience

from .conftest import LINK, PROGRAM, UNIT, WANTED, YAML, Node

FORMS = {(): {LINK}, ("-external",): {UNIT, WANTED}}
Form = tuple[str, ...]


def made(node: Node, before: object) -> set[str]:
    """The new files and links."""
    assert isinstance(before, dict)
    return {name for name in node.files() if name not in before and not (node.root / name).is_dir()}


def test_a_dry_run_shows_every_line_and_changes_nothing(node: Node, form: Form) -> None:
    before = node.files()
    assert node("install", *form, "-dry-run") == 0
    assert node.files() == before
    assert "".join(f"    {line}".rstrip() + "\n" for line in example.text().splitlines()) in node.out
    for name in {YAML, *FORMS[form]}:
        assert f"would make    /{name}\n" in node.out
    assert ("WatchdogSec=30" in node.out) == bool(form)
    assert (f"-> {PROGRAM}" in node.out) == (not form)


def test_it_is_made_once_and_undone_completely(node: Node, form: Form) -> None:
    before = node.files()
    assert node("install", *form) == 0
    after = node.files()
    assert made(node, before) == {YAML, *FORMS[form]}
    assert (node.root / YAML).read_text() == example.text()
    assert {after[name][0] & 0o777 for name in (YAML, *FORMS[form]) if not (node.root / name).is_symlink()} == {0o644}
    assert node("install", *form) == 0
    assert node.files() == after
    assert node.out.count("is there ") == len(FORMS[form]) + 1
    assert node("uninstall", "-dry-run") == 0
    assert node.files() == after
    assert node.out.count("would remove ") == len(FORMS[form]) + 1
    assert node("uninstall") == 0
    assert node.files() == before
    assert node("uninstall") == 0
    assert node.out == "nothing to remove\n"


def test_the_links_lead_to_the_program_and_to_the_unit(node: Node) -> None:
    node("install")
    assert os.readlink(node.root / LINK) == PROGRAM
    node("uninstall")
    node("install", "-external")
    assert os.readlink(node.root / WANTED) == f"/{UNIT}"
    assert f'\nExecStart="{PROGRAM}" run -idx 00 -name v010-adapter\n' in (node.root / UNIT).read_text()


def test_directories_that_others_use_stay(node: Node) -> None:
    others = [
        node.write(f"{directory}/others", "") for directory in ("opt/nri/plugins", "etc/nri", Path(WANTED).parent)
    ]
    before = node.files()
    node("install")
    node("uninstall")
    node("install", "-external")
    node("uninstall")
    assert node.files() == before
    assert all(path.exists() for path in others)


def test_a_configuration_with_a_key_is_the_administrators(node: Node) -> None:
    node("install")
    edited = example.text().replace("#trust: strict", "trust: off")
    node.write(YAML, edited)
    node("install")
    assert f"kept          /{YAML}\n" in node.out
    node("uninstall")
    assert f"kept          /{YAML}: not as `install` has made it\n" in node.out
    assert (node.root / YAML).read_text() == edited


def test_what_another_version_has_made_is_replaced(node: Node) -> None:
    node("install", "-external")
    unit, config = (node.root / UNIT).read_text(), example.text()
    node.write(UNIT, unit.replace("WatchdogSec=30\n", ""))
    node.write(YAML, config.replace("#trust", "#confidence"))
    assert node("install", "-external") == 0
    assert ((node.root / UNIT).read_text(), (node.root / YAML).read_text()) == (unit, config)


def test_a_link_to_another_adapter_or_to_none_is_replaced_and_removed(node: Node) -> None:
    link = node.link(LINK, "/opt/old/bin/v010-adapter")
    assert node("install") == 0
    assert not node.err
    assert os.readlink(link) == PROGRAM
    link.unlink()
    node.link(LINK, "/opt/old/bin/v010-adapter")
    node("uninstall")
    assert not os.path.lexists(link)


@pytest.mark.parametrize(
    ("name", "form"), [(LINK, ()), (UNIT, ("-external",)), (WANTED, ("-external",))], ids=["link", "unit", "wanted"]
)
@pytest.mark.parametrize("kind", ["file", "link"])
def test_what_somebody_else_has_made_is_in_the_way_and_stays(node: Node, name: str, form: Form, kind: str) -> None:
    if kind == "file":
        node.write(name, "mine")
    else:
        node.link(name, str(node.write("mine", "mine")))
    before = node.files()
    assert node("install", *form) == 1
    assert node.err == f"v010-adapter: /{name} is there, and not from an installation of the adapter\n"
    assert node("uninstall") == 0
    assert node.files() == before


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/nowhere", path)])
def test_a_configuration_that_is_no_file_stays_and_is_not_waited_for(
    node: Node, make: Callable[[Path], object]
) -> None:
    path = node.root / YAML
    path.parent.mkdir(parents=True)
    make(path)
    before = path.lstat()
    with impatience("install does not end"):
        node("install")
    assert f"kept          /{YAML}" in node.out
    assert path.lstat().st_ino == before.st_ino


def test_one_form_is_in_the_way_of_the_other(node: Node, form: Form) -> None:
    other = ("-external",) if not form else ()
    node("install", *other)
    before = node.files()
    assert node("install", *form) == 1
    assert node.err.count("the adapter would run twice; run `v010-adapter uninstall` first") == len(FORMS[other])
    assert node.files() == before


def test_without_the_program_nothing_is_installed(node: Node, form: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/nowhere/bin/v010-adapter"])
    before = node.files()
    assert node("install", *form) == 1
    missing = f"{node.root}/nowhere/bin/v010-adapter is not there"
    assert node.err == f"v010-adapter: {missing}: install the command below {node.root} first\n"
    assert node.files() == before


def test_it_must_be_the_installed_command(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["adapter/__main__.py"])
    assert node("install") == 2
    assert "run the installed command, by its path: .../bin/v010-adapter" in node.err


def test_a_file_system_that_refuses_is_named(node: Node) -> None:
    node.write("etc/nri", "no directory")
    assert node("install") == 1
    assert node.err == f"v010-adapter: {node.root}/{YAML}: Not a directory\n"


def test_what_could_not_be_made_is_not_told_as_made(node: Node) -> None:
    (node.root / f"{YAML}.new").mkdir(parents=True)
    assert node("install") == 1
    assert (node.out, node.err) == ("", f"v010-adapter: {node.root}/{YAML}.new: Is a directory\n")


# ---- what is told


TWICE = "legacy plugins or hooks run twice, with it and with this adapter"
WARNINGS = {
    ("20-other", "/nowhere/other"): "a link that leads nowhere: no runtime starts",
    ("other", "/bin/sh"): "an executable whose name is not NN-NAME: no runtime starts",
    ("90-hook-injector", PROGRAM): TWICE,
}


def test_it_warns_of_what_is_wrong_in_the_plugin_directory(node: Node) -> None:
    for (name, target), said in WARNINGS.items():
        link = node.link(f"opt/nri/plugins/{name}", target)
        assert node("install") == 0
        assert node.err.startswith("v010-adapter: warning: ")
        assert node.err.endswith(f"/{name}: {said}\n")
        assert node.err.count("\n") == 1
        link.unlink()


def test_it_warns_of_a_program_that_others_can_replace(node: Node) -> None:
    (node.root / "opt/v010-adapter/bin").chmod(0o777)
    node("install")
    assert node.err == (
        f"v010-adapter: warning: {node.root}/opt/v010-adapter/bin is world-writable: its writers would be root\n"
    )


def test_it_warns_of_a_program_that_a_reboot_deletes(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    program = node.write("tmp/bin/v010-adapter", "")
    monkeypatch.setattr("sys.argv", [str(program)])
    node("install")
    assert "warning: /tmp/bin/v010-adapter may be gone after a reboot" in node.err
    assert "Before you delete the program, run `v010-adapter uninstall`" in node.out


def test_it_tells_whether_nri_is_on_and_how_to_start_the_adapter(node: Node) -> None:
    node.write("etc/containerd/config.toml", "version = 3\nimports = ['conf.d/*.toml']\n")
    node("install")
    assert "ok            /etc/containerd/config.toml: containerd: NRI is on\n" in node.out
    assert (
        "To start it:\n    systemctl restart containerd\n    v010-adapter check\n    v010-adapter status\n" in node.out
    )
    node("uninstall")
    assert "To end the adapter that runs:\n    systemctl restart containerd\n" in node.out
    node.write("etc/containerd/conf.d/nri.toml", "[plugins.'io.containerd.nri.v1.nri']\ndisable = true\n")
    node("install", "-external")
    assert (
        "problem       /etc/containerd/config.toml: containerd: NRI is off; to switch it on: disable = false"
        in node.out
    )
    assert "To start it:\n    systemctl daemon-reload\n    systemctl restart v010-adapter\n" in node.out
    node("uninstall")
    assert "systemctl stop v010-adapter\n    systemctl daemon-reload\n" in node.out


# ---- a list of our own


def commands(node: Node) -> str:
    """The commands that migrate, as a script for the files of this node."""
    told = node.out.partition("To leave all of them to the adapter:\n")[2]
    return told.replace("/etc/nri/", f"{node.root}/etc/nri/")


@pytest.mark.parametrize("text", [None, "log: {level: debug}\n", "# only a remark\n"], ids=["new", "keys", "remarks"])
def test_the_commands_give_the_adapter_a_list_of_its_own(node: Node, form: Form, text: str | None) -> None:
    list_ = node.write("etc/nri/conf.json", '{"plugins": [{"type": "konfine"}]}')
    if text is not None:
        node.write(YAML, text)
    node("install", *form)
    bin_ = node.write(
        "bin/systemctl", f"#!/bin/sh\nls {node.root}/etc/nri >>{node.root}/log; echo $* >>{node.root}/log\n"
    )
    bin_.chmod(0o755)
    subprocess.run(["sh", "-e", "-c", commands(node)], check=True, env={"PATH": f"{bin_.parent}:{os.defpath}"})
    own, errors = settings.read(str(node.root / YAML))
    assert (errors, own.legacy.config) == ([], f"{node.root}/etc/nri/v010-adapter.json")
    assert '"konfine"' in Path(own.legacy.config).read_text()
    assert not list_.exists()
    services = "containerd v010-adapter" if form else "containerd"
    log = (node.root / "log").read_text().split("\n")
    assert log.index(f"stop {services}") > log.index("conf.json")
    assert log.index(f"start {services}") > log.index("v010-adapter.json")
    node.write("etc/nri/conf.json", "{}")
    node.write(YAML, "legacy: {config: /etc/nri/v010-adapter.json}")
    node("install", *form)
    assert "/etc/nri/conf.json" not in node.out


def test_in_a_configuration_with_a_section_of_legacy_plugins_the_key_is_the_administrators(node: Node) -> None:
    node.write("etc/nri/conf.json", "{}")
    node.write(YAML, "legacy:\n  timeout: 1\n")
    node("install")
    assert (
        "# in /etc/nri/v010-adapter.yaml, in the section `legacy`: write `config: /etc/nri/v010-adapter.json`"
        in node.out
    )
    assert "echo" not in node.out


def test_without_a_list_or_without_containerd_nothing_is_to_be_migrated(node: Node) -> None:
    node("install")
    assert "conf.json for pods" not in node.out
    node.write("etc/nri/conf.json", "{}")
    (node.root / "run/containerd/containerd.sock").rename(node.root / "run/containerd/other")
    node.write("run/crio/crio.sock", "")
    node("install")
    assert "conf.json for pods" not in node.out
