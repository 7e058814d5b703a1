"""The programs in examples/ work in the four ways in which a plugin can be started, and do what they say."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from adapter.nri import api
from adapter.runtime import Plugin, PluginFile, Runtime
from adapter.runtime.node import Node

from .runtime.fixtures import CONTAINER, POD, patient

EXAMPLES = Path(__file__).parents[1] / "examples"
LISTENS, STAYS = "dra_driver", "agent"
"""The example that adjusts nothing, and the one that outlives its runtime."""
NAMES = sorted({path.stem for path in EXAMPLES.glob("*.py")} - {LISTENS, STAYS})
FIRST_LINE = "#!/opt/v010-adapter/bin/python3 -I\n"
ASKING = api.PodSandbox(id="pod", name="p", namespace="default", annotations={"hooks.example.com/record": "yes"})
SIMULATE = [sys.executable, "-P", str(Path(__file__).with_name("patient.py")), "simulate"]


def adjusted(name: str, response: api.ContainerAdjustment | None) -> object:
    """What an example is there for, in the adjustment of a container."""
    assert response is not None
    if name == "injector":
        return [(hook.path, list(hook.args), hook.timeout.value) for hook in response.hooks.create_runtime]
    return [(variable.key, variable.value) for variable in response.env]


EXPECTED: dict[str, object] = {
    "asynchronous": [("NODE_KERNEL", os.uname().release)],
    "injector": [("/usr/local/libexec/oci/record", ["record", "/var/log/c.jsonl"], 10)],
    "nice": [("NODE_MOOD", "nice")],
}


@pytest.fixture
def installed(request: pytest.FixtureRequest, tmp_path: Path) -> PluginFile:
    """An example as it is, but for the path of its interpreter."""
    source = (EXAMPLES / f"{request.param}.py").read_text()
    assert source.startswith(FIRST_LINE)
    path = tmp_path / f"10-{request.param}"
    path.write_text(source.replace(FIRST_LINE, f"#!{sys.executable}\n"))
    path.chmod(0o755)
    return PluginFile(path, "10", request.param)


every_example = pytest.mark.parametrize("installed", NAMES, indirect=True)
one_example = pytest.mark.parametrize("installed", ["nice"], indirect=True)


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("NRI_PLUGIN_")}


def created(runtime: Runtime, name: str) -> object:
    request = api.CreateContainerRequest(pod=ASKING, container=CONTAINER)
    return adjusted(name, runtime.event("CreateContainer", request).adjust)


def test_every_example_is_expected_something_of_and_can_be_executed() -> None:
    assert list(EXPECTED) == NAMES
    assert all(os.access(EXAMPLES / f"{name}.py", os.X_OK) for name in [*NAMES, LISTENS, STAYS])


@every_example
def test_an_example_works_when_a_runtime_launches_it(installed: PluginFile) -> None:
    with Runtime(patient()) as runtime:
        plugin = runtime.launch(installed)
        assert created(runtime, installed.base) == EXPECTED[installed.base]
        assert not plugin.closed


def beside(installed: PluginFile, socket: Path) -> list[str]:
    """The command line for a runtime's socket."""
    return [str(installed.path), "-socket", str(socket)]


def by_hand(runtime: Runtime, installed: PluginFile, socket: Path) -> tuple[Plugin, subprocess.Popen[str]]:
    """Starts an example beside a runtime, as at a shell."""
    runtime.listen(socket)
    started = subprocess.Popen(beside(installed, socket), stdout=subprocess.PIPE, text=True, env=environment())
    return runtime.accept(60), started


@every_example
def test_an_example_works_when_it_is_started_by_hand(installed: PluginFile, tmp_path: Path) -> None:
    with Runtime(patient()) as runtime:
        plugin, process = by_hand(runtime, installed, tmp_path / "nri.sock")
        assert created(runtime, installed.base) == EXPECTED[installed.base]
        assert not plugin.closed
    process.communicate(timeout=60)
    assert process.returncode == 0  # the runtime has closed the connection


def simulated(*words: str | Path) -> dict[str, Any]:
    """What simulate tells of the creation of a container."""
    done = subprocess.run([*SIMULATE, *words, "-o", "json"], stdout=subprocess.PIPE, check=True)
    return creation_in(done.stdout.decode())


def creation_in(output: str) -> dict[str, Any]:
    lines: list[dict[str, Any]] = [json.loads(line) for line in output.splitlines()]
    (line,) = [line for line in lines if line["event"] == "CreateContainer"]
    return line


@one_example
def test_an_example_works_under_simulate(installed: PluginFile) -> None:
    assert simulated("-plugin", installed.path)["adjust"]


