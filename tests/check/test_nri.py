"""Whether NRI is on in the runtimes, and who may join."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapter.cli.check import nri
from tests.check.node import Node

REAL = Path(__file__).parent / "configurations"
"""Default configurations that the runtimes print themselves, CRI-O's without its comments."""

TABLE = "[plugins.'io.containerd.nri.v1.nri']\n"
HINT = "; to switch it on: disable = false under [plugins.'io.containerd.nri.v1.nri']"
ON = "ok config.toml: containerd: NRI is on"
OFF = f"PROBLEM config.toml: containerd: NRI is off{HINT}"
UNKNOWN = f"note config.toml: containerd: NRI is on since containerd 2.0, off in 1.7{HINT}"
CRIO_ON = "ok crio.conf: CRI-O: NRI is on"


def told(node: Node, runtime: str) -> list[str]:
    """What is said of a runtime's configuration."""
    node.write(runtime, "")
    return [line for line in node() if f": {runtime}: " in line]


def test_containerds_switch_decides_else_its_version(node: Node) -> None:
    for text, said in (
        ("", UNKNOWN),
        ("version = 2", UNKNOWN),
        ("version = 3", ON),
        (TABLE, UNKNOWN),
        (f"{TABLE}disable = false", ON),
        (f"version = 3\n{TABLE}disable = true", OFF),
        (f"disabled_plugins = ['cri', 'io.containerd.nri.v1.nri']\n{TABLE}disable = false", OFF),
        (f"disabled_plugins = ['cri']\n{TABLE}disable = false", ON),
    ):
        node.write("config.toml", text)
        assert told(node, "containerd") == [said], text
        assert node.code == (said == OFF)
    (node.folder / "config.toml").unlink()
    assert told(node, "containerd") == [UNKNOWN]


def test_what_containerd_imports_overrides_and_adds_disabled_plugins(node: Node) -> None:
    """As containerd 2.4.2 merges files: measured with its own LoadConfig."""
    (node.folder / "more").mkdir()
    imports = "imports = ['more/*.toml']\n"
    node.write("config.toml", f"{imports}{TABLE}disable = true")
    node.write("more/a.toml", f"{TABLE}disable = false")
    assert told(node, "containerd") == [ON]
    node.write("more/b.toml", f"{TABLE}disable = true")
    assert told(node, "containerd") == [OFF]
    node.write("more/b.toml", "disabled_plugins = ['io.containerd.nri.v1.nri']")
    node.write("more/c.toml", "disabled_plugins = []")
    assert told(node, "containerd") == [OFF]


def test_a_later_table_changes_only_its_own_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nri, "CONTAINERD", "/a.toml")
    validator = "[plugins.'io.containerd.nri.v1.nri'.default_validator]\n"
    (tmp_path / "a.toml").write_text(
        f"imports = ['b.toml']\n{TABLE}plugin_path = '/a'\ndisable = true\n"
        f"{validator}enable = true\nrequired_plugins = ['a']"
    )
    (tmp_path / "b.toml").write_text(f"{TABLE}disable = false\n{validator}required_plugins = ['b']")
    assert nri.read("containerd", str(tmp_path)) == {
        "plugin_path": "/a",
        "disable": False,
        "default_validator": {"enable": True, "required_plugins": ["b"]},
    }


def test_crios_drop_ins_override_in_the_order_of_their_paths(node: Node) -> None:
    hint = "to switch it on: enable_nri = true under [crio.nri], for example in /etc/crio/crio.conf.d/10-nri.conf"
    off = f"PROBLEM crio.conf: CRI-O: NRI is off; {hint}"
    assert told(node, "CRI-O") == [f"note crio.conf: CRI-O: NRI is on since CRI-O 1.30, off before; {hint}"]
    node.write("crio.conf", "[crio.nri]\nenable_nri = false")
    assert told(node, "CRI-O") == [off]
    (node.folder / "crio.conf.d/50").mkdir(parents=True)
    node.write("crio.conf.d/50/on", "[crio.nri]\nenable_nri = true")
    assert told(node, "CRI-O") == [CRIO_ON]
    node.write("crio.conf.d/60-off", "[crio.nri]\nenable_nri = false")
    node.write("crio.conf.d/.70", "")
    assert told(node, "CRI-O") == [off]


