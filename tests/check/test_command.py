"""The report as a whole, the adapter's own configuration, and the runtimes' plugin directory."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from v010_adapter.cli import command_line as cli
from v010_adapter.cli.check import configuration
from v010_adapter.cli.check.runtimes import LEAK

from ..rig.users import unprivileged
from .conftest import HOOK, Checked


@contextmanager
def unprivileged_at(directory: Path) -> Iterator[None]:
    """Inside, this process is no root, and the directory and those above it let it pass."""
    modes = [] if os.geteuid() else [(above, above.stat().st_mode) for above in (directory, *directory.parents)]
    for above, mode in modes:
        above.chmod(mode | 0o011)
    try:
        with unprivileged():
            yield
    finally:
        for above, mode in modes:
            above.chmod(mode)


def test_a_node_in_order_has_a_line_for_everything_and_no_problems(node: Checked) -> None:
    plugins = [{"type": "konfine", "conf": 1}, {"type": "konfine", "conf": {}}]
    node.write("conf.json", {"version": "0.1", "plugins": plugins})
    node.program("konfine")
    node.write("one/a.json", HOOK)
    node.write("two/b.json", HOOK | {"stages": ["createContainer", "poststop"]})
    (node.folder / "plugins/00-v010-adapter").symlink_to(node.program("v010-adapter"))
    node.listen("nri.sock")
    node.write("containerd", "")
    assert node() == [
        "configuration",
        "ok own.yaml: in order",
        "ok plugins: the adapter is launched as 00-v010-adapter",
        "note the adapter is installed, and does not run: systemctl restart containerd",
        "legacy plugins",
        "ok conf.json: 2 plugins",
        "ok konfine: runs bin/konfine",
        "hooks",
        "ok one: 1 file, 1 hook in force",
        "ok one/a.json: createRuntime: /bin/true",
        "ok two: 1 file, 1 hook in force",
        "ok two/b.json: createContainer, poststop: /bin/true",
        "note no limit: a.json, b.json: a hook that hangs blocks its container for ever (hooks.timeout)",
        "runtime",
        "ok nri.sock: a runtime serves NRI here",
        "ok config.toml: containerd: NRI is on",
        f"note containerd: {LEAK}",  # it does not run, so has no version
        "ok config.toml: containerd >= 2.2 creates no container while the adapter is missing",
        "no problems",
    ]
    assert (node.code, node.err) == (0, "")
    node.settings["hostRoot"] = str(node.folder / "host")  # the adapter connects to a mount, which is not below that
    assert "ok nri.sock: a runtime serves NRI here" in node()


def test_nothing_configured_is_no_problem(node: Checked) -> None:
    for name in ("one", "two", "plugins"):
        (node.folder / name).rmdir()
    assert node()[1:-1] == [
        "ok own.yaml: in order",
        "note plugins: the adapter is not in this directory: runtimes do not launch it",
        "legacy plugins",
        "ok conf.json: does not exist: no legacy plugins",
        "hooks",
        "ok one: does not exist: no hooks",
        "ok two: does not exist: no hooks",
        "runtime",
        "note nri.sock: does not exist: no runtime serves NRI here",
        "ok config.toml: containerd: NRI is on",
        "note crio.conf: CRI-O: NRI is on since CRI-O 1.30, off before; to switch it on: enable_nri = true under"
        " [crio.nri] in crio.conf.d/99-nri.conf",
    ]
    assert node.code == 0
    node.write("unit", "[Service]\n")
    assert node()[2] == "ok unit: systemd starts the adapter"


def test_json_has_every_line_with_its_place(node: Checked) -> None:
    file = node.write("one/a.json", '{"version": "1.0.0",\n "hook": {"path": 5},\n "stages": []}')
    node()
    node("-o", "json", "-config", str(node.folder / "own.yaml"))
    told = json.loads(node.out)
    [problem] = [check for check in told["checks"] if check["status"] == "problem"]
    message = "not used: hook.path: must be a string, not 5"
    place = {"file": str(file), "line": 2, "column": 19}
    assert problem == {"part": "hooks", "status": "problem", "message": message, **place}
    fine = {"part": "configuration", "status": "ok", "message": "in order", "file": str(node.folder / "own.yaml")}
    assert fine in told["checks"]
    assert (told.keys(), told["problems"], node.code) == ({"checks", "problems"}, 1, 1)


def test_every_error_of_the_configuration_is_shown_and_the_rest_of_it_counts(node: Checked) -> None:
    text = (
        f"legacy:\n  paht: [/x]\n  config: {node.folder}/conf.json\nlog: {{level: loud}}\nhooks: {{enabled: false}}\n"
    )
    lines = node("-config", str(node.write("bad.yaml", text)))
    assert lines[1].startswith("PROBLEM bad.yaml:2: legacy.paht: unknown key")
    assert lines[2] == "PROBLEM bad.yaml:4: log.level: must be one of debug, info, warning, error"
    assert "ok conf.json: does not exist: no legacy plugins" in lines
    assert (lines[-1], node.code) == ("2 problems", 1)
    lines = node("-config", str(node.write("bad.yaml", "a: b\n c: [")))
    assert lines[1].startswith("PROBLEM bad.yaml:2: ")
    assert [line for line in lines if "bad.yaml" in line] == [lines[1]], "beside it, this machine's own files count"


def test_where_the_list_is_unknown_the_default_one_is_not_checked_in_its_place(node: Checked) -> None:
    for legacy in ("{config: conf.json, plugins: {x: {timeout: 1}}}", "5"):
        lines = node("-config", str(node.write("bad.yaml", f"legacy: {legacy}\n")))
        assert lines[1].startswith("PROBLEM bad.yaml:1: legacy")
        assert "note not checked: legacy.config has an error" in lines
        assert "/etc/nri/conf.json" not in node.out


def test_an_unreadable_configuration_and_wrong_usage_end_with_2(
    node: Checked, capsys: pytest.CaptureFixture[str]
) -> None:
    assert node("-config", str(node.folder / "none.yaml")) == []
    assert (node.code, node.err) == (2, f"v010-adapter: {node.folder}/none.yaml: No such file or directory\n")
    with pytest.raises(SystemExit, match="2"):
        cli.main(["check", "-o", "xml"])
    assert "`v010-adapter check -h` explains" in capsys.readouterr().err


def test_unnamed_the_file_that_the_runtime_passes_comes_first_and_then_the_default_one(node: Checked) -> None:
    def said() -> str:
        return node("-o", "text")[1]

    assert said() == "ok default.yaml: does not exist: the defaults are used"
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


def test_what_is_configured_and_does_not_exist_is_a_problem(node: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "USUAL", {"/etc/nri/conf.json", "/one", "/two"})
    node.settings["hostRoot"] = str(node.folder)  # a container has the usual directory there
    node.listen("nri.sock")
    for name in ("one", "two"):
        (node.folder / name).rmdir()
    assert node.problems() == ["conf.json: does not exist: no legacy plugins, but legacy.config names it"]
    node.settings["legacy"]["config"] = ""
    node.settings["hooks"]["directories"] = [str(node.folder / "hooks.d")]
    del node.settings["legacy"]
    assert node.problems() == ["hooks.d: does not exist: no hooks, but hooks.directories names it"]


def test_a_state_directory_that_cannot_be_used_is_a_problem(node: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = node.folder / "state"
    node.listen("nri.sock")
    assert node.problems() == []
    assert not directory.exists()
    directory.mkdir()
    assert node.problems() == []
    directory.chmod(0o777)
    assert node.problems() == ["state: state is world-writable"]
    assert node("-root", str(node.folder), "-config", str(node.folder / "own.yaml"))[0] == "configuration"
    assert "state:" not in node.out  # it is that of this node
    directory.chmod(0o700)
    monkeypatch.setattr(os, "fstatvfs", lambda fd: os.statvfs_result((*os.statvfs(fd)[:8], os.ST_RDONLY, 255)))
    assert node.problems() == ["state: Read-only file system"]


def test_without_permission_nothing_is_said_not_to_exist(node: Checked) -> None:
    """All of these would be found by root."""
    (node.folder / "plugins/00-v010-adapter").symlink_to(node.program("v010-adapter"))
    node.write("private/nri.sock", "")
    node.write("private/containerd", "")
    node.settings["runtime"]["socket"] = str(node.folder / "private/nri.sock")
    node.write("one/a.json", HOOK | {"hook": {"path": str(node.program("private/hook"))}})
    config = node.write("own.yaml", node.settings)
    closed = ("private", "plugins", "bin/private", "config.toml", "crio.conf")
    assert not any("Permission denied" in line for line in node("-config", str(config)))  # it imports what it needs
    for name in closed:
        (node.folder / name).chmod(0)
    with unprivileged_at(node.folder):
        problems = [line for line in node("-config", str(config)) if line.startswith("PROBLEM")]
    for name in closed:
        (node.folder / name).chmod(0o700)
    for problem in (
        "PROBLEM plugins: Permission denied",
        "config.toml: containerd: Permission denied",
        "crio.conf: CRI-O: Permission denied",
        "private/nri.sock: Permission denied",
        "one/a.json: not used: its program bin/private/hook: Permission denied",
    ):
        assert any(problem in line for line in problems), (problem, problems)
    assert not any("does not exist" in line for line in problems)


def test_upstreams_plugins_are_named_which_run_everything_twice(node: Checked) -> None:
    ours, elf = node.program("v010-adapter"), node.write("upstream/v010-adapter", b"\x7fELF")
    elf.chmod(0o755)
    for name, target in (("00-v010-adapter", ours), ("10-hook-injector", "/bin/sh"), ("20-v010-adapter", elf)):
        (node.folder / "plugins" / name).symlink_to(target)
    twice = "also runs legacy plugins or hooks, so they run twice"
    assert node.problems() == [f"plugins/10-hook-injector: {twice}", f"plugins/20-v010-adapter: {twice}"]
    assert "ok plugins: the adapter is launched as 00-v010-adapter" in node()
    (node.folder / "plugins/00-v010-adapter").unlink()
    (node.folder / "plugins/30-v010-adapter").symlink_to("nowhere")
    assert [one.split(": ")[0] for one in node.problems()] == ["plugins/30-v010-adapter"], "this adapter does not run"
    assert node.out.count("30-v010-adapter") == 1
    (node.folder / "plugins/30-v010-adapter").unlink()
    assert f"note plugins/10-hook-injector: {twice.replace(', so they run twice', '')}" in node()
    node.write("unit", "[Service]\n")
    assert node.problems() == [f"plugins/10-hook-injector: {twice}", f"plugins/20-v010-adapter: {twice}"]


def test_what_runtimes_stumble_over_in_their_plugin_directory_is_named(node: Checked) -> None:
    plugins, good = node.folder / "plugins", node.program("good")
    (plugins / "00-gone").symlink_to("nowhere")
    (plugins / "00-fine").symlink_to(good)
    (plugins / "script").symlink_to(good)
    (plugins / "directory").mkdir()
    (plugins / "README").write_text("not executable")
    (plugins / "others").touch()
    (plugins / "others").chmod(0o601)
    assert node.problems() == [
        "plugins/00-gone: a link that leads nowhere: runtimes start without this plugin",
        "plugins/others: an executable whose name is not NN-NAME: no runtime starts",
        "plugins/script: an executable whose name is not NN-NAME: no runtime starts",
    ]


def test_a_plugins_configuration_that_stops_the_runtime_is_named(node: Checked) -> None:
    plugins, drop_ins, good = node.folder / "plugins", node.folder / "conf.d", node.program("good")
    for name in ("00-fine", "00-first", "00-none", "05-directory", "06-loop", "07-second", "08-nowhere"):
        (plugins / name).symlink_to(good)
    (plugins / "09-data").write_text("not executable")
    for name in ("05-directory", "first", "second", "09-data", "other"):
        (drop_ins / f"{name}.conf").mkdir(parents=True)
    (drop_ins / "06-loop.conf").symlink_to("06-loop.conf")
    (drop_ins / "08-nowhere.conf").symlink_to("nowhere")
    for name in ("00-fine", "00-first"):
        (drop_ins / f"{name}.conf").write_text("a: 1\n")
    directory = "cannot be read (Is a directory): no runtime starts"
    assert node.problems() == [
        f"conf.d/05-directory.conf: {directory}",
        "conf.d/06-loop.conf: cannot be read (Too many levels of symbolic links): no runtime starts",
        f"conf.d/second.conf: {directory}",
    ]


def test_it_says_that_an_installed_adapter_does_not_run_until_one_does(
    node: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told() -> list[str]:
        return [line for line in node() if "does not run" in line]

    assert told() == [], "it is not installed"
    node.write("unit", "")
    assert told() == ["note the adapter is installed, and does not run: systemctl restart v010-adapter"]
    monkeypatch.setattr("v010_adapter.monitoring.status.ask", lambda *_: iter([{"pid": 1}]))
    assert told() == []


def test_a_list_that_containerd_reads_and_cannot_parse_is_a_problem_even_if_the_adapter_has_another(
    node: Checked,
) -> None:
    node.write("conf.json", {"plugins": []})
    node.write("containerd", "")
    assert node.problems() == []
    node.write("shared.json", '{"plugins": [')
    [problem] = node.problems()
    assert problem.startswith("shared.json:1:14: unexpected end; all pods fail with containerd 2.0 to 2.4")


def test_a_plugin_that_stands_by_is_noted_as_not_probed_unless_it_is_now(node: Checked) -> None:
    node.write("conf.json", {"plugins": [{"type": "a"}, {"type": "b"}]})
    for name in ("a", "b"):
        node.program(name)
    node.settings["legacy"]["plugins"] = {"a": {"standby": 1}}
    note = "note a: it stands by; not probed: `v010-adapter check -probe a` tests whether it may"
    assert [line for line in node() if "probed" in line] == [note]
    config = str(node.write("own.yaml", node.settings))
    assert not any("probed" in line for line in node("-config", config, "-probe", "a", "-yes"))
