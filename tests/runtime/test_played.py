"""What is played: recorded events, and the fixture `nri_runtime`, with which authors of plugins test."""

from __future__ import annotations

import re
from pathlib import Path
from threading import enumerate as enumerate_threads
from typing import Any

import pytest

from nri import CallError, Context, NRIError, Plugin, api
from nri.errors import RegistrationError
from nri.testing import FLAVOURS, POD_LIFE
from nri.testing.node import Node
from tests.peers.harness import require
from v010_adapter.container_files.recording import read
from v010_adapter.errors import ConfigError

from ..rig.brief import few
from ..rig.embedded import ROOT, WILLING, Plugins
from ..rig.processes import open_descriptors
from ..rig.simulation import GOLDEN, LIFE
from ..rig.trunk import plugin


@pytest.mark.parametrize("name", few(list(FLAVOURS)))
def test_a_go_plugin_gets_what_was_recorded_on_each_runtime(plugins: Plugins, tmp_path: Path, name: str) -> None:
    (plugins.path / "10-recorder").symlink_to(require("recorder"))
    (plugins.config / "recorder.conf").write_text(str(tmp_path / "recorded.jsonl"))
    runtime = plugins.start(FLAVOURS[name])
    assert [plugin.name for plugin in runtime.plugins] == ["10-recorder"]
    played = [one for one in read(GOLDEN[name]) if one.event not in ("Configure", "Synchronize")]
    for event, request in played:
        assert runtime.event(event, request).error == ""
    configure, _, *recorded = read(tmp_path / "recorded.jsonl")
    assert recorded == played
    assert getattr(configure.request, "runtime_version", None) == FLAVOURS[name].version


def test_the_package_has_a_copy_of_the_golden_recording() -> None:
    assert POD_LIFE.read_bytes() == GOLDEN["containerd/2.4.2"].read_bytes()


EVENT = b'{"event": "RunPodSandbox", "pod": {"id": "p"}}\n\n'
BAD = [
    (EVENT + b"nonsense", "3: unexpected 'n'"),
    (EVENT + b'{"event": "Nonsense"}', "3: not a recorded event: event: 'Nonsense' is not an event"),
    (
        b'{"event": "RunPodSandbox", "pod": {"id": 5}}',
        "1: not a recorded event: pod.id: must be a text, not a number (put it in quotes)",
    ),
    (b'{"event": "StartContainer", "pod": {"pid": "x"}}', "1: not a recorded event: pod.pid: must be a whole number"),
    (b'{"event": "UpdateContainer", "extra": 7}', "1: not a recorded event: extra: must be a mapping, not a number"),
    (b'\xff{"event"', "1: not a text: the byte 0xff is not UTF-8"),
    (b"[" * 100_000, "1: nested too deeply"),
]


