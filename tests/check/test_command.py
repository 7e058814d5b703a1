"""The report as a whole, the adapter's own configuration, and the runtimes' plugin directory."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from adapter.cli import command_line as cli
from adapter.cli.check import command, configuration, nri, report, runtimes
from tests.check.node import HOOK, Node


def test_a_node_in_order_has_a_line_for_everything_and_no_problems(node: Node) -> None:
    node.write(
        "conf.json", {"version": "0.1", "plugins": [{"type": "konfine", "conf": 1}, {"type": "konfine", "conf": {}}]}
    )
    node.program("konfine")
    node.write("one/a.json", HOOK)
    node.write("two/b.json", HOOK | {"stages": ["createContainer", "poststop"]})
    (node.folder / "plugins/00-v010-adapter").symlink_to(node.program("v010-adapter"))
    node.write("nri.sock", "")
    node.write("containerd", "")
    assert node() == [
        "configuration",
        "ok own.yaml: in order",
        "ok plugins: the adapter is launched as 00-v010-adapter",
        "legacy plugins",
        "ok conf.json: 2 plugins",
        "ok konfine: runs bin/konfine",
        "hooks",
        "ok one: 1 file, 1 hook in force",
        "ok one/a.json: createRuntime: /bin/true",
        "ok two: 1 file, 1 hook in force",
        "ok two/b.json: createContainer, poststop: /bin/true",
        "runtime",
        "ok nri.sock: a runtime serves NRI here",
        "ok config.toml: containerd: NRI is on",
        "ok config.toml: containerd >= 2.2 creates no container while the adapter is missing",
        "no problems",
    ]
    assert (node.code, node.err) == (0, "")


def test_the_socket_is_where_the_adapter_connects_to_it(node: Node) -> None:
    """In a container it is a mount of its own, not below hostRoot."""
    node.settings["hostRoot"] = str(node.folder / "host")
    node.write("nri.sock", "")
    assert "ok nri.sock: a runtime serves NRI here" in node()


def test_nothing_configured_is_no_problem(node: Node) -> None:
    for name in ("one", "two", "plugins"):
        (node.folder / name).rmdir()
    assert node()[1:-1] == [
        "ok own.yaml: in order",
        "note plugins: the adapter is not in there: runtimes do not launch it by themselves",
        "legacy plugins",
        "ok conf.json: not there: no legacy plugins",
        "hooks",
        "ok one: not there: no hooks",
        "ok two: not there: no hooks",
        "runtime",
        "note nri.sock: not there: no runtime serves NRI here",
        "ok config.toml: containerd: NRI is on",
        "note crio.conf: CRI-O: NRI is on since CRI-O 1.30, off before; to switch it on: enable_nri = true under"
        " [crio.nri], for example in /etc/crio/crio.conf.d/10-nri.conf",
    ]
    assert node.code == 0


def test_a_service_of_systemd_starts_the_adapter_too(node: Node) -> None:
    node.write("unit", "[Service]\n")
    assert node()[2] == "ok unit: systemd starts the adapter"
    (node.folder / "plugins/00-v010-adapter").symlink_to(node.program("v010-adapter"))
    assert node()[2] == "ok plugins: the adapter is launched as 00-v010-adapter"


def test_json_has_every_line_with_its_place(node: Node) -> None:
    node.write("one/a.json", '{"version": "1.0.0",\n "hook": {"path": 5},\n "stages": []}')
    node()
    assert node.code == 1
    node("-o", "json", "-config", str(node.folder / "own.yaml"))
    told = json.loads(node.out)
    assert set(told) == {"checks", "problems"}
    problems = [check for check in told["checks"] if check["status"] == "problem"]
    assert problems[0] == {
        "part": "hooks",
        "status": "problem",
        "message": "not used: hook.path: must be a string, not 5",
        "file": str(node.folder / "one/a.json"),
        "line": 2,
        "column": 19,
    }
    assert told["problems"] == len(problems)
    assert node.code == 1
    assert {"part": "configuration", "status": "ok", "message": "in order", "file": str(node.folder / "own.yaml")} in (
        told["checks"]
    )


def test_every_error_of_the_configuration_is_shown_and_the_rest_of_it_counts(node: Node) -> None:
    text = f"legacy:\n  paht: [/x]\n  config: {node.folder}/conf.json\nlog: {{level: loud}}\n"
    file = node.write("bad.yaml", text)
    lines = node("-config", str(file))
    assert lines[1].startswith("PROBLEM bad.yaml:2: legacy.paht: unknown key")
    assert lines[2] == "PROBLEM bad.yaml:4: log.level: must be one of debug, info, warning, error"
    assert "ok conf.json: not there: no legacy plugins" in lines
    assert node.code == 1


@pytest.mark.parametrize("legacy", ["{config: conf.json, plugins: {x: {timeout: 1}}}", "5"])
def test_where_the_list_is_unknown_the_default_one_is_not_checked_in_its_place(node: Node, legacy: str) -> None:
    lines = node("-config", str(node.write("bad.yaml", f"legacy: {legacy}\n")))
    assert lines[1].startswith("PROBLEM bad.yaml:1: legacy")
    start = lines.index("legacy plugins")
    assert lines[start : start + 3] == ["legacy plugins", "note not checked: legacy.config has an error", "hooks"]
    assert "/etc/nri/conf.json" not in node.out


def test_a_configuration_that_is_no_yaml_is_named_with_its_line(node: Node) -> None:
    lines = node("-config", str(node.write("bad.yaml", "a: b\n c: [")))
    assert lines[1].startswith("PROBLEM bad.yaml:2: ")


def test_a_named_configuration_that_cannot_be_read_ends_with_2(node: Node) -> None:
    assert node("-config", str(node.folder / "none.yaml")) == []
    assert (node.code, node.err) == (2, f"v010-adapter: {node.folder}/none.yaml: No such file or directory\n")


@pytest.mark.parametrize("words", [["x"], ["-o", "xml"], ["-config"], ["-unknown"]])
def test_wrong_usage_ends_with_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(words)
    assert ended.value.code == 2
    assert "usage: v010-adapter check" in capsys.readouterr().err


def test_unnamed_the_file_that_the_runtime_passes_comes_first_and_then_the_default_one(node: Node) -> None:
    def said() -> str:
        return node("-o", "text")[1]

    assert said() == "ok default.yaml: not there: the defaults hold"
    node.write("default.yaml", "x: 1")
    (node.folder / "plugins/10-v010-adapter").symlink_to(node.program("v010-adapter"))
    for drop_in in ("v010-adapter.conf", "10-v010-adapter.conf"):
        node.write(f"conf.d/{drop_in}", "y: 1")
        assert said().startswith(f"PROBLEM conf.d/{drop_in}:1: y: unknown key")
    shutil.rmtree(node.folder / "plugins")
    assert said().startswith("PROBLEM default.yaml:1: x: unknown key")
    (node.folder / "default.yaml").unlink()
    (node.folder / "default.yaml").mkdir()
    assert said() == "PROBLEM default.yaml: not a regular file"


def test_what_runtimes_stumble_over_in_their_plugin_directory_is_named(node: Node) -> None:
    node.program("good")
    plugins = node.folder / "plugins"
    (plugins / "00-gone").symlink_to("nowhere")
    (plugins / "00-fine").symlink_to(node.folder / "bin/good")
    (plugins / "script").symlink_to(node.folder / "bin/good")
    (plugins / "directory").mkdir()
    (plugins / "README").write_text("not executable")
    assert node.problems() == [
        "plugins/00-gone: a link that leads nowhere: no runtime starts",
        "plugins/script: an executable whose name is not NN-NAME: no runtime starts",
    ]


def test_a_place_is_written_as_compilers_do_and_the_summary_counts(capsys: pytest.CaptureFixture[str]) -> None:
    places: list[tuple[Any, ...]] = [(), ("/f",), ("/f", 3), ("/f", 3, 4)]
    assert [str(report.Item("ok", "m", *place)) for place in places] == ["m", "/f: m", "/f:3: m", "/f:3:4: m"]
    for count, text in enumerate(["no problems", "1 problem", "2 problems"]):
        report.write_text({"part": [report.Item("problem", "m")] * count})
        assert capsys.readouterr().out.splitlines()[-1] == text


def test_a_loop_of_links_below_the_nodes_root_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be followed ends the command: to follow it outside of that root would be wrong."""
    config = tmp_path / "own.yaml"
    config.write_text(f"hostRoot: {tmp_path}")
    for name in (configuration.PLUGINS, configuration.UNIT, nri.CONTAINERD, nri.CRIO_DROP_INS, runtimes.DOCKER_SOCKET):
        loop = tmp_path / name[1:]
        loop.parent.mkdir(parents=True, exist_ok=True)
        loop.symlink_to(name)
        assert cli.main(["check", "-config", str(config)]) == 1, name
        assert capsys.readouterr().err == f"v010-adapter: {loop}: Too many levels of symbolic links\n"
        loop.unlink()
