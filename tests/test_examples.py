"""The programs in examples/ work in the four ways in which a plugin can be started, and do what they say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nri import api
from nri.testing import PluginFile, Runtime
from nri.testing.node import Node

from .rig import interpreter
from .rig.embedded import CONTAINER, POD, patient
from .rig.programs import Programs
from .rig.waiting import LIMIT, running

EXAMPLES = Path(__file__).parents[1] / "examples"
FIRST_LINE = "#!/opt/v010-adapter/bin/python3 -I\n"
SIMULATE = [sys.executable, "-P", str(Path(__file__).with_name("rig") / "patient.py"), "simulate"]
ASKING = api.PodSandbox(id="pod", name="p", namespace="default", annotations={"hooks.example.com/record": "yes"})
CREATION = api.CreateContainerRequest(pod=ASKING, container=CONTAINER)
MADE: dict[str, api.ContainerAdjustment] = {
    "asynchronous": api.ContainerAdjustment(env=[api.KeyValue(key="NODE_KERNEL", value=os.uname().release)]),
    "injector": api.ContainerAdjustment(),
    "nice": api.ContainerAdjustment(env=[api.KeyValue(key="NODE_MOOD", value="nice")]),
}
"""What examples make of a container."""
RECORD = MADE["injector"].hooks.create_runtime.add(path="/usr/local/libexec/oci/record")
RECORD.args.extend(["record", "/var/log/c.jsonl"])
RECORD.timeout.value = 10
MADE["injector"].hooks.poststop.append(RECORD)
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("NRI_PLUGIN_")}


Install = Callable[[str], PluginFile]


@pytest.fixture
def install(tmp_path: Path) -> Install:
    """Installs an example as it is, but for the path of its interpreter."""

    def installed(name: str) -> PluginFile:
        source = (EXAMPLES / f"{name}.py").read_text()
        assert source.startswith(FIRST_LINE)
        path = Programs(tmp_path).write(f"10-{name}", source.replace(FIRST_LINE, f"{interpreter.FIRST_LINE}\n"))
        return PluginFile(path, "10", name)

    return installed


def test_every_example_is_tested_and_can_be_executed() -> None:
    examples = list(EXAMPLES.glob("*.py"))
    assert {path.stem for path in examples} == {*MADE, "dra_driver", "agent", "device"}
    assert all(os.access(path, os.X_OK) for path in examples)


def is_made(runtime: Runtime, name: str) -> bool:
    adjust = runtime.event("CreateContainer", CREATION).adjust
    return adjust is not None and (adjust.env, adjust.hooks) == (MADE[name].env, MADE[name].hooks)


@pytest.mark.parametrize("name", MADE)
def test_an_example_works_if_launched_and_if_started_by_hand(name: str, install: Install, tmp_path: Path) -> None:
    with Runtime(patient()) as runtime:
        plugin = runtime.launch(install(name))
        assert is_made(runtime, name)
        assert not plugin.closed
    with Runtime(patient()) as runtime, by_hand(runtime, install(name), tmp_path / "nri.sock") as process:
        assert is_made(runtime, name)
        runtime.stop()
        process.communicate(timeout=LIMIT)
    assert process.returncode == 0  # the runtime has closed the connection


@contextmanager
def by_hand(runtime: Runtime, installed: PluginFile, socket: Path) -> Iterator[subprocess.Popen[str]]:
    """Starts an example beside a runtime, as at a shell."""
    runtime.listen(socket)
    words = [str(installed.path), "-socket", str(socket)]
    with running(words, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as started:
        assert not runtime.accept(LIMIT).closed
        yield started


def simulated(*words: str | Path) -> dict[str, Any]:
    """What simulate tells of the creation of a container."""
    done = subprocess.run([*SIMULATE, *words, "-o", "json"], stdout=subprocess.PIPE, check=True)
    lines: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    (line,) = [line for line in lines if line["event"] == "CreateContainer"]
    return line


def test_the_dra_driver_follows_who_uses_a_claim(install: Install, tmp_path: Path) -> None:
    def user(id_: str, claim: str = "gpu-0") -> api.Container:
        return api.Container(id=id_, env=[f"DRA_EXAMPLE_CLAIM={claim}"], state=api.CONTAINER_RUNNING)

    with Runtime(patient()) as runtime:
        runtime.containers = [user("a")]
        with by_hand(runtime, install("dra_driver"), tmp_path / "nri.sock") as process:
            runtime.event("StartContainer", api.StartContainerRequest(pod=POD, container=user("b")))
            runtime.event("StopContainer", api.StopContainerRequest(pod=POD, container=user("a")))
            runtime.event("StartContainer", api.StartContainerRequest(pod=POD, container=user("c", "gpu-1")))
            runtime.event("StopContainer", api.StopContainerRequest(pod=POD, container=user("b")))
            runtime.stop()
            assert process.communicate(timeout=LIMIT)[0] == "gpu-0 is in use\ngpu-1 is in use\ngpu-0 is free\n"


def test_the_one_shot_mounts_a_file_into_containers_with_a_gpu(tmp_path: Path) -> None:
    for variable, mounted in {"NVIDIA_VISIBLE_DEVICES": ["/etc/nccl.conf"], "OTHER": []}.items():
        container = {"name": "c", "image": "i", "command": ["true"], "env": [{"name": variable, "value": "all"}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
        (tmp_path / "pod.json").write_text(json.dumps(pod))
        line = simulated("-legacy", EXAMPLES / "gpu-config", "-container", tmp_path / "pod.json")
        assert [mount["destination"] for mount in (line["adjust"] or {}).get("mounts", [])] == mounted


def test_the_device_plugin_lets_a_container_start_when_its_device_is_there(
    install: Install, nri_runtime: Node, tmp_path: Path
) -> None:
    nri_runtime.add(install("device").path)
    device = tmp_path / "device"
    with nri_runtime.created({"annotations": {"device.example.com/path": str(device)}}) as container:
        assert not container.start().error
        assert container.is_held
        with nri_runtime.created(id="other") as other:
            assert not other.start().error
            assert other.runs(), "it needs no device"
        assert container.is_held
        device.touch()
        assert container.runs()


def test_the_agent_mounts_what_pods_ask_for_under_one_runtime_after_another(nri_runtime: Node, tmp_path: Path) -> None:
    words = ["-I", str(EXAMPLES / "agent.py"), "-socket", str(nri_runtime.socket), "-store", str(tmp_path)]
    asking: dict[str, Any] = {"id": "p", "annotations": {"data.example.com/name": "model"}}
    with running([sys.executable, *words], stdout=subprocess.PIPE, text=True) as process:
        for _ in range(2):
            nri_runtime.accept()
            created = nri_runtime.play(asking)["CreateContainer"].adjust
            assert created
            assert [(one.source, one.destination) for one in created.mounts] == [(f"{tmp_path}/model", "/data")]
            assert (tmp_path / "model").is_dir()
            assert nri_runtime.event("CreateContainer").adjust == api.ContainerAdjustment()
            nri_runtime.pods = [api.PodSandbox(**asking)]
            nri_runtime.lose()
        nri_runtime.accept()
        process.terminate()
        output, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 0
    joined = "joined: {} pods have data\nleft: {}\n".format
    gone = "the runtime has gone"
    assert output == joined(0, gone) + joined(1, gone) + joined(1, "SIGTERM")