@one_example
def test_an_example_works_with_the_socket_of_simulate(installed: PluginFile, tmp_path: Path) -> None:
    socket = tmp_path / "nri.sock"
    words = [*SIMULATE, "-socket", str(socket), "-o", "json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as simulate:
        assert simulate.stdout is not None
        assert simulate.stderr is not None
        assert simulate.stderr.readline() == f"waiting for a plugin to connect to {socket}\n"
        words = beside(installed, socket)
        subprocess.run(words, env=environment(), check=True, stdout=subprocess.DEVNULL)
        assert creation_in(simulate.stdout.read())["adjust"]
    assert simulate.returncode == 0


@one_example
def test_an_example_without_a_runtime_ends_with_a_line(installed: PluginFile, tmp_path: Path) -> None:
    words = beside(installed, tmp_path / "absent.sock")
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"\S+: no runtime at .*/absent\.sock: No such file or directory\n", done.stderr)


@one_example
def test_nice_fails_the_start_of_nasty_and_prints_the_others(installed: PluginFile, tmp_path: Path) -> None:
    with Runtime(patient()) as runtime:
        _, process = by_hand(runtime, installed, tmp_path / "nri.sock")
        for name, error in (("web", ""), ("nasty", "not on this node")):
            request = api.StartContainerRequest(pod=POD, container=api.Container(id=name, name=name))
            assert error in runtime.event("StartContainer", request).error or not error
    output, _ = process.communicate(timeout=60)
    assert re.fullmatch(r"p/web starts; \d+\.\d s to answer\n", output)


@pytest.mark.parametrize("installed", [LISTENS], indirect=True)
def test_the_dra_driver_follows_who_uses_a_claim(installed: PluginFile, tmp_path: Path) -> None:
    def user(id_: str, claim: str = "gpu-0") -> api.Container:
        return api.Container(id=id_, env=[f"DRA_EXAMPLE_CLAIM={claim}"], state=api.CONTAINER_RUNNING)

    with Runtime(patient()) as runtime:
        runtime.containers = [user("a")]
        _, process = by_hand(runtime, installed, tmp_path / "nri.sock")
        runtime.event("StartContainer", api.StartContainerRequest(pod=POD, container=user("b")))
        runtime.event("StopContainer", api.StopContainerRequest(pod=POD, container=user("a")))
        runtime.event("StartContainer", api.StartContainerRequest(pod=POD, container=user("c", "gpu-1")))
        runtime.event("StopContainer", api.StopContainerRequest(pod=POD, container=user("b")))
    assert process.communicate(timeout=60)[0] == "gpu-0 is in use\ngpu-1 is in use\ngpu-0 is free\n"


def test_the_one_shot_mounts_a_file_into_containers_with_a_gpu(tmp_path: Path) -> None:
    for variable, mounted in {"NVIDIA_VISIBLE_DEVICES": ["/etc/nccl.conf"], "OTHER": []}.items():
        container = {"name": "c", "image": "i", "command": ["true"], "env": [{"name": variable, "value": "all"}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
        (tmp_path / "pod.json").write_text(json.dumps(pod))
        line = simulated("-legacy", EXAMPLES / "gpu-config", "-container", tmp_path / "pod.json")
        assert [mount["destination"] for mount in (line["adjust"] or {}).get("mounts", [])] == mounted


def test_the_hook_of_a_security_agent_is_injected_into_every_container(tmp_path: Path) -> None:
    program = "/usr/share/kubearmor/hook"
    own = tmp_path / "hook"
    own.symlink_to("/bin/true")
    (tmp_path / "hooks.d").mkdir()
    text = (EXAMPLES / "kubearmor.json").read_text()
    (tmp_path / "hooks.d/ka.json").write_text(text.replace(f'"path": "{program}"', f'"path": "{own}"'))
    line = simulated("-hooks", tmp_path / "hooks.d")
    hooks = line["adjust"]["hooks"]
    assert {stage: [(hook["path"], hook["args"][0]) for hook in hooks[stage]] for stage in hooks} == {
        "create_runtime": [(str(own), program)],
        "poststop": [(str(own), program)],
    }


def test_the_agent_mounts_what_pods_ask_for_under_one_runtime_after_the_other(
    nri_runtime: Node, tmp_path: Path
) -> None:
    words = ["-I", str(EXAMPLES / "agent.py"), "-socket", str(nri_runtime.socket), "-store", str(tmp_path)]
    asking: dict[str, Any] = {"id": "p", "annotations": {"data.example.com/name": "model"}}
    with subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True) as process:
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
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    joined = "joined: {} pods have data\nleft: {}\n".format
    gone = "the runtime has gone"
    assert output == joined(0, gone) + joined(1, gone) + joined(1, "SIGTERM")