def test_a_line_that_is_no_event_is_named(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    for text, reason in BAD:
        path.write_bytes(text)
        with pytest.raises(ConfigError) as refused:
            list(read(path))
        assert str(refused.value) == f"{path}:{reason}"


BOTH_GENERATIONS = pytest.mark.parametrize("nri_runtime", ["containerd/1.7.35", "containerd/2.4.2"], indirect=True)


class Sets(Plugin):
    """Sets a variable of each container, and remembers what it has seen."""

    def __init__(self, value: str = "") -> None:
        self.value = value
        self.seen: list[Any] = []

    def synchronize(self, request: api.SynchronizeRequest, context: Context) -> None:
        self.seen.append(request)

    async def create_container(
        self, request: api.CreateContainerRequest, context: Context
    ) -> api.CreateContainerResponse:
        self.seen.append(request)
        response = api.CreateContainerResponse()
        response.adjust.env.add(key="MOOD", value=self.value)
        return response

    def update_container(self, request: api.UpdateContainerRequest, context: Context) -> None:
        self.seen.append(request)

    def post_start_container(self, request: api.PostStartContainerRequest, context: Context) -> None:
        self.seen.append(request)


@BOTH_GENERATIONS
def test_a_pods_life_and_single_events_reach_an_instance_in_either_generation(nri_runtime: Node) -> None:
    plugin = Sets("fine")
    made = nri_runtime.add(plugin)
    assert (made.name, made.state_change) == ("10-sets", nri_runtime.flavour.nri == "v0.8.0")
    outcomes = nri_runtime.play({"name": "web"}, env=["A=1"])
    assert list(outcomes) == LIFE
    adjust = outcomes["CreateContainer"].adjust
    assert adjust
    assert [(one.key, one.value) for one in adjust.env] == [("MOOD", "fine")]
    _, created, started, _ = plugin.seen
    assert (created.pod.name, list(created.container.env), started.container.env) == ("web", ["A=1"], ["A=1"])
    nri_runtime.event("CreateContainer", pod={"annotations": {"a": "b"}}, name="main", linux={"sysctl": {"x": "1"}})
    one = plugin.seen[-1]
    assert (one.container.name, one.container.linux.sysctl, one.pod.annotations) == ("main", {"x": "1"}, {"a": "b"})
    latencies = nri_runtime.latencies()
    assert latencies["create_container"].answers == 2
    assert 0 < latencies["create_container"].p50 <= latencies["create_container"].p99
    assert (nri_runtime.latencies("10-sets"), nri_runtime.latencies("11-other")) == (latencies, {})


@pytest.mark.parametrize(
    ("event", "fields", "text"),
    [
        ("CreateContaner", {}, "'CreateContaner' is no event of NRI; did you mean CreateContainer?"),
        ("Synchronize", {}, "'Synchronize' is no event of NRI; did you mean "),
        ("", {}, "'' is no event of NRI; did you mean "),
        ("a" * 101, {}, f"'{'a' * 101}' is no event of NRI; did you mean StartContainer?"),
        ("CreateContainer", {"nmae": "main"}, "Container.nmae: unknown field; did you mean `name`?"),
        ("CreateContainer", {"name": 1}, "Container.name: 1 is no value for text: "),
        ("CreateContainer", {"env": "A=1"}, "Container.env: 'A=1' is no value for a list of text: a text is "),
        ("CreateContainer", {"labels": ["a"]}, "Container.labels: ['a'] is no value for a dictionary of texts: "),
        ("RunPodSandbox", {"pid": "1"}, "PodSandbox.pid: '1' is no value for number: "),
        ("CreateContainer", {"pod": {"linux": 1}}, "PodSandbox.linux: 1 is no value for LinuxPodSandbox: "),
    ],
)
def test_what_cannot_be_played_is_named(nri_runtime: Node, event: str, fields: dict[str, Any], text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(text)}"):
        nri_runtime.event(event, **fields)


def test_the_outcome_of_an_event_that_has_failed_says_why(nri_runtime: Node) -> None:
    def refuse(*_: object) -> None:
        raise CallError(3, "no")

    nri_runtime.add(plugin(create_container=refuse))
    outcome = nri_runtime.event("CreateContainer")
    for name in ("adjust", "request"):
        with pytest.raises(NRIError, match=r"^CreateContainer has failed: no$"):
            getattr(outcome, name)
    assert (outcome.error, outcome.adjusted, outcome.requested, outcome.update) == ("no", None, None, [])


def test_every_event_can_be_played_and_fields_of_its_request_replaced(nri_runtime: Node) -> None:
    plugin = Sets()
    nri_runtime.add(plugin)
    nri_runtime.event("UpdateContainer", linux_resources={"cpu": {"shares": {"value": 7}}})
    assert plugin.seen[-1].linux_resources.cpu.shares.value == 7
    for method in ("UpdatePodSandbox", "PostUpdatePodSandbox", "ValidateContainerAdjustment", "PostCreateContainer"):
        assert nri_runtime.event(method).error == ""
    assert nri_runtime.event("RunPodSandbox", name="web").request.pod.name == "web"  # type: ignore[union-attr]


def test_a_synchronize_in_parts_is_one_for_the_plugin(nri_runtime: Node, plugins: Plugins) -> None:
    nri_runtime.objects_per_part = 3
    for pods, containers in ((7, 4), (0, 0), (0, 3), (3, 0)):
        nri_runtime.pods = [api.PodSandbox(id=f"p{number}") for number in range(pods)]
        nri_runtime.containers = [api.Container(id=f"c{number}") for number in range(containers)]
        plugin = Sets()
        nri_runtime.add(plugin)
        whole = api.SynchronizeRequest(pods=nri_runtime.pods, containers=nri_runtime.containers)
        assert plugin.seen == [whole]
    with pytest.raises(RegistrationError, match="does not handle a Synchronize in parts"):
        nri_runtime.add(plugins.write("10-takes-a-part-for-the-whole", WILLING.format(events=1)))


def test_a_plugin_that_is_refused_or_does_not_start_is_an_error(nri_runtime: Node, tmp_path: Path) -> None:
    for name, idx, error in (("", "1", "two digits"), ("a b", "", "invalid plugin name")):
        with pytest.raises(RegistrationError, match=error):
            nri_runtime.add(Sets(), name=name, idx=idx)
    (tmp_path / "bad.py").write_text("raise SystemExit(1)")
    with pytest.raises(RegistrationError, match="failed to register"):
        nri_runtime.add(tmp_path / "bad.py")
    with pytest.raises(OSError, match="absent"):
        nri_runtime.add(tmp_path / "absent")
    with pytest.raises(ValueError, match="config: runtimes pass it only to plugins that they launch: add the file"):
        nri_runtime.add(Sets(), config="x: 1")
    with pytest.raises(ValueError, match="reconnect: a plugin that a runtime has launched does not join again"):
        nri_runtime.add(tmp_path / "absent", reconnect=True)
    with pytest.raises(KeyError, match="runc"):
        Node("runc/1")


def test_a_file_is_launched_under_the_name_that_it_has_and_what_it_prints_is_seen(
    nri_runtime: Node, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    example = ROOT / "examples/nice.py"
    (tmp_path / "44-kind.py").symlink_to(example)
    for file, name in ((example, "10-nice"), (tmp_path / "44-kind.py", "44-kind")):
        assert nri_runtime.add(file).name == name
    assert nri_runtime.add(tmp_path / "44-kind.py", name="other", idx="20").name == "20-other"
    (tmp_path / "says.py").write_text("import nri\nprint('here')\nnri.run(nri.Plugin())")
    nri_runtime.add(tmp_path / "says.py")
    assert "here\n" in capfd.readouterr().err, "at once: it may be killed"


def test_an_instance_may_join_again_and_ends_with_the_runtime() -> None:
    plugin, before = Sets(), len(open_descriptors())
    with Node() as node:
        first = node.add(plugin, name="again", reconnect=True)
        node.lose()
        assert (first.closed, node.plugins) == ("the runtime has closed the connection", [])
        assert node.accept().name == first.name == "10-again"
        assert len(plugin.seen) == 2, "it is synchronized again"
        node.socket.unlink()  # nobody needs it any more
        assert [one.name for one in enumerate_threads() if one.name == "again"] == ["again"]
    assert not [one.name for one in enumerate_threads() if one.name == "again"]
    assert not node.socket.parent.exists()
    assert len(open_descriptors()) <= before
