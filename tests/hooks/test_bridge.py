"""The hooks of this node: from a request of the runtime to the hooks in its answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nri import api
from nri.deferred import in_turn
from nri.runtimes import Runtime
from v010_adapter.events.hooks import HookBridge
from v010_adapter.hooks.directory import JOURNAL, SYSTEMD_CAT
from v010_adapter.hooks.match import NamedHook, adjustment
from v010_adapter.hooks.model import STAGES, Hook, When
from v010_adapter.host import paths
from v010_adapter.monitoring.trace import Trace
from v010_adapter.programs.process import Runner
from v010_adapter.settings import HookFileSettings, HooksSettings

from ..rig.programs import Programs
from .hookdirs import PROGRAM, Watching, text

POD = api.PodSandbox(namespace="default", name="web")
LEFT_OUT = " (hooks.output: journal); the runtime gets what hooks print"
BIND = api.Mount(destination="/data", source="/srv", type="bind")


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that were just written need no second look."""
    monkeypatch.setattr(paths, "TIMESTAMP_STEP", -(1 << 62))


@pytest.mark.parametrize("other", ['{"always": true}', '{"commands": ["x"]}'])
def test_a_container_gets_the_hooks_that_match_and_the_log_names_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, other: str
) -> None:
    """Mounts are looked at if any hook asks for them."""
    (tmp_path / "a.json").write_bytes(text(1, when=other))
    (tmp_path / "b.json").write_bytes(text(2, when='{"hasBindMounts": true}'))
    loop = Watching()
    hooks = begun(loop, tmp_path)
    [watched] = loop.watched
    hooks.start(Runtime(nri=(0, 8, 0)))  # at the next Synchronize
    loop.settle()
    assert loop.watched == [watched]
    caplog.set_level("INFO")
    caplog.clear()
    of_a = ["1"] if "always" in other else []
    for mounts, versions in (([BIND], [*of_a, "2"]), ([], of_a)):
        response = api.CreateContainerResponse()
        container = api.Container(id="c", name="nginx", mounts=mounts)
        request, trace = api.CreateContainerRequest(pod=POD, container=container), Trace("00-…", f"{len(mounts)}")
        assert in_turn(hooks.on_creation(request, response, 2.0, trace)).done
        assert [hook.args[1] for hook in response.adjust.hooks.create_runtime] == versions
    loop.settle()
    a, b = "createRuntime #0: a.json", f"createRuntime #{len(of_a)}: b.json"
    told = [f"{a}, {b}", a] if of_a else [b]
    assert caplog.messages == [f"hooks for container default/web/nginx (c): {files}" for files in told]
    assert [getattr(record, "trace_id", "") for record in caplog.records] == (["1", "0"] if of_a else ["1"])
    assert hooks.containers == {f"{tmp_path}/a.json": 2 * len(of_a), f"{tmp_path}/b.json": 1}


def inject(hooks: HookBridge, container: api.Container, response: api.CreateContainerResponse, pod: Any = POD) -> None:
    request = api.CreateContainerRequest(pod=pod, container=container)
    assert in_turn(hooks.on_creation(request, response, 2.0)).done


def begun(loop: Watching, directory: Path, host_root: str = "/", **own: Any) -> HookBridge:
    """A bridge that has read the files of a directory."""
    hooks = HookBridge(loop, HooksSettings(directories=(str(directory),), **own), Runner(loop), host_root)
    hooks.start(Runtime(nri=(0, 12, 5)))
    return hooks


