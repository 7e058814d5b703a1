"""Whose business sandboxes are: ours, or a runtime's that runs the plugins of the same conf.json for them itself."""

from __future__ import annotations

import json
import logging
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from nri import api
from nri.runtimes import Runtime
from v010_adapter.legacy.sandboxes import CHUNK, is_runtimes_own
from v010_adapter.settings import DEFAULT_CONF_JSON, LegacySettings

from ..rig.node import Node
from ..rig.processes import NO_PROCESS
from ..rig.programs import Programs
from ..rig.serving import PluginServing
from ..rig.waiting import running


class Rooted:
    """A node's root in a folder, with a conf.json where containerd looks for it, and a serving."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.root = node.folder / "host"
        self.conf_json = self.root / DEFAULT_CONF_JSON.lstrip("/")
        self.conf_json.parent.mkdir(parents=True)
        node.plugin("a")
        self.write(self.conf_json)

    def write(self, path: Path) -> Path:
        path.write_text(json.dumps({"plugins": [{"type": "a"}]}))
        return path

    def another(self) -> Path:
        return self.write(self.node.folder / "own.json")

    def link(self, make: Callable[[Path, Path], Any], of: Path) -> Path:
        link = self.node.folder / "link"
        make(of, link)
        return link

    def serving(self, config: Path | None = None, sandboxes: str = "auto") -> PluginServing:
        own = LegacySettings(config=str(config or self.conf_json), path=(str(self.node.folder),), sandboxes=sandboxes)
        self.node.serving = PluginServing(self.node.loop, own, self.node.turns, str(self.root))
        return self.node.serving

    def ours(self) -> bool:
        """Whether a pod's create runs plugins."""
        before = len(self.node.runs)
        answer = self.node.create_pod(f"pod{before}")
        if answer.outcome == "nothing to do":
            return False
        self.node.wait(answer)
        assert self.node.runs[before:] == [f"a create pod{before}"]
        return True


@pytest.fixture
def host(node: Node) -> Rooted:
    return Rooted(node)


