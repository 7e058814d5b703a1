"""The recipes of docs/cookbook.md and examples/cookbook do under NRI's own runtime code what they say."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

import pytest

from ..rig import interpreter
from ..rig.programs import Programs
from ..rig.waiting import LIMIT, limit, running, until
from .build import NEWEST
from .harness import PATIENT, GoRuntime, Reply

ROOT = Path(__file__).parents[2]
COOKBOOK = ROOT / "examples/cookbook"
FIRST_LINE = "#!/opt/v010-adapter/bin/python3 -I\n"
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("NRI_PLUGIN_")}
CONTAINER = {"id": "ctr", "pod_sandbox_id": "pod", "name": "c"}


def pod(namespace: str = "shop", **annotations: str) -> dict[str, Any]:
    return {"id": "pod", "name": "p", "namespace": namespace, "annotations": annotations}


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[GoRuntime]:
    """A runtime that is not started yet; it launches what stands in its plugin directory."""
    with GoRuntime(tmp_path, NEWEST) as opened:
        opened.open(runtime=("containerd", "v2.4.2"), **PATIENT)
        yield opened


def install(runtime: GoRuntime, example: Path, name: str, config: str = "") -> None:
    """Installs an example as it is, but for the path of its interpreter."""
    source = example.read_text()
    assert source.startswith(FIRST_LINE)
    Programs(runtime.directory / "plugins").write(name, source.replace(FIRST_LINE, f"{interpreter.FIRST_LINE}\n"))
    (runtime.directory / "conf.d" / f"{name}.conf").write_text(config)


@contextmanager
def beside(runtime: GoRuntime, path: Path, name: str, *words: object) -> Iterator[subprocess.Popen[str]]:
    """Starts a program beside a runtime, and ends it by SIGTERM, unless the test has."""
    assert runtime.play("start").error == ""
    command = [sys.executable, str(path), "-socket", str(runtime.socket), *map(str, words)]
    with running(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        assert runtime.play("wait", plugin=name).error == ""
        yield process
        if process.returncode is None:
            process.terminate()
        assert process.wait(LIMIT) == 0


def said(plugin: subprocess.Popen[str]) -> str:
    """Waits for the next line of a program."""
    assert plugin.stdout
    with limit("the program says nothing"):
        return plugin.stdout.readline()


def create(runtime: GoRuntime, of: Mapping[str, Any], **fields: object) -> Reply:
    return runtime.event("CreateContainer", of, CONTAINER, **fields)


def made(reply: Reply) -> dict[str, Any]:
    """The adjustment without the empty messages that Go has in it."""
    assert reply.error == ""
    found = without_empty(dict(reply.adjust or {}))
    linux = found.pop("linux", {})
    return {**found, **linux}


def without_empty(message: dict[str, Any]) -> dict[str, Any]:
    parts = {name: without_empty(value) if isinstance(value, dict) else value for name, value in message.items()}
    return {name: value for name, value in parts.items() if value != {}}


def resources(shares: int, memory: int) -> dict[str, Any]:
    """Limits as protojson writes them."""
    return {"memory": {"limit": {"value": str(memory)}}, "cpu": {"shares": {"value": str(shares)}}}


def test_every_program_can_be_executed_and_is_played_here() -> None:
    played = set(re.findall(r'COOKBOOK / "(\w+\.py)"', Path(__file__).read_text()))
    assert {path.name for path in COOKBOOK.iterdir() if path.is_file()} == played
    assert all(os.access(path, os.X_OK) for path in COOKBOOK.glob("*.py"))


def test_no_event_waits_for_the_event_log_and_no_line_is_lost_at_its_end(runtime: GoRuntime, tmp_path: Path) -> None:
    log, events = tmp_path / "events", ["RunPodSandbox", "CreateContainer", "StartContainer", "StopPodSandbox"]
    os.mkfifo(log)
    with beside(runtime, COOKBOOK / "event_log.py", "90-event-log", "-file", log) as plugin:
        for event in events:  # nobody reads the log
            assert runtime.event(event, pod(), CONTAINER).error == ""
        plugin.terminate()
        with open(os.open(log, os.O_RDWR)) as file, limit("a line is lost"):
            lines = [json.loads(file.readline()) for _ in events]
        plugin.wait(LIMIT)
    assert [line["event"] for line in lines] == events
    assert [line.get("id") for line in lines] == [None, "ctr", "ctr", None]
    assert {line["pod"] for line in lines} == {"shop/p"}


def test_limits_by_annotation_follow_their_file_also_after_a_reconnect(runtime: GoRuntime, tmp_path: Path) -> None:
    file, batch = tmp_path / "limits.toml", pod(**{"limits.example.com/class": "batch"})

    def write(shares: int) -> None:
        (tmp_path / "new").write_text(f"[batch]\ncpu_shares = {shares}\nmemory = 1000000\n")
        (tmp_path / "new").rename(file)

    write(128)
    with beside(runtime, COOKBOOK / "limits.py", "30-limits", "-file", file, "-period", 0.01) as plugin:
        assert made(create(runtime, batch)) == {"resources": resources(128, 1_000_000)}
        assert made(create(runtime, pod())) == {}
        assert "no class 'gold'" in create(runtime, pod(**{"limits.example.com/class": "gold"})).error
        write(256)
        updates = until(lambda: runtime.play("updates").updates, "updates")
        expected = {"container_id": "ctr", "linux": {"resources": resources(256, 1_000_000)}, "ignore_failure": True}
        assert [*updates[0]] == [expected]
        assert said(plugin) == "1 containers have new limits\n"
        runtime.kill()
        write(512)
        assert said(plugin).startswith("no update: ")  # the timer goes on
        with next_runtime(runtime) as following:
            following.play("state", pods=[batch], containers=[CONTAINER])
            following.play("start")
            assert following.play("wait", plugin="30-limits").error == ""
            assert made(create(following, batch)) == {"resources": resources(512, 1_000_000)}
            write(64)
            updates = until(lambda: following.play("updates").updates, "updates")
            assert updates[0][0]["linux"]["resources"] == resources(64, 1_000_000)


@contextmanager
def next_runtime(before: GoRuntime) -> Iterator[GoRuntime]:
    """A runtime that listens where the one before has listened."""
    directory = before.directory / "next"
    directory.mkdir()
    with GoRuntime(directory, NEWEST) as following:
        following.socket = before.socket
        following.open(runtime=("containerd", "v2.4.2"), **PATIENT)
        yield following


def test_devices_are_given_from_the_allow_list_only(runtime: GoRuntime) -> None:
    install(runtime, COOKBOOK / "devices.py", "40-devices", 'allowed = {shop = ["/dev/zero"]}')
    assert runtime.play("start").names == ["40-devices"]
    zero = {"devices.example.com/paths": "/dev/zero"}
    mode = {"value": stat.S_IMODE(os.stat("/dev/zero").st_mode)}
    device = {"path": "/dev/zero", "type": "c", "major": "1", "minor": "5", "file_mode": mode}
    assert made(create(runtime, pod(**zero)))["devices"] == [device]
    assert "'/dev/zero' is not allowed in the namespace other" in create(runtime, pod("other", **zero)).error
    both = {"devices.example.com/paths": "/dev/zero /dev/null"}
    assert "'/dev/null' is not allowed in the namespace shop" in create(runtime, pod(**both)).error
    assert made(create(runtime, pod("other"))) == {}


def test_devices_without_their_configuration_do_not_start(runtime: GoRuntime) -> None:
    install(runtime, COOKBOOK / "devices.py", "40-devices", "allowed = [")
    assert runtime.play("start").names == []
    assert "TOMLDecodeError" in runtime.log.read_text()


def test_the_validator_lets_a_plugin_change_what_the_namespace_allows(runtime: GoRuntime) -> None:
    install(runtime, ROOT / "examples/nice.py", "10-nice")
    rules = '[shop]\n"10-nice" = ["CPUShares"]\n[lab]\n"10-nice" = ["Env"]\n'
    install(runtime, COOKBOOK / "validator.py", "95-validator", rules)
    assert runtime.play("start").names == ["10-nice", "95-validator"]
    assert "10-nice must not change Env in the namespace shop" in create(runtime, pod()).error
    for namespace in ("lab", "default"):
        assert made(create(runtime, pod(namespace))) == {"env": [{"key": "NODE_MOOD", "value": "nice"}]}


@pytest.mark.deadline
def test_slow_work_begins_with_the_pod_and_a_repeated_create_gets_it(runtime: GoRuntime, tmp_path: Path) -> None:
    gate, store = tmp_path / "gate", tmp_path / "store"
    os.mkfifo(gate)
    store.mkdir()
    program = Programs(tmp_path).shell("fetch", f'echo "$1" >>{tmp_path}/fetched\ncat {gate}\nmkdir "$2"')
    asking = pod(**{"prefetch.example.com/source": "model"})
    words = ("-program", program, "-store", store)
    with beside(runtime, COOKBOOK / "prefetch.py", "50-prefetch", *words):
        assert runtime.event("RunPodSandbox", asking).error == ""
        until((tmp_path / "fetched").exists, "the file is fetched")
        with runtime.impatient(4_000):
            assert "the data are still being fetched: try again" in create(runtime, asking).error
        gate.write_text("")
        expected = {"destination": "/data", "type": "bind", "source": f"{store}/pod", "options": ["rbind", "ro"]}
        assert made(create(runtime, asking)) == {"mounts": [expected]}
        assert made(create(runtime, {**pod(), "id": "other"})) == {}
        assert runtime.event("RemovePodSandbox", asking).names == ["50-prefetch"]
    assert (tmp_path / "fetched").read_text() == "model\n"


def test_containers_are_counted_for_prometheus(runtime: GoRuntime) -> None:
    runtime.play("state", pods=[pod()], containers=[{**CONTAINER, "id": "old", "state": "CONTAINER_RUNNING"}])
    with beside(runtime, COOKBOOK / "metrics.py", "90-metrics", "--port", 0) as plugin:
        port = said(plugin).split()[-1]
        runtime.event("StartContainer", pod(), CONTAINER)
        runtime.event("StopContainer", pod(), CONTAINER)
        with build_opener(ProxyHandler({})).open(f"http://localhost:{port}/metrics", timeout=LIMIT) as answer:
            text = answer.read().decode()
    assert 'nri_container_events_total{event="start",namespace="shop"} 1.0\n' in text
    assert 'nri_container_events_total{event="stop",namespace="shop"} 1.0\n' in text
    assert "nri_containers_running 1.0\n" in text


def test_a_configuration_comes_from_the_runtime_or_a_file_and_is_read_again(runtime: GoRuntime, tmp_path: Path) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/cookbook.md").read_text(), re.DOTALL)
    file, program = tmp_path / "zones.toml", tmp_path / "zones.py"
    program.write_text(FIRST_LINE + block.replace("/etc/nri/zones.toml", str(file)))
    install(runtime, program, "40-zones", 'shop = "Asia/Tokyo"')
    runtime.play("start")

    def zones() -> list[str]:
        return [variable["value"] for variable in made(create(runtime, pod())).get("env", ())]

    assert zones() == ["Asia/Tokyo"]
    file.write_text('shop = "UTC"')
    (plugin,) = runtime.play("plugins").plugins
    os.kill(plugin.pid, signal.SIGHUP)
    until(lambda: zones() == ["UTC"], "the zone of the file")
    file.write_text("shop =")
    os.kill(plugin.pid, signal.SIGHUP)
    assert zones() == ["UTC"]
    runtime.kill()
    file.write_text('shop = "Europe/Rome"')
    with next_runtime(runtime) as following, beside(following, program, "41-zones", "-idx", "41"):
        assert made(create(following, pod()))["env"] == [{"key": "TZ", "value": "Europe/Rome"}]