def test_the_log_numbers_the_hooks_of_each_stage_behind_those_that_are_there_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As the OCI runtime counts them in its errors: those of the container itself, and those of plugins before."""
    monkeypatch.setattr(HookBridge, "_run_precreate", lambda _, __, ___, response, *____: response)
    stages = {"a": ["prestart", "poststop"], "b": ["precreate"], "c": ["createRuntime", "startContainer"], "d": []}
    for name, of_name in stages.items():
        file = text(name).replace(b'["prestart"]', json.dumps(of_name).encode())
        (tmp_path / f"{name}.json").write_bytes(file)
    loop = Watching()
    hooks = begun(loop, tmp_path, precreate=True)
    caplog.set_level("INFO")
    caplog.clear()
    there = [api.Hook(path="/cdi")]
    own = api.Hooks(create_runtime=there * 2, prestart=there, poststop=there)
    response = api.CreateContainerResponse()
    response.adjust.hooks.create_runtime.extend(there)
    inject(hooks, api.Container(id="c", name="nginx", hooks=own), response)
    loop.settle()
    assert [hook.path for hook in response.adjust.hooks.create_runtime] == ["/cdi", PROGRAM, PROGRAM]
    told = "createRuntime #3: a.json, createRuntime #4: c.json, startContainer #0: c.json, poststop #1: a.json"
    assert caplog.messages == [f"hooks for container default/web/nginx (c): {told}, precreate: b.json"]
    caplog.clear()
    (tmp_path / "a.json").unlink()
    (tmp_path / "b.json").unlink()
    (tmp_path / "c.json").unlink()
    inject(hooks, api.Container(id="c"), api.CreateContainerResponse())
    loop.settle()
    assert caplog.messages[-1] == "hooks for container default/web (c): none at any stage"


def test_the_default_timeout_is_for_hooks_whose_file_has_none(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(text(1))
    (tmp_path / "b.json").write_bytes(text(2).replace(b'"path"', b'"timeout": 7, "path"'))
    for timeout, limits in ((0, [None, 7]), (20, [20, 7])):
        response = api.CreateContainerResponse()
        inject(begun(Watching(), tmp_path, timeout=timeout), api.Container(id="c"), response)
        injected = response.adjust.hooks.create_runtime
        assert [hook.timeout.value if hook.HasField("timeout") else None for hook in injected] == limits


def test_hooks_spare_the_namespaces_of_not_in(tmp_path: Path) -> None:
    """A file's own list replaces that of all files."""
    for name in "abc":
        (tmp_path / f"{name}.json").write_bytes(text(name))
    files = {"b.json": HookFileSettings(frozenset()), "c.json": HookFileSettings(frozenset(["other", "more"]))}
    loop = Watching()
    hooks = begun(loop, tmp_path, not_in=frozenset(["kube-system"]), files=files)
    for namespace, given in (("kube-system", "bc"), ("other", "ab"), ("default", "abc"), ("", "abc")):
        response = api.CreateContainerResponse()
        inject(hooks, api.Container(id="c"), response, api.PodSandbox(namespace=namespace))
        assert [hook.args[1] for hook in response.adjust.hooks.create_runtime] == list(given), namespace
        loop.settle()
    assert hooks.containers == {f"{tmp_path}/a.json": 3, f"{tmp_path}/b.json": 4, f"{tmp_path}/c.json": 3}


def test_with_the_setting_a_container_gets_the_pods_annotations_that_its_hooks_match_and_that_it_lacks(
    tmp_path: Path,
) -> None:
    """A plugin may have decided on one."""
    (tmp_path / "a.json").write_bytes(text(when='{"annotations": {"^org[.]qm[.]": "^true$"}}'))
    (tmp_path / "b.json").write_bytes(text(when='{"annotations": {"other": "nobody"}}'))
    pod = api.PodSandbox(annotations=dict.fromkeys(("org.qm.kvm", "org.qm.set", "other"), "true") | {"org.qm.tty": ""})
    kvm = {"org.qm.kvm": "true"}
    # The setting, the annotations of the container and of plugins, and those of the answer.
    rows: list[tuple[bool, dict[str, str], dict[str, str], dict[str, str]]] = [
        (False, {}, {}, {}),
        (True, {"org.qm.set": "true"}, {}, kvm),
        (True, {}, {"org.qm.set": "plugin"}, kvm | {"org.qm.set": "plugin"}),
        (True, {}, {"-org.qm.set": ""}, kvm | {"-org.qm.set": ""}),
    ]
    for setting, own, before, expected in rows:
        response = api.CreateContainerResponse(adjust=api.ContainerAdjustment(annotations=before))
        inject(begun(Watching(), tmp_path, pod_annotations=setting), api.Container(annotations=own), response, pod)
        assert response.adjust.annotations == expected


