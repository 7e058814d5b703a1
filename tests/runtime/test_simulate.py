"""The command `simulate`: the events that it plays, its output, and its exit codes."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest

from adapter import cli
from adapter.commands.simulate import command
from adapter.commands.simulate.play import Play
from adapter.nri import events
from adapter.runtime import read

from .fixtures import Plugins
from .simulation import LIFE, LISTENS, MANIFEST, SETS, Simulate, env, named

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("*/events-one-pod.jsonl"))

# ---- what is played


@pytest.mark.parametrize("dash", ["-", "--"])
def test_without_a_script_it_is_the_life_of_a_recorded_pod(plugins: Plugins, simulate: Simulate, dash: str) -> None:
    code, lines = simulate.json(f"{dash}plugin", plugins.write("10-a", SETS.format(key="A", value="1")))
    assert code == 0
    assert [line["event"] for line in lines] == ["Synchronize", *LIFE]
    assert env(named(lines, "CreateContainer")["spec"]) == ["PATH=/bin", "HOSTNAME=vm", "FOO=bar", "A=1"]


@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: str(file.parent.name))
def test_a_recording_is_played_as_the_runtime_that_was_recorded(
    plugins: Plugins, simulate: Simulate, file: Path
) -> None:
    plugin = plugins.write("10-a", LISTENS.format(handler="stop_pod_sandbox", what="'seen ' + request.pod.name"))
    code, lines = simulate.json("-plugin", plugin, "-events", file)
    assert code == 1
    assert [line["event"] for line in lines[1:]] == [
        one.event for one in read(file) if one.event not in ("Configure", "Synchronize")
    ]
    assert named(lines, "StopPodSandbox")["error"] == "seen p1"


WHO = """
class Mine(Plugin):
    def configure(self, request, context):
        self.who = f"{request.runtime_name} {request.runtime_version} {request.NRI_version or 'untold'}"
    def run_pod_sandbox(self, request, context):
        raise RuntimeError(self.who)