@pytest.mark.parametrize("runtime", ["containerd", "CRI-O"])
def test_who_cannot_join_and_where_plugins_are_is_said(node: Node, runtime: str) -> None:
    keys = {
        "containerd": ("config.toml", f"{TABLE}disable = false", "disable_connections", "plugin_path"),
        "CRI-O": ("crio.conf", "[crio.nri]\nenable_nri = true", "nri_disable_connections", "nri_plugin_dir"),
    }
    file, table, connections, plugins = keys[runtime]
    node.write(file, f"{table}\n{connections} = false\n{plugins} = '{node.folder}/plugins'")
    assert told(node, runtime) == [f"ok {file}: {runtime}: NRI is on"]
    node.write(file, f"{table}\n{connections} = true\n{plugins} = '/elsewhere'")
    assert told(node, runtime)[1:] == [
        f"note {file}: {runtime}: {connections} is set: only an adapter that it has launched can join, and cannot join"
        " again",
        f"note {file}: {runtime}: it launches the plugins in /elsewhere, not in plugins",
    ]


def test_a_file_of_crio_that_cannot_be_understood_is_named(node: Node) -> None:
    node.write("CRI-O", "")
    for text in ("crio = 3", "[crio]\nnri = 3", "crio = ["):
        node.write("crio.conf", text)
        assert [line for line in node.problems() if line.startswith("crio.conf: ") and "CRI-O may not start" in line]


def test_the_runtimes_own_defaults_are_understood(node: Node) -> None:
    for runtime, file, default, said in (
        ("containerd", "config.toml", "containerd-1.7.35.toml", OFF),
        ("containerd", "config.toml", "containerd-2.4.2.toml", ON),
        ("CRI-O", "crio.conf", "cri-o-1.36.3.conf", CRIO_ON),
    ):
        node.write(file, (REAL / default).read_text().replace("/opt/nri/plugins", f"{node.folder}/plugins"))
        assert told(node, runtime) == [said]


@pytest.mark.parametrize(
    ("runtime", "default", "before", "after", "place", "right"),
    [
        ("containerd", "containerd-2.4.2.toml", "[timeouts]", "[timeouts]\nplugin_request_timeout = '9s'",
         "timeouts.plugin_request_timeout", "plugin_request_timeout in [plugins.'io.containerd.nri.v1.nri']"),
        ("containerd", "containerd-1.7.35.toml", '[plugins."io.containerd.grpc.v1.cri".cni]',
         '[plugins."io.containerd.grpc.v1.cri".nri]\nplugin_registration_timeout = "9s"',
         "plugins.'io.containerd.grpc.v1.cri'.nri.plugin_registration_timeout",
         "plugin_registration_timeout in [plugins.'io.containerd.nri.v1.nri']"),
        ("CRI-O", "cri-o-1.36.3.conf", "[crio.runtime]", '[crio.runtime]\nnri_plugin_request_timeout = "9s"',
         "crio.runtime.nri_plugin_request_timeout", "nri_plugin_request_timeout in [crio.nri]"),
        ("CRI-O", "cri-o-1.36.3.conf", "nri_plugin_request_timeout", "plugin_request_timeout",
         "crio.nri.plugin_request_timeout", "nri_plugin_request_timeout in [crio.nri]"),
    ],
)  # fmt: skip
def test_timeouts_in_the_wrong_place_are_named(
    node: Node, runtime: str, default: str, before: str, after: str, place: str, right: str
) -> None:
    file = "config.toml" if runtime == "containerd" else "crio.conf"
    text = (REAL / default).read_text()
    assert before in text
    node.write(file, text.replace(before, after))
    assert f"PROBLEM {file}: {runtime}: it ignores {place}; it reads {right}" in told(node, runtime)
    assert node.code == 1