def test_with_the_journal_hooks_are_run_by_systemd_cat_where_it_can_work(tmp_path: Path) -> None:
    """Not those that run in the container. What changes on the node counts for the next container."""
    place, root = tmp_path / "hooks.d", tmp_path / "host"
    place.mkdir()
    stages = ["prestart", "createContainer", "startContainer", "poststart", "poststop"]
    file = text("x").replace(b'["prestart"]', json.dumps(stages).encode()).replace(b'"path"', b'"env": ["A=b"], "path"')
    (place / "\n.json").write_bytes(file)
    for program in (PROGRAM, SYSTEMD_CAT):
        installed = root / program[1:]
        Programs(installed.parent).write(installed.name, b"\x7fELF")
    hooks = begun(Watching(), place, str(root), output="journal", timeout=9)

    def injected() -> api.Hooks:
        response = api.CreateContainerResponse()
        inject(hooks, api.Container(id="c"), response)
        return response.adjust.hooks

    usual = api.Hook(path=PROGRAM, args=[PROGRAM, "x"], env=["A=b"], timeout=api.OptionalInt(value=9))
    logged = api.Hook(path=SYSTEMD_CAT, args=["systemd-cat", "-t", "\\n.json", PROGRAM, "x"], env=["A=b"])
    logged.timeout.value = 9
    with_journal = api.Hooks(start_container=[usual])
    without = api.Hooks()
    for field in ("create_runtime", "create_container", "poststart", "poststop"):
        getattr(with_journal, field).append(logged)
        getattr(without, field).append(usual)
    without.start_container.append(usual)
    assert injected() == with_journal, "/run of the node is not seen, as in a pod"
    (root / "run").mkdir()
    assert injected() == without
    assert hooks.faults == [f"{SYSTEMD_CAT}: {JOURNAL} does not exist{LEFT_OUT}"]
    (root / JOURNAL[1:]).parent.mkdir(parents=True)
    (root / JOURNAL[1:]).touch()
    assert injected() == with_journal
    assert hooks.faults == []
    (root / SYSTEMD_CAT[1:]).unlink()
    assert injected() == without
    assert hooks.faults == [f"{SYSTEMD_CAT}: No such file or directory{LEFT_OUT}"]


def test_precreate_hooks_stand_by_and_others_do_not(tmp_path: Path) -> None:
    for name, stage in (("a", "prestart"), ("b", "precreate"), ("c", "precreate")):
        file = text(name).replace(b"prestart", stage.encode())
        (tmp_path / f"{name}.json").write_bytes(file if name != "c" else file.replace(f'["{PROGRAM}"'.encode(), b'[""'))
    for standby in (0, 2):
        hooks = begun(Watching(), tmp_path, precreate=True, standby=standby)
        assert hooks.programs == ["b.json", "c.json"]
        found = [(program.argv, count) for program, count in hooks.standby_programs()]
        assert found == [((PROGRAM, "b"), 2), ((PROGRAM, "c"), 2)] * (standby > 0)


# ---- what hooks become in NRI's terms


def named(path: str, *stages: str, timeout: int | None = None) -> NamedHook:
    return NamedHook(f"{path}.json", "", Hook(path, (path, "-x"), ("A=b",), timeout, When(), stages))


def injected(*hooks: NamedHook) -> dict[str, list[str]]:
    """Paths by NRI's field names."""
    message = adjustment(hooks)
    fields = message.hooks.ListFields() if message is not None else []
    return {field.name: [hook.path for hook in hooks] for field, hooks in fields}


FIELDS = ("create_runtime", "create_runtime", "create_container", "start_container", "poststart", "poststop")


def test_hooks_are_injected_with_all_they_have_by_their_stages_and_in_their_order() -> None:
    for timeout in (None, 1, 10**9):
        hook = api.Hook(path="a", args=["a", "-x"], env=["A=b"])
        if timeout is not None:
            hook.timeout.value = timeout
        expected = api.ContainerAdjustment(hooks=api.Hooks(poststop=[hook]))
        assert adjustment([named("a", "poststop", timeout=timeout)]) == expected
    for stage, field in zip(STAGES, FIELDS, strict=True):
        assert injected(named("a", stage)) == {field: ["a"]}
    several = [named("b", "poststop", "poststart"), named("a", "prestart", "createRuntime"), named("c", "poststop")]
    in_twice = {"create_runtime": ["a", "a"]}  # as upstream does
    assert injected(*several) == {"poststop": ["b", "c"], "poststart": ["b"], **in_twice}
    assert injected(named("a", "precreate", "poststop")) == {"poststop": ["a"]}
    # What no runtime would run is no adjustment.
    assert [adjustment(hooks) for hooks in ([], [named("a")], [named("a", "precreate")])] == [None] * 3