run(Mine())
"""


@pytest.mark.parametrize(
    ("runtime", "told"),
    [
        ("containerd/1.7.35", "containerd 1.7.35 untold"),
        ("containerd/v2.4.2", "containerd v2.4.2 v0.12.3"),
        ("cri-o/1.34.0", "cri-o 1.34.0 untold"),
        ("cri-o/1.36.3", "cri-o 1.36.3 untold"),
    ],
)
def test_a_runtime_can_be_asked_for(plugins: Plugins, simulate: Simulate, runtime: str, told: str) -> None:
    plugin = plugins.write("10-a", WHO)
    for events_ in ([], ["-events", GOLDEN[1]]):
        _, lines = simulate.json("-plugin", plugin, "-runtime", runtime, *events_)
        assert named(lines, "RunPodSandbox")["error"] == told
        assert [line["event"] for line in lines] == [
            "Synchronize", "RunPodSandbox", "StopPodSandbox", "RemovePodSandbox",
        ], "of a pod that failed, only its end is told"  # fmt: skip


def test_the_plugins_are_told_what_there_was_before_the_recording(
    plugins: Plugins, simulate: Simulate, tmp_path: Path
) -> None:
    recording = tmp_path / "events.jsonl"
    before = {"event": "Synchronize", "extra": {"pods": [{"id": "old"}], "containers": [{"id": "c"}]}}
    recording.write_text(json.dumps(before) + "\n" + json.dumps({"event": "RunPodSandbox", "pod": {"id": "p"}}))
    source = """
    class Mine(Plugin):
        def synchronize(self, request, context):
            return api.SynchronizeResponse(update=[api.ContainerUpdate(container_id=request.containers[0].id)])
        def run_pod_sandbox(self, request, context):
            pass
    run(Mine())
    """
    code, lines = simulate.json("-plugin", plugins.write("10-a", source), "-events", recording)
    assert code == 0
    assert lines[0]["update"] == [{"container_id": "c"}]


def test_a_manifest_is_played_the_life_of(plugins: Plugins, simulate: Simulate, tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(MANIFEST)
    plugin = plugins.write("10-a", SETS.format(key="MOOD", value="good"))
    code, lines = simulate.json("-plugin", plugin, "-container", tmp_path / "pod.yaml")
    assert code == 0
    assert [line["event"] for line in lines[1:]] == [event for event in LIFE if "Update" not in event]
    assert named(lines, "CreateContainer")["spec"]["process"] == {"args": ["/bin/server"], "env": ["MOOD=good"]}


SEES = (
    "request.pod.namespace, request.pod.name, request.container.name, request.container.state, *request.container.env"
)


def test_what_a_manifest_leaves_open_is_said_and_the_command_can_be_given(
    plugins: Plugins, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = plugins.write("10-a", LISTENS.format(handler="create_container", what="list(request.container.args)"))
    text = MANIFEST.replace("command: [/bin/server]", "args: [-v]").encode()
    for words, args in ([], "[]"), (["-command", "/x"], "['/x', '-v']"):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
        assert cli.main(["simulate", "-plugin", str(plugin), "-container", "-", *words]) == 1
        out, err = capfd.readouterr()
        assert f"FAILED: {args}\n" in out
        assert ("not known: the command: the image decides (-command gives it)\n" in err) is (not words)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    cli.main(["simulate", "-plugin", str(plugin), "-container", "-", "-o", "json"])
    created = named([json.loads(line) for line in capfd.readouterr().out.splitlines()], "CreateContainer")
    assert created["unknown"][1:] == ["the command: the image decides (-command gives it)"]


def test_later_events_tell_of_the_container_as_the_plugins_made_it(
    plugins: Plugins, simulate: Simulate, tmp_path: Path
) -> None:
    (tmp_path / "pod.yaml").write_text(MANIFEST)
    sets = plugins.write("10-a", SETS.format(key="MOOD", value="good"))
    sees = plugins.write("20-b", LISTENS.format(handler="start_container", what=f"({SEES})"))
    _, lines = simulate.json("-plugin", sees, "-plugin", sets, "-container", tmp_path / "pod.yaml")
    assert named(lines, "StartContainer")["error"] == "('default', 'web', 'main', 1, 'MOOD=good')"


def test_of_an_oci_config_nothing_is_lost(plugins: Plugins, simulate: Simulate, tmp_path: Path) -> None:
    spec = {
        "ociVersion": "1.0.2",
        "process": {"args": ["/x"], "env": ["A=0"], "cwd": "/", "oomScoreAdj": 5},
        "linux": {"resources": {"memory": {"limit": 5}}, "maskedPaths": ["/proc/x"]},
    }
    (tmp_path / "config.json").write_text(json.dumps(spec))
    source = """
    class Mine(Plugin):
        def create_container(self, request, context):
            linux = request.container.linux
            response = api.CreateContainerResponse()
            response.adjust.linux.resources.memory.limit.value = linux.resources.memory.limit.value * 2
            response.adjust.linux.oom_score_adj.value = linux.oom_score_adj.value * 2
            return response
    run(Mine())
    """
    code, lines = simulate.json("-plugin", plugins.write("10-a", source), "-container", tmp_path / "config.json")
    assert code == 0
    spec["process"]["oomScoreAdj"] = 10  # type: ignore[index]
    spec["linux"]["resources"]["memory"]["limit"] = 10  # type: ignore[index]
    assert named(lines, "CreateContainer")["spec"] == spec


def test_an_nri_container_may_have_its_pod_in_a_file_of_its_own(
    plugins: Plugins, simulate: Simulate, tmp_path: Path
) -> None:
    (tmp_path / "c").write_text(json.dumps({"id": "c1", "name": "c", "env": ["A=1"]}))
    (tmp_path / "p").write_text(json.dumps({"id": "p1", "name": "p", "namespace": "ns"}))
    sees = plugins.write("20-b", LISTENS.format(handler="start_container", what=f"({SEES})"))
    _, lines = simulate.json("-plugin", sees, "-container", tmp_path / "c", "-pod", tmp_path / "p")
    assert named(lines, "StartContainer")["error"] == "('ns', 'p', 'c', 1, 'A=1')"


# ---- what comes of it


def test_the_json_has_an_object_a_line_of_one_shape(plugins: Plugins, simulate: Simulate) -> None:
    source = """
    class Mine(Plugin):
        def create_container(self, request, context):
            response = api.CreateContainerResponse()
            response.adjust.linux.resources.memory.limit.value = 5
            update = response.update.add(container_id="other", ignore_failure=True)
            update.linux.resources.cpu.cpus = "0"
            return response
    run(Mine())
    """
    _, lines = simulate.json("-plugin", plugins.write("10-a", source))
    for line in lines:
        with_spec = ["spec"] if line["event"] == "CreateContainer" else []
        assert list(line) == ["event", "us", "plugins", "adjust", "update", "error", *with_spec]
        assert isinstance(line["us"], int)
    created = named(lines, "CreateContainer")
    assert [list(plugin) for plugin in created["plugins"]] == [["name", "us", "error"]]
    assert created["us"] >= created["plugins"][0]["us"] > 0
    assert created["adjust"] == {"linux": {"resources": {"memory": {"limit": {"value": "5"}}}}}
    assert created["update"] == [
        {"container_id": "other", "linux": {"resources": {"cpu": {"cpus": "0"}}}, "ignore_failure": True}
    ]
    started = named(lines, "StartContainer")
    assert (started["plugins"], started["adjust"], started["update"], started["error"]) == ([], {}, [], "")


def test_people_get_a_line_for_each_event_and_what_changed(plugins: Plugins, simulate: Simulate) -> None:
    plugin = plugins.write("10-a", SETS.format(key="FOO", value="1"))
    code, out = simulate.text("-plugin", plugin)
    assert code == 0
    lines = out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("CreateContainer "))
    assert "10-a" in lines[at]
    assert lines[at].count(" ms") == 2
    assert lines[at + 1 : at + 3] == ['    - process.env[FOO]  "FOO=bar"', '    + process.env[FOO]  "FOO=1"']
    assert lines[at + 3].startswith("PostCreateContainer ")
    assert lines[at + 3].endswith("no plugin is subscribed")
    assert lines[-1] == f"{len(LIFE) + 1} events, no problems"


def test_a_conflict_fails_the_creation_and_what_would_follow_is_not_told(plugins: Plugins, simulate: Simulate) -> None:
    words = [
        word for name in ("10-a", "20-b") for word in ("-plugin", plugins.write(name, SETS.format(key="X", value="1")))
    ]
    code, lines = simulate.json(*words)
    assert code == 1
    assert named(lines, "CreateContainer")["error"] == 'plugins "20-b" and "10-a" both tried to set Env X'
    assert "spec" not in named(lines, "CreateContainer")
    assert [line["event"] for line in lines] == [
        "Synchronize", "RunPodSandbox", "CreateContainer", "StopContainer", "RemoveContainer", "StopPodSandbox",
        "RemovePodSandbox",
    ]  # fmt: skip
    _, out = simulate.text(*words)
    assert '    FAILED: plugins "20-b" and "10-a" both tried to set Env X\n' in out
    assert out.splitlines()[-1].startswith("PROBLEM: CreateContainer: plugins")


def test_an_error_fails_the_event(plugins: Plugins, simulate: Simulate) -> None:
    plugin = plugins.write("10-a", LISTENS.format(handler="start_container", what="'not today'"))
    for runtime, goes_on in (("containerd/2.4.2", False), ("cri-o/1.34.0", True)):
        code, lines = simulate.json("-plugin", plugin, "-runtime", runtime)
        assert code == 1
        started = named(lines, "StartContainer")
        assert (started["error"], started["plugins"][0]["error"]) == ("not today", "not today")
        assert ("PostStartContainer" in [line["event"] for line in lines]) is goes_on, "to CRI-O it is a warning"


def test_what_a_plugin_says_stays_in_its_line(plugins: Plugins, simulate: Simulate) -> None:
    plugin = plugins.write("10-a", LISTENS.format(handler="start_container", what="'one\\n\\x1b[2Jtwo é'"))
    _, out = simulate.text("-plugin", plugin)
    assert "    FAILED: one\\n\\x1b[2Jtwo é\n" in out


STUCK = """
class Mine(Plugin):
    def start_container(self, request, context):
        {does}
