"""What `install` tells: warnings, whether NRI is on, what comes next; and every key of the configuration file."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from v010_adapter import settings
from v010_adapter.cli.install import example
from v010_adapter.settings import Settings, parse

from .conftest import YAML, Installed


def test_it_warns_of_a_program_that_others_or_a_reboot_can_remove(
    node: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = node.folder / "opt/v010-adapter/bin"
    directory.chmod(0o777)
    node("install")
    assert node.err == f"v010-adapter: warning: {directory} is world-writable: whoever can write it becomes root\n"
    monkeypatch.setattr("sys.argv", [str(node.write("tmp/bin/v010-adapter", ""))])
    node("install")
    interpreter = node.write("tmp/bin/python3", "")
    interpreter.chmod(0o777)
    node("install")
    assert f"warning: {interpreter} is world-writable: whoever can write it becomes root" in node.err
    node.link("opt/nri/plugins/other", "/bin/sh")
    node("install")
    assert "/opt/nri/plugins/other: an executable whose name is not NN-NAME: no runtime starts" in node.err
    assert "warning: /tmp/bin/v010-adapter may be gone after a reboot: the runtime then starts without it" in node.err
    kept = "Before you delete the program, run `v010-adapter uninstall`: a runtime starts without a plugin whose"
    assert f"\n\n{kept}" in node.out


@pytest.mark.parametrize(("version", "is_made"), [(2, False), (3, True)])
def test_a_drop_in_is_made_beside_other_keys_of_nri_where_it_does_not_replace_them(
    node: Installed, version: int, is_made: bool
) -> None:
    """containerd 1.7 takes the whole table of the drop-in."""
    table = "[plugins.'io.containerd.nri.v1.nri']\ndisable = true\nsocket_path = '/s'\n"
    node.write("etc/containerd/config.toml", f"version = {version}\nimports = ['conf.d/*.toml']\n{table}")
    assert node("install", "-external") == (not is_made)
    assert ("made          /etc/containerd/conf.d/99-nri.toml\n" in node.out) is is_made


def test_it_tells_whether_nri_is_on_and_how_to_start_and_to_end_the_adapter(node: Installed) -> None:
    config = node.write("etc/containerd/config.toml", "version = 3\nimports = ['conf.d/*.toml']\n")
    node("install")
    assert "ok            /etc/containerd/config.toml: containerd: NRI is on\n" in node.out
    start = "systemctl restart containerd\n    v010-adapter check\n    v010-adapter status\n"
    assert f"To start it:\n    {start}" in node.out
    node("uninstall")
    assert "To end the running adapter:\n    systemctl restart containerd\n" in node.out
    node.write("etc/containerd/conf.d/nri.toml", "[plugins.'io.containerd.nri.v1.nri']\ndisable = true\n")
    assert node("install", "-external") == 1, "an administrator's drop-in has switched NRI off"
    off = "/etc/containerd/config.toml: containerd: disable in /etc/containerd/conf.d/nri.toml switches NRI off"
    assert f"problem       {off}\n" in node.out
    reason = "disable in /etc/containerd/conf.d/nri.toml switches NRI off; then restart it"
    first = f"To start it:\n    # switch NRI on in containerd: {reason}\n"
    assert f"{first}    systemctl daemon-reload\n    systemctl restart v010-adapter\n" in node.out
    assert node("install", "-external", "-o", "json") == 1
    assert node.told()["nri"] == [{"status": "problem", "text": off}]
    assert (node.told()["problems"], node.told()["next"][-1]) == ([], "v010-adapter status")
    node("uninstall")
    assert "systemctl stop v010-adapter\n    systemctl daemon-reload\n" in node.out
    for path in (node.socket, config):
        path.unlink()
    shutil.rmtree(config.parent)
    node.results()
    either = "systemctl restart containerd    # or the unit that starts your runtime"
    assert node.told()["next"][0] == either
    node("uninstall")
    assert node.out.endswith(f"\n    {either}\n")


# ---- a list of our own


@pytest.mark.parametrize("text", [None, "log: {level: debug}\n", "# only a remark\n"], ids=["new", "keys", "remarks"])
def test_the_commands_give_the_adapter_a_list_of_its_own(
    node: Installed, form: tuple[str, ...], text: str | None
) -> None:
    list_ = node.write("etc/nri/conf.json", '{"plugins": [{"type": "konfine"}]}')
    if text is not None:
        node.write(YAML, text)
    node("install", *form)
    script = f"#!/bin/sh\nls {node.folder}/etc/nri >>{node.folder}/log; echo $* >>{node.folder}/log\n"
    systemctl = node.write("bin/systemctl", script)
    systemctl.chmod(0o755)
    told = node.out.partition("To have the adapter run them instead:\n")[2]
    assert told.startswith("    # First end the pods (kubectl drain): nobody would run their deletes")
    commands = told.replace("/etc/nri/", f"{node.folder}/etc/nri/")
    subprocess.run(["sh", "-e", "-c", commands], check=True, env={"PATH": f"{systemctl.parent}:{os.defpath}"})
    own, errors = settings.read(str(node.folder / YAML))
    assert (errors, own.legacy.config) == ([], f"{node.folder}/etc/nri/v010-adapter.json")
    assert '"konfine"' in Path(own.legacy.config).read_text()
    assert not list_.exists()
    services = "containerd v010-adapter" if form else "containerd"
    log = (node.folder / "log").read_text().split("\n")
    assert log.index(f"stop {services}") > log.index("conf.json")
    assert log.index(f"start {services}") > log.index("v010-adapter.json")


def test_only_a_list_that_containerd_reads_too_is_to_be_moved(node: Installed) -> None:
    def commands() -> str:
        node("install")
        return node.out.partition("To have the adapter run them instead:\n")[2]

    assert not commands()
    node.write("etc/nri/conf.json", "{}")
    node.write(YAML, "legacy: {config: /etc/nri/v010-adapter.json}")
    assert not commands()
    node.write(YAML, "legacy:\n  timeout: 1\n")
    puts = "# put the plugins of /etc/nri/conf.json into /etc/nri/v010-adapter.json, which exists"
    assert f"\n    {puts}; then: rm /etc/nri/conf.json\n" in commands()
    assert "mv " not in commands(), "a list of the adapter's own is there, too"
    (node.folder / "etc/nri/v010-adapter.json").unlink()
    assert "\n    mv /etc/nri/conf.json /etc/nri/v010-adapter.json\n" in commands()
    assert "stays the list: otherwise, pods that run would miss their deletes" in node.out
    key = "in the section `legacy`: write `config: /etc/nri/v010-adapter.json`"
    assert f"# in /etc/nri/v010-adapter.yaml, {key}" in node.out, "the section is the administrator's"
    assert "echo" not in node.out
    node.socket.unlink()
    node.write("run/crio/crio.sock", "")
    assert not commands()


# ---- the configuration file: every key, commented out, with its default


LINES = example.text().removeprefix(example.HEADER).strip().splitlines()


def keys(schema: Mapping[str, Any]) -> Iterator[str]:
    for name, key in schema.items():
        if name != "*":
            yield name
            yield from keys(key) if isinstance(key, dict) else ()


def test_as_it_is_written_it_sets_nothing_and_without_the_marks_every_key_to_its_default() -> None:
    assert parse(example.text(), "") == (Settings(), [])
    assert [f"#{line}" for line in example.reference().splitlines()] == LINES
    default = Settings(state_directory=settings.state_directory(Settings(), "v010-adapter"))
    assert parse(example.reference(), "") == (default, [])


def test_only_the_keys_of_the_log_do_without_a_restart() -> None:
    log = LINES.index("#log:")
    assert {line.endswith(" (restart)") for line in LINES[:log] if " # " in line} == {True}
    assert not any("(restart)" in line for line in LINES[log:])


def test_it_has_every_key_and_an_explanation_of_each() -> None:
    assert [line.split(":")[0].strip("# ") for line in LINES] == list(keys(settings.SCHEMA))
    assert all(line.endswith(":") or len(line.partition(" # ")[2]) > 3 for line in LINES)
    assert max(map(len, LINES)) < 126
