"""The command `simulate`: the events that it plays, its output, and its exit codes."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest

from adapter.nri import events
from adapter.runtime import read

from .fixtures import Plugins
from .simulation import LIFE, MANIFEST, Simulate, env, events_of, named

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("*/events-one-pod.jsonl"))

# ---- what is played


def test_without_a_script_it_is_the_life_of_a_recorded_pod(simulate: Simulate) -> None:
    assert set(LIFE) <= set(events.CALLS)
    for option in ("-plugin", "--plugin"):
        code, lines = simulate.json(option, simulate.sets("10-a"))
        assert (code, events_of(lines)) == (0, ["Synchronize", *LIFE])
        assert env(named(lines, "CreateContainer")["spec"]) == ["PATH=/bin", "HOSTNAME=vm", "FOO=bar", "A=1"]


def test_a_recording_is_played_as_the_runtime_that_was_recorded(simulate: Simulate) -> None:
    plugin = simulate.says("10-a", "stop_pod_sandbox", "'seen ' + request.pod.name")
    for file in GOLDEN:
        code, lines = simulate.json("-plugin", plugin, "-events", file)
        recorded = [one.event for one in read(file) if one.event not in ("Configure", "Synchronize")]
        assert (code, events_of(lines)[1:]) == (1, recorded)
        assert named(lines, "StopPodSandbox")["error"] == "seen p1"


@pytest.mark.parametrize(
    ("runtime", "told"),
    [
        ("containerd/1.7.35", "containerd 1.7.35 untold"),
        ("containerd/v2.4.2", "containerd v2.4.2 v0.12.3"),
        ("cri-o/1.34.0", "cri-o 1.34.0 untold"),
        ("cri-o/1.36.3", "cri-o 1.36.3 untold"),
    ],
)
def test_a_runtime_can_be_asked_for(simulate: Simulate, runtime: str, told: str) -> None:
    who = "self.who = f\"{request.runtime_name} {request.runtime_version} {request.NRI_version or 'untold'}\""
    plugin = simulate.answers("10-a", configure=who, run_pod_sandbox="raise RuntimeError(self.who)")
    for script in ([], ["-events", GOLDEN[1]]):
        _, lines = simulate.json("-plugin", plugin, "-runtime", runtime, *script)
        assert named(lines, "RunPodSandbox")["error"] == told
        only_its_end = ["Synchronize", "RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"]
        assert events_of(lines) == only_its_end, "of a pod that failed"


def test_the_plugins_are_told_what_there_was_before_the_recording(simulate: Simulate, tmp_path: Path) -> None:
    before = {"event": "Synchronize", "extra": {"pods": [{"id": "old"}], "containers": [{"id": "c"}]}}
    script = [before, {"event": "RunPodSandbox", "pod": {"id": "p"}}]
    (tmp_path / "events.jsonl").write_text("\n".join(map(json.dumps, script)))
    answer = "return api.SynchronizeResponse(update=[api.ContainerUpdate(container_id=request.containers[0].id)])"
    plugin = simulate.answers("10-a", synchronize=answer, run_pod_sandbox="pass")
    code, lines = simulate.json("-plugin", plugin, "-events", tmp_path / "events.jsonl")
    assert (code, lines[0]["update"]) == (0, [{"container_id": "c"}])


SEES = "(lambda pod, own: (pod.namespace, pod.name, own.name, own.state, *own.env))(request.pod, request.container)"


def test_a_manifest_is_played_the_life_of_and_later_events_tell_of_the_container_as_the_plugins_made_it(
    simulate: Simulate, tmp_path: Path
) -> None:
    (tmp_path / "pod.yaml").write_text(MANIFEST)
    sets, sees = simulate.sets("10-a", "MOOD", "good"), simulate.says("20-b", "start_container", SEES)
    code, lines = simulate.json("-plugin", sets, "-container", tmp_path / "pod.yaml")
    assert (code, events_of(lines)[1:]) == (0, [event for event in LIFE if "Update" not in event])
    assert named(lines, "CreateContainer")["spec"]["process"] == {"args": ["/bin/server"], "env": ["MOOD=good"]}
    _, lines = simulate.json("-plugin", sees, "-plugin", sets, "-container", tmp_path / "pod.yaml")
    assert named(lines, "StartContainer")["error"] == "('default', 'web', 'main', 1, 'MOOD=good')"


def test_what_a_manifest_leaves_open_is_said_and_the_command_can_be_given(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = simulate.says("10-a", "create_container", "list(request.container.args)")
    text = MANIFEST.replace("command: [/bin/server]", "args: [-v]").encode()
    open_ = "the command: the image decides (-command gives it)"
    for words, args in ([], "[]"), (["-command", "/x"], "['/x', '-v']"):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
        code, out = simulate.text("-plugin", plugin, "-container", "-", *words)
        assert (code, f"FAILED: {args}\n" in out) == (1, True)
        assert (f"not known: {open_}\n" in simulate.err) is (not words)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    _, lines = simulate.json("-plugin", plugin, "-container", "-")
    assert named(lines, "CreateContainer")["unknown"][1:] == [open_]


def test_of_an_oci_config_nothing_is_lost(simulate: Simulate, tmp_path: Path) -> None:
    process = {"args": ["/x"], "env": ["A=0"], "cwd": "/", "oomScoreAdj": 5}
    linux = {"resources": {"memory": {"limit": 5}}, "maskedPaths": ["/proc/x"]}
    spec = {"ociVersion": "1.0.2", "process": process, "linux": linux}
    (tmp_path / "config.json").write_text(json.dumps(spec))
    doubled = (
        "linux, response = request.container.linux, api.CreateContainerResponse();"
        " response.adjust.linux.resources.memory.limit.value = linux.resources.memory.limit.value * 2;"
        " response.adjust.linux.oom_score_adj.value = linux.oom_score_adj.value * 2; return response"
    )
    plugin = simulate.answers("10-a", create_container=doubled)
    code, lines = simulate.json("-plugin", plugin, "-container", tmp_path / "config.json")
    expected = {
        "process": {**process, "oomScoreAdj": 10},
        "linux": {**linux, "resources": {"memory": {"limit": 10}}},
    }
    assert (code, named(lines, "CreateContainer")["spec"]) == (0, spec | expected)


def test_an_nri_container_may_have_its_pod_in_a_file_of_its_own(simulate: Simulate, tmp_path: Path) -> None:
    (tmp_path / "c").write_text(json.dumps({"id": "c1", "name": "c", "env": ["A=1"]}))
    (tmp_path / "p").write_text(json.dumps({"id": "p1", "name": "p", "namespace": "ns"}))
    sees = simulate.says("20-b", "start_container", SEES)
    _, lines = simulate.json("-plugin", sees, "-container", tmp_path / "c", "-pod", tmp_path / "p")
    assert named(lines, "StartContainer")["error"] == "('ns', 'p', 'c', 1, 'A=1')"


# ---- what comes of it


def test_the_json_has_an_object_a_line_of_one_shape(simulate: Simulate) -> None:
    answer = (
        "response = api.CreateContainerResponse(); response.adjust.linux.resources.memory.limit.value = 5;"
        " update = response.update.add(container_id='other', ignore_failure=True);"
        " update.linux.resources.cpu.cpus = '0'; return response"
    )
    _, lines = simulate.json("-plugin", simulate.answers("10-a", create_container=answer))
    for line in lines:
        with_spec = ["spec"] if line["event"] == "CreateContainer" else []
        assert list(line) == ["event", "us", "plugins", "adjust", "update", "error", *with_spec]
        assert isinstance(line["us"], int)
    created, started = named(lines, "CreateContainer"), named(lines, "StartContainer")
    assert [list(plugin) for plugin in created["plugins"]] == [["name", "us", "error"]]
    assert created["us"] >= created["plugins"][0]["us"] > 0
    assert created["adjust"] == {"linux": {"resources": {"memory": {"limit": {"value": "5"}}}}}
    update = {"container_id": "other", "linux": {"resources": {"cpu": {"cpus": "0"}}}, "ignore_failure": True}
    assert created["update"] == [update]
    assert (started["plugins"], started["adjust"], started["update"], started["error"]) == ([], {}, [], "")


def test_people_get_a_line_for_each_event_and_what_changed(simulate: Simulate) -> None:
    code, out = simulate.text("-plugin", simulate.sets("10-a", "FOO", "1"))
    lines = out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("CreateContainer "))
    assert (code, "10-a" in lines[at], lines[at].count(" ms")) == (0, True, 2)
    assert lines[at + 1 : at + 3] == ['    - process.env[FOO]  "FOO=bar"', '    + process.env[FOO]  "FOO=1"']
    assert lines[at + 3].startswith("PostCreateContainer ")
    assert lines[at + 3].endswith("no plugin is subscribed")
    assert lines[-1] == f"{len(LIFE) + 1} events, no problems"


def test_a_conflict_fails_the_creation_and_what_would_follow_is_not_told(simulate: Simulate) -> None:
    words = [word for name in ("10-a", "20-b") for word in ("-plugin", simulate.sets(name, "X"))]
    code, lines = simulate.json(*words)
    conflict, created = 'plugins "20-b" and "10-a" both tried to set Env X', named(lines, "CreateContainer")
    assert (code, created["error"], "spec" in created) == (1, conflict, False)
    before, its_end = LIFE[: LIFE.index("CreateContainer") + 1], LIFE[LIFE.index("StopContainer") :]
    assert events_of(lines) == ["Synchronize", *before, *its_end]
    _, out = simulate.text(*words)
    assert f"    FAILED: {conflict}\n" in out
    assert out.splitlines()[-1].startswith("PROBLEM: CreateContainer: plugins")


def test_an_error_fails_the_event(simulate: Simulate) -> None:
    plugin = simulate.says("10-a", "start_container", r"'one\n\x1b[2Jtwo é'")
    for runtime, goes_on in (("containerd/2.4.2", False), ("cri-o/1.34.0", True)):
        code, lines = simulate.json("-plugin", plugin, "-runtime", runtime)
        started = named(lines, "StartContainer")
        said = "one\n\x1b[2Jtwo é"
        assert (code, started["error"], started["plugins"][0]["error"]) == (1, said, said)
        assert ("PostStartContainer" in events_of(lines)) is goes_on, "to CRI-O it is a warning"
    _, out = simulate.text("-plugin", plugin)
    assert "    FAILED: one\\n\\x1b[2Jtwo é\n" in out, "it stays in its line"


def test_a_plugin_that_does_not_answer_is_named_and_dropped_and_the_event_goes_on(simulate: Simulate) -> None:
    bad, good = simulate.answers("10-bad", start_container="os._exit(7)"), simulate.sets("20-good")
    code, out = simulate.text("-plugin", bad, "-plugin", good)
    text = "plugin 10-bad failed to handle StartContainer request: connection closed by the plugin"
    assert (code, f"    10-bad: {text}\n" in out, "RemovePodSandbox" in out) == (1, True, True)
    assert out.splitlines()[-1] == f"PROBLEM: StartContainer: 10-bad: {text}", "and it is said once"


def test_a_plugin_that_does_not_start_leaves_the_others_their_events(simulate: Simulate) -> None:
    code, lines = simulate.json("-plugin", "10-true=/bin/true", "-plugin", simulate.sets("20-good"))
    bad, fine = lines[0]["plugins"]
    assert (code, bad["error"]) == (1, "plugin 10-true failed to register: connection closed by the plugin")
    assert (fine["name"], fine["error"]) == ("20-good", "")
    assert named(lines, "CreateContainer")["plugins"][0]["name"] == "20-good"
    code, out = simulate.text("-plugin", "10-true=/bin/true")
    assert (code, "RunPodSandbox" in out) == (1, False), "with none in service nothing is played"


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
    asked = named(lines, "UpdateContainers")
    assert (code, asked["plugins"][0]["name"], asked["update"]) == (0, "10-a", [{"container_id": "x"}])
    assert lines[lines.index(asked) - 1]["event"] == "PostCreateContainer"


# ---- what cannot be used


def test_what_cannot_be_used_is_named_with_file_and_line(simulate: Simulate, tmp_path: Path) -> None:
    file = tmp_path / "file"
    start = ["-plugin", simulate.sets("10-a")]
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


USELESS: list[tuple[list[str], str]] = [
    ([], "give -plugin, -legacy, -conf, -hooks or -socket"),
    (["-plugin", "1-x=/bin/true"], "'1-x' is not NN-NAME"),
    (["-plugin", "10-x=/nonexistent"], "no such program"),
    (["-plugin", "10-x=/etc/passwd"], "not executable"),
    (["-plugin", "10-x=/bin"], "not executable"),
    (["-plugin", "10-x=/bin/true", "-plugin", "10-x=/bin/sh"], "10-x=/bin/true: another plugin has the name 10-x, too"),
    (["-plugin", "10-x=/bin/true", "-runtime", "docker/1"], "invalid choice: 'docker/1' (choose from "),
    (["-plugin", "10-x=/bin/true", "-events", "a", "-container", "b"], "exclude each other"),
    (["-plugin", "10-x=/bin/true", "-pod", "b"], "belong to -container"),
    (["-plugin", "10-x=/bin/true", "-event", "StopContainer"], "-event belongs to -legacy"),
    (["-legacy", "/bin/true", "-event", "x"], "-event x: not played; there are: RunPodSandbox, CreateContainer, "),
    (["-legacy", "/nonexistent"], "-legacy /nonexistent: no such program"),
    (["-legacy", "/etc/passwd"], "-legacy /etc/passwd: not executable"),
    (["-hooks", "/nonexistent"], "-hooks /nonexistent: no such directory"),
    (["-socket", "/x" * 100], "AF_UNIX path too long"),
]


def test_arguments_that_make_no_sense_are_refused(simulate: Simulate) -> None:
    for words, said in USELESS:
        assert said in simulate.refused(*words), words