run(Mine())
"""


@pytest.mark.parametrize(
    ("does", "reason"),
    [("os._exit(7)", "connection closed by the plugin"), ("signal.pause()", "no answer in 2 s")],
    ids=["dies", "sleeps"],
)
def test_a_plugin_that_does_not_answer_is_named_and_dropped_and_the_event_goes_on(
    plugins: Plugins, simulate: Simulate, monkeypatch: pytest.MonkeyPatch, does: str, reason: str
) -> None:
    monkeypatch.setattr(command, "Play", Play)  # with the runtime's own limits
    bad = plugins.write("10-bad", STUCK.format(does=does))
    good = plugins.write("20-good", SETS.format(key="A", value="1"))
    code, out = simulate.text("-plugin", bad, "-plugin", good)
    assert code == 1
    text = f"plugin 10-bad failed to handle StartContainer request: {reason}"
    assert f"    10-bad: {text}\n" in out
    assert out.splitlines()[-1] == f"PROBLEM: StartContainer: 10-bad: {text}", "and it is said once"
    assert "RemovePodSandbox" in out


def test_a_plugin_that_does_not_start_leaves_the_others_their_events(plugins: Plugins, simulate: Simulate) -> None:
    good = plugins.write("20-good", SETS.format(key="A", value="1"))
    code, lines = simulate.json("-plugin", "10-true=/bin/true", "-plugin", good)
    assert code == 1
    bad, fine = lines[0]["plugins"]
    assert bad["error"] == "plugin 10-true failed to register: connection closed by the plugin"
    assert (fine["name"], fine["error"]) == ("20-good", "")
    assert named(lines, "CreateContainer")["plugins"][0]["name"] == "20-good"


def test_with_no_plugin_in_service_nothing_is_played(simulate: Simulate) -> None:
    code, out = simulate.text("-plugin", "10-true=/bin/true")
    assert code == 1
    assert "RunPodSandbox" not in out


def test_updates_that_a_plugin_asks_for_by_itself_are_shown(plugins: Plugins, simulate: Simulate) -> None:
    source = """
    def answer(plugin, request):
        if request.method == "PostCreateContainer":
            wanted = api.UpdateContainersRequest(update=[api.ContainerUpdate(container_id="x")])
            plugin.call("UpdateContainers", wanted.SerializeToString())
        return b""
    raw.run(answer)
    """
    code, lines = simulate.json("-plugin", plugins.write("10-a", source))
    assert code == 0
    asked = named(lines, "UpdateContainers")
    assert (asked["plugins"][0]["name"], asked["update"]) == ("10-a", [{"container_id": "x"}])
    assert lines[lines.index(asked) - 1]["event"] == "PostCreateContainer"


# ---- what cannot be used


def test_what_cannot_be_used_is_named_with_file_and_line(plugins: Plugins, simulate: Simulate, tmp_path: Path) -> None:
    plugin = plugins.write("10-a", SETS.format(key="A", value="1"))
    file = tmp_path / "file"
    start = ["-plugin", plugin]
    assert f"{tmp_path}/none: No such file" in simulate.refused(*start, "-events", tmp_path / "none")
    os.mkfifo(tmp_path / "fifo")
    assert f"{tmp_path}/fifo: not a regular file" in simulate.refused(*start, "-events", tmp_path / "fifo")
    for text, said in (
        (b'{"event": "RunPodSandbox", "pod": {}}\n{"event": "Nonsense"}\n', ":2: no recorded event"),
        (b'\xff{"event"', ":1: no text: the byte 0xff is not UTF-8"),
        (
            b'{"event": "RunPodSandbox", "pod": {"id": 5}}',
            ":1: no recorded event: pod.id: must be a text, not a number",
        ),
        (b"[" * 100_000, ":1: nested too deeply\n"),
        (b"{}\n[1]", ":1: no recorded event: event: '' is no event\n"),
        (b"\n[1]", ":2: no recorded event: [0]: must be a mapping, not a number\n"),
        (b"\x7fELF\2\1\0\xd0", ":1: no text: the byte 0xd0 is not UTF-8\n"),
        (b"{}", ":1: no recorded event: event: '' is no event\n"),
        (b'{"event": ["x"]}', ":1: no recorded event: event: must be a text, not a list\n"),
        (b'{"event": "CreateContainer", "pod": 5}', ":1: no recorded event: pod: must be a mapping, not a number\n"),
        (
            b'{"event": "StartContainer", "container": {"linux": {"resources": {"cpu": {"shares": {"value": "x"}}}}}}',
            ":1: no recorded event: container.linux.resources.cpu.shares.value: must be a whole number\n",
        ),
        (
            b'{"event": "UpdateContainer", "extra": 7}',
            ":1: no recorded event: extra: must be a mapping, not a number\n",
        ),
        (b"", ": nothing in it"),
    ):
        file.write_bytes(text)
        assert f"{file}{said}" in simulate.refused(*start, "-events", file)
    for container, said in (
        ('{"id": "c",\n"args": "/x"}', ":2: args: must be a list, not a text"),
        (
            '{"id": "c",\n"linux": {"oom_score_adj": {"value": "x"}}}',
            ":2: linux.oom_score_adj.value: must be a whole number",
        ),
        ('{"id": "c", "linux":\n{"devices": [\n{"uid": "x"}]}}', ":3: linux.devices[0].uid: must be a mapping"),
        ('{"ociVersion": "1", "linux":\n{"devices": [\n{"path": 5}]}}', ":3: linux.devices[0]: path: not what belongs"),
        (MANIFEST.replace("/bin/server", "on"), ":9: spec.containers[0].command[0]: must be a text"),
    ):
        file.write_text(container)
        assert f"{file}{said}" in simulate.refused(*start, "-container", file)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give -plugin, -legacy, -hooks or -socket"),
        (["-plugin", "1-x=/bin/true"], "'1-x' is not NN-NAME"),
        (["-plugin", "10-x=/nonexistent"], "no such program"),
        (["-plugin", "10-x=/etc/passwd"], "not executable"),
        (["-plugin", "10-x=/bin"], "not executable"),
        (["-plugin", "10-x=/bin/true", "-plugin", "10-x=/bin/sh"],
            "10-x=/bin/true: another plugin has the name 10-x, too"),
        (["-plugin", "10-x=/bin/true", "-runtime", "docker/1"], "invalid choice: 'docker/1' (choose from "),
        (["-plugin", "10-x=/bin/true", "-events", "a", "-container", "b"], "exclude each other"),
        (["-plugin", "10-x=/bin/true", "-pod", "b"], "belong to -container"),
        (["-plugin", "10-x=/bin/true", "-event", "StopContainer"], "-event belongs to -legacy"),
        (["-legacy", "/bin/true", "-event", "x"], "-event x: not played; there are: RunPodSandbox, CreateContainer, "),
        (["-legacy", "/nonexistent"], "-legacy /nonexistent: no such program"),
        (["-legacy", "/etc/passwd"], "-legacy /etc/passwd: not executable"),
        (["-hooks", "/nonexistent"], "-hooks /nonexistent: no such directory"),
        (["-socket", "/x" * 100], "AF_UNIX path too long"),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, list) else "",
)  # fmt: skip
def test_arguments_that_make_no_sense_are_refused(simulate: Simulate, words: list[str], said: str) -> None:
    assert said in simulate.refused(*words)


def test_every_event_has_a_line_of_its_own_name() -> None:
    assert set(LIFE) <= set(events.CALLS)