SHELL = Path("/bin/sh")
MEASURED = {  # and whether it runs the plugins for pods itself
    **dict.fromkeys(["2.4.2", "v2.4.2", "2.4.2+unknown", "2.3.4-k3s1", "v2.0.14", "2.0.0-rc.1"], True),
    **dict.fromkeys(["1.7.35", "v1.7.35", "1.7.35+unknown", "v1.7.0-beta.2"], False),
}
UNMEASURED = ["2.5.0", "v3.0.0-beta.1", "10.1.0", "1.20.1", "garbage", "", "dev-2025", "2.4"]
OTHERS = [
    *(("cri-o", version) for version in ("1.34.0", "2.0.0", "")),
    ("", ""),
    ("", "2.4.2"),
    ("Containerd-x", "2.4.2"),
]


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Callable[[bytes], int]]:
    """Starts processes whose executables end with given bytes; returns their pids."""
    number = count()

    def start(text: bytes) -> int:
        program = Programs(tmp_path).write(f"runtime{next(number)}", SHELL.read_bytes() + text)
        process: subprocess.Popen[bytes]
        line = [program, "-c", "echo it runs; read line"]
        process = stack.enter_context(running(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        assert process.stdout is not None
        os.read(process.stdout.fileno(), 1)  # so the pid has this executable
        program.unlink()  # an upgrade has removed it
        return process.pid

    with ExitStack() as stack:
        yield start


def test_pods_are_left_to_a_containerd_that_runs_plugins_for_them(
    host: Rooted, runtime: Callable[[bytes], int]
) -> None:
    host.serving()
    assert host.ours(), "before the runtime is known"
    assert not host.node.serving.plugins.sees_pods, "whose processes are where nobody knows"
    pid = runtime(DEFAULT_CONF_JSON.encode())
    for version, itself in MEASURED.items():
        for its in (pid, 0):
            host.serving().set_runtime(Runtime("containerd", version), pid=its)
            assert host.ours() is not itself, version
    for name, version in OTHERS:
        host.serving().set_runtime(Runtime(name, version), pid=pid)
        assert host.ours(), name


def test_of_a_version_that_nobody_has_measured_the_executable_tells(
    host: Rooted, runtime: Callable[[bytes], int], caplog: pytest.LogCaptureFixture
) -> None:
    size = SHELL.stat().st_size
    across = b" " * (-size % CHUNK - len(DEFAULT_CONF_JSON) // 2) + DEFAULT_CONF_JSON.encode() + b"/usr/lib"
    for text, level, why in (
        (b"/etc/nri/conf.jso", logging.INFO, f"does not contain {DEFAULT_CONF_JSON}"),
        (b"/etc/nri/conf.json", logging.INFO, f"contains {DEFAULT_CONF_JSON}"),
        (across, logging.INFO, f"contains {DEFAULT_CONF_JSON}"),
        (None, logging.WARNING, "cannot be read: its process is in another pid namespace (legacy.sandboxes)"),
    ):
        pid = 0 if text is None else runtime(text)
        for version in UNMEASURED[: 1 if text is across else None]:
            caplog.clear()
            host.serving().set_runtime(Runtime("containerd", version), pid=pid)
            assert host.ours() is (DEFAULT_CONF_JSON.encode() not in (text or b"")), (version, text)
            host.node.loop.settle()
            (told,) = [record for record in caplog.records if "plugins for pods" in record.message]
            assert (told.levelno, told.message.endswith(why)) == (level, True), told.message
            assert host.node.serving.describe()["notes"][0].startswith(told.message)


def test_an_executable_is_read_only_if_it_decides(host: Rooted) -> None:
    """A pid that is not there would be found out, and nothing is told of a conf.json that is not there."""
    host.serving(host.another()).set_runtime(Runtime("containerd", "2.5.0"), pid=-1)
    assert host.ours()
    assert host.node.serving.describe()["notes"][0].endswith(
        f"are run by the adapter: no runtime reads {host.another()}"
    )
    host.another().unlink()
    assert host.node.serving.describe()["notes"] == []


def test_the_pods_that_get_their_delete_from_the_runtime_are_counted(host: Rooted) -> None:
    def told() -> str:
        return str(host.node.serving.describe()["notes"][0]).partition(" itself")[2]

    serving = host.serving()
    serving.set_runtime(Runtime("containerd", "2.4.2"))
    ready = api.PodSandbox(id="there", pid=NO_PROCESS)
    serving.synchronize([ready], [])
    assert told() == "; 1 pod gets its delete from the runtime"
    for id_ in ("a", "b"):
        host.node.create_pod(id_)
    assert told() == "; 3 pods get their deletes from the runtime"
    host.node.delete_pod("a")
    host.node.delete_pod("unknown")
    assert told() == "; 2 pods get their deletes from the runtime"
    serving.synchronize([], [])
    assert told() == ""


def test_what_is_configured_decides_whatever_the_runtime_and_containers_are_always_ours(
    host: Rooted, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for name, version in (("containerd", "2.4.2"), ("containerd", "1.7.35"), ("cri-o", "1.34.0")):
        for sandboxes in ("always", "never"):
            host.serving(sandboxes=sandboxes).set_runtime(Runtime(name, version))
            assert host.ours() is (sandboxes == "always"), (name, version)
            assert host.node.serving.describe()["notes"][0].endswith(f": legacy.sandboxes: {sandboxes}")
            answer = host.node.create("c1")
            host.node.wait(answer)
            assert answer.outcome == "ok"
    assert "plugins for pods" not in caplog.text


CONFIGS: dict[str, tuple[Callable[[Rooted], Path], bool]] = {
    "another file": (Rooted.another, True),
    "the path itself": (lambda host: host.conf_json, False),
    "a hard link to it": (lambda host: host.link(os.link, host.conf_json), False),
    "a link to its folder, like a mount of it": (
        lambda host: host.link(os.symlink, host.conf_json.parent) / "conf.json",
        False,
    ),
}


@pytest.mark.parametrize("config", CONFIGS)
def test_a_conf_json_is_the_runtimes_own_if_it_is_the_same_file(host: Rooted, config: str) -> None:
    path, ours = CONFIGS[config]
    host.serving(path(host)).set_runtime(Runtime("containerd", "2.4.2"))
    assert host.ours() is ours


def test_the_host_root_is_where_the_runtimes_file_is_looked_for(tmp_path: Path) -> None:
    own = tmp_path / "etc/nri/conf.json"
    own.parent.mkdir(parents=True)
    own.write_text("{}")
    assert [is_runtimes_own(str(own), root) for root in (str(tmp_path), f"{tmp_path}/", "/")] == [True, True, False]


def test_a_list_that_the_runtime_reads_and_cannot_parse_is_a_fault_even_if_the_adapter_has_another(
    host: Rooted,
) -> None:
    host.conf_json.write_text("{")
    serving = host.serving(host.another())
    for version, fails in (("2.4.2", True), ("1.7.35", False)):
        serving.set_runtime(Runtime("containerd", version))
        end = f"{DEFAULT_CONF_JSON}:1:2: unexpected end; all pods of this node fail: containerd {version} reads it, too"
        faults = host.node.serving.describe()["faults"]
        assert [fault.removeprefix(str(host.root)) for fault in faults] == [end] * fails
    host.conf_json.unlink()
    serving.set_runtime(Runtime("containerd", "2.4.2"))
    assert host.node.serving.describe()["faults"] == []


def test_a_listed_program_that_cannot_run_is_a_fault(host: Rooted) -> None:
    serving = host.serving(host.another())
    assert host.node.serving.describe()["faults"] == []
    program = host.node.folder / "a"
    program.write_text("#!/no/such/interpreter\n")
    [fault] = host.node.serving.describe()["faults"]
    assert fault.startswith(f"plugin: a: {program}")
    program.unlink()
    assert host.node.serving.describe()["faults"][0].startswith("plugin: a: not found in")
    assert serving is host.node.serving
