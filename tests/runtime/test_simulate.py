"""The command `simulate`: the events that it plays, its output, and its exit codes."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from nri.testing import FLAVOURS, Runtime
from v010_adapter.cli.simulate import play
from v010_adapter.cli.simulate.play import Play, Scene
from v010_adapter.cli.simulate.view import changes

from ..rig.embedded import Plugins
from ..rig.simulation import GOLDEN, LIFE, Simulate, events_of, named, plugins_of
from ..rig.waiting import LIMIT

MANIFEST = """\
apiVersion: v1
kind: Pod
metadata:
  name: web
  labels: {app: web}
spec:
  containers:
    - name: main
      command: [/bin/server]
      env: [{name: MOOD, value: bad}]
"""

# ---- what is played


def test_without_a_script_it_is_the_life_of_a_recorded_pod(simulate: Simulate, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(play, "announce_if_slow", lambda doing: told.append(doing) or nullcontext())  # type: ignore[func-returns-value]
    started = time.monotonic()
    code, lines = simulate.json("-plugin", simulate.sets("10-a"))
    whole = time.monotonic() - started
    assert (code, events_of(lines)) == (0, ["Synchronize", *LIFE])
    assert sum(line["us"] for line in lines) < whole * 1e6
    assert lines[0]["us"] >= lines[0]["plugins"][0]["us"] > 0
    process = named(lines, "CreateContainer")["spec"]["process"]
    assert process["env"] == ["PATH=/bin", "HOSTNAME=vm", "FOO=bar", "A=1"]
    assert told == ["starting the plugins", *(f"waiting for the plugins' answers to {event}" for event in LIFE)]


WHO = "f\"{request.runtime_name} {request.runtime_version} {request.NRI_version or 'untold'}\""


NAMELESS = "containerd/2.3.4"
"""Its recording does not tell which runtime it was."""
PLAYED: list[tuple[str, list[object]]] = [
    *((name, ["-events", GOLDEN[name]]) for name in FLAVOURS if name != NAMELESS),
    ("containerd/2.4.2", ["-events", GOLDEN[NAMELESS]]),
    (NAMELESS, ["-events", GOLDEN[NAMELESS], "-runtime", NAMELESS]),
    ("cri-o/1.36.3", ["-events", GOLDEN["containerd/2.4.2"], "-runtime", "cri-o/1.36.3"]),
    ("containerd/1.7.35", ["-runtime", "containerd/1.7.35"]),
]


def test_a_recording_is_played_as_the_runtime_that_was_recorded_or_that_is_asked_for(simulate: Simulate) -> None:
    plugin = simulate.answers("10-a", configure=f"self.who = {WHO}", stop_pod_sandbox="raise NRIError(self.who)")
    for name, words in PLAYED:
        code, lines = simulate.json("-plugin", plugin, *words)
        assert (code, events_of(lines)) == (1, ["Synchronize", *LIFE])
        flavour = FLAVOURS[name]
        told = f"{flavour.name} {flavour.version} {flavour.nri if flavour.dedicated else 'untold'}"
        assert named(lines, "StopPodSandbox")["error"] == told


def test_a_runtime_plays_the_events_that_it_has(simulate: Simulate, tmp_path: Path) -> None:
    events = ("RunPodSandbox", "UpdatePodSandbox")
    (tmp_path / "events.jsonl").write_text(
        "\n".join(f'{{"event": "{event}", "pod": {{"id": "p"}}}}' for event in events)
    )
    words = ["-plugin", simulate.sets("10-a"), "-events", tmp_path / "events.jsonl", "-runtime"]
    for runtime, played in (("containerd/1.7.35", 1), ("containerd/2.4.2", 2)):
        assert events_of(simulate.json(*words, runtime)[1]) == ["Synchronize", *events[:played]]


def test_the_plugins_are_told_what_there_was_before_the_recording(simulate: Simulate, tmp_path: Path) -> None:
    before = '{"event": "Synchronize", "extra": {"pods": [{"id": "old"}], "containers": [{"id": "c"}]}}\n'
    (tmp_path / "events.jsonl").write_text(before + '{"event": "RunPodSandbox", "pod": {"id": "p"}}')
    answer = "return api.SynchronizeResponse(update=[api.ContainerUpdate(container_id=request.containers[0].id)])"
    plugin = simulate.answers("10-a", synchronize=answer, run_pod_sandbox="pass")
    code, lines = simulate.json("-plugin", plugin, "-events", tmp_path / "events.jsonl")
    assert (code, lines[0]["update"]) == (0, [{"container_id": "c"}])


SEES = (
    "(lambda pod, own: (pod.namespace, pod.name, own.name, own.state, len(own.id), len(pod.id), "
    "own.pod_sandbox_id == pod.id, *own.env))(request.pod, request.container)"
)


def test_later_events_tell_of_a_manifests_container_as_plugins_made_it(simulate: Simulate, tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(MANIFEST)
    sets, sees = simulate.sets("10-a", "MOOD", "good"), simulate.says("20-b", "stop_container", SEES)
    code, lines = simulate.json("-plugin", sees, "-plugin", sets, "-container", tmp_path / "pod.yaml")
    assert (code, events_of(lines)[1:]) == (1, [event for event in LIFE if "Update" not in event])
    assert named(lines, "CreateContainer")["spec"]["process"] == {"args": ["/bin/server"], "env": ["MOOD=good"]}
    assert named(lines, "StopContainer")["error"] == "('default', 'web', 'main', 4, 64, 64, True, 'MOOD=good')"
    _, lines = simulate.json("-plugin", sees, "-plugin", sets)
    assert "'MOOD=good'" in named(lines, "StopContainer")["error"], "also without a manifest"


def test_what_a_manifest_leaves_open_is_said(simulate: Simulate, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = simulate.says("10-a", "create_container", "list(request.container.args)")
    text = MANIFEST.replace("command: [/bin/server]", "args: [-v]").encode()
    open_ = "the command: the image decides (-command sets it)"
    for words, args in ([], "[]"), (["-command", "/x"], "['/x', '-v']"):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
        code, lines = simulate.json("-plugin", plugin, "-container", "-", *words)
        created = named(lines, "CreateContainer")
        assert (code, created["error"], open_ in created["unknown"]) == (1, args, not words)
        assert [line["event"] for line in lines if "unknown" in line] == ["CreateContainer"]
        assert (f"not known: {open_}\n" in simulate.err) is (not words)


def test_a_specification_is_shown_with_what_nri_does_not_know(simulate: Simulate, tmp_path: Path) -> None:
    spec: dict[str, Any] = {"ociVersion": "1.0", "hostname": "web", "process": {"args": ["/bin/mine"]}}
    (tmp_path / "config.json").write_text(json.dumps(spec))
    _, lines = simulate.json("-plugin", simulate.sets("10-a"), "-container", tmp_path / "config.json")
    spec["process"]["env"] = ["A=1"]
    assert named(lines, "CreateContainer")["spec"] == spec


# ---- what comes of it


def test_the_json_has_an_object_a_line_of_one_shape(simulate: Simulate) -> None:
    answer = (
        "response = api.CreateContainerResponse(); response.adjust.linux.resources.memory.limit.value = 5;"
        " response.update.add(container_id='other', ignore_failure=True); return response"
    )
    _, lines = simulate.json("-plugin", simulate.answers("10-a", create_container=answer))
    for line in lines:
        keys = ["event", "us", "plugins", "adjust", "update", "error"]
        assert list(line) == keys + ["spec"] * (line["event"] == "CreateContainer")
    created, started = named(lines, "CreateContainer"), named(lines, "StartContainer")
    assert [*created["plugins"][0]] == ["name", "us", "error"]
    assert created["us"] >= created["plugins"][0]["us"] > 0
    assert created["adjust"] == {"linux": {"resources": {"memory": {"limit": {"value": "5"}}}}}
    assert created["update"] == [{"container_id": "other", "linux": {"resources": {}}, "ignore_failure": True}]
    assert (started["plugins"], started["adjust"], started["update"], started["error"]) == ([], {}, [], "")


UPDATES_LATER = """
class Mine(Plugin):
    def run_pod_sandbox(self, request, context): ...
    def answered(self, context):
        if context.method == "RunPodSandbox": self.update_containers([api.ContainerUpdate(container_id="other")])
run(Mine())
"""


def test_what_a_plugin_updates_by_itself_is_waited_for_and_has_an_object_of_its_own(
    simulate: Simulate, plugins: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(play, "PAUSE", LIMIT)
    serve = Runtime.serve
    monkeypatch.setattr(Runtime, "serve", lambda self, _, limit: serve(self, lambda: bool(self.updates), limit))
    (tmp_path / "events.jsonl").write_text('{"event": "RunPodSandbox", "pod": {"id": "p"}}')
    words = "-plugin", plugins.write("10-a", UPDATES_LATER), "-events", tmp_path / "events.jsonl"
    _, lines = simulate.json(*words)
    assert events_of(lines) == ["Synchronize", "RunPodSandbox", "UpdateContainers"]
    assert (lines[2]["us"], plugins_of(lines[2]), lines[2]["update"]) == (0, ["10-a"], [{"container_id": "other"}])


def test_people_get_a_line_for_each_event_and_what_changed(simulate: Simulate) -> None:
    code, out = simulate.text("-plugin", simulate.sets("10-a", "FOO", "1"))
    lines = out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("CreateContainer "))
    assert (code, "10-a" in lines[at], lines[at].count(" ms")) == (0, True, 2)
    assert lines[0] == "containerd v2.4.2, NRI v0.12.3"
    assert lines[at + 1 : at + 3] == ['    - process.env[FOO]  "FOO=bar"', '    + process.env[FOO]  "FOO=1"']
    assert lines[at + 3].startswith("PostCreateContainer ")
    assert lines[at + 3].endswith("no plugin is subscribed")
    assert lines[-1] == f"{len(LIFE) + 1} events, no problems"


def test_people_get_updates_and_what_the_runtime_resolves(simulate: Simulate) -> None:
    answer = (
        "response = api.CreateContainerResponse(); response.adjust.CDI_devices.add(name='x/y=1');"
        " response.update.add(container_id='other').linux.resources.cpu.cpus = '1'; return response"
    )
    _, out = simulate.text("-plugin", simulate.answers("10-a", create_container=answer))
    assert "\n    the container is not changed\n" in out
    assert '    update of other: {"cpu": {"cpus": "1"}}\n' in out
    assert '    resolved by the runtime:  {"CDI_devices": [{"name": "x/y=1"}]}\n' in out


# fmt: off
CHANGES: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, ["- a.c 2", "+ a.c 3"]),
    ({"annotations": {}}, {"annotations": {"x.y/z": "1"}}, ['+ annotations[x.y/z] "1"']),
    ({"process": {"args": ["a", "b"]}}, {"process": {"args": ["a"]}},
     ['- process.args ["a", "b"]', '+ process.args ["a"]']),
    ({"env": ["A=1", "B=1"]}, {"env": ["B=1", "A=2"]}, ['- env[A] "A=1"', '+ env[A] "A=2"']),
    ({"env": ["A=1", "A=2"]}, {"env": ["A=1", "A=3"]}, ['- env[A]#2 "A=2"', '+ env[A]#2 "A=3"']),
    ({"mounts": [{"destination": "/m", "source": "a"}]}, {"mounts": []},
     ['- mounts[/m] {"destination": "/m", "source": "a"}']),
    ({"rules": [{"allow": True}]}, {"rules": [{"allow": True}, {"allow": False}]}, ['+ rules[1] {"allow": false}']),
]
# fmt: on


def test_changes_are_told_by_path_what_is_gone_first() -> None:
    for before, after, lines in CHANGES:
        assert [" ".join(change) for change in changes(before, after)] == lines


def test_a_conflict_fails_the_creation_and_what_would_follow_is_not_told(simulate: Simulate) -> None:
    words = [word for name in ("10-a", "20-b", "30-c") for word in ("-plugin", simulate.sets(name, "X"))]
    code, lines = simulate.json(*words)
    conflict, created = 'plugins "20-b" and "10-a" both tried to set Env X', named(lines, "CreateContainer")
    assert (code, created["error"], "spec" in created) == (1, conflict, False)
    assert plugins_of(created) == ["10-a", "20-b"], "nobody is asked any more"
    before, its_end = LIFE[: LIFE.index("CreateContainer") + 1], LIFE[LIFE.index("StopContainer") :]
    assert events_of(lines) == ["Synchronize", *before, *its_end]
    _, lines = simulate.json("-plugin", simulate.says("10-a", "run_pod_sandbox", "0"))
    assert events_of(lines)[1:] == ["RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"]


def test_an_error_fails_the_event(simulate: Simulate) -> None:
    plugin = simulate.says("10-a", "start_container", r"'one\n\x1b[2Jtwo é'")
    for runtime, goes_on in (("containerd/2.4.2", False), ("cri-o/1.34.0", True)):
        code, lines = simulate.json("-plugin", plugin, "-runtime", runtime)
        started = named(lines, "StartContainer")
        said = "one\n\x1b[2Jtwo é"
        assert (code, started["error"], started["plugins"][0]["error"]) == (1, said, said)
        assert ("PostStartContainer" in events_of(lines)) is goes_on, "to CRI-O it is a warning"
    _, out = simulate.text("-plugin", plugin)
    said = r"one\n\x1b[2Jtwo é"
    assert f"    FAILED: {said}\n" in out, "it stays in its line"
    assert out.splitlines()[-1] == f"PROBLEM: StartContainer: {said}"


def test_a_plugin_that_does_not_answer_is_named_and_dropped_and_the_event_goes_on(simulate: Simulate) -> None:
    bad, good = simulate.answers("10-bad", start_container="os._exit(7)"), simulate.sets("20-good")
    code, out = simulate.text("-plugin", bad, "-plugin", good)
    text = "plugin 10-bad failed to handle StartContainer request: connection closed by the plugin"
    assert (code, f"    10-bad: {text}\n" in out, "RemovePodSandbox" in out) == (1, True, True)
    assert out.splitlines()[-1] == f"PROBLEM: StartContainer: 10-bad: {text}", "and it is said once"


def test_a_plugin_that_ends_at_no_event_is_a_problem(simulate: Simulate, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Play._scenes

    def scenes(self: Play) -> Iterator[Scene]:
        yield from whole(self)
        self._runtime.connected[0].close("it has ended")

    monkeypatch.setattr(Play, "_scenes", scenes)
    code, out = simulate.text("-plugin", simulate.sets("10-a"))
    assert (code, "plugin 10-a is gone: it has ended" in out) == (1, True), out


def test_messages_of_plugins_come_after_the_table(simulate: Simulate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.path.sameopenfile", lambda *_: True)
    code, out = simulate.text("-plugin", simulate.answers("10-a", configure=r"os.write(2, b'I\x1b am\n')"))
    assert (code, "\n\nmessages of the plugins\n    I\\x1b am\n\n" in out) == (0, True), out


def test_plugins_are_told_to_end(simulate: Simulate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(play, "END", LIMIT)
    ends = r"signal.signal(signal.SIGTERM, lambda *_: (os.write(2, b'ends\n'), os._exit(0)))"
    assert (simulate.text("-plugin", simulate.answers("10-a", configure=ends))[0], simulate.err) == (0, "ends\n")


def test_a_plugin_that_does_not_start_leaves_the_others_their_events(simulate: Simulate) -> None:
    script = simulate.sets("05-script")
    script.write_text("#!/no/such/python3\n")
    words = ["-plugin", script, "-plugin", "10-true=/bin/true"]
    code, lines = simulate.json(*words, "-plugin", simulate.sets("20-good"))
    assert (code, [(one["name"], one["error"]) for one in lines[0]["plugins"]]) == (
        1,
        [
            ("05-script", "its interpreter '/no/such/python3': No such file or directory"),
            ("10-true", "plugin 10-true failed to register: connection closed by the plugin"),
            ("20-good", ""),
        ],
    )
    assert plugins_of(named(lines, "CreateContainer")) == ["20-good"]
    _, lines = simulate.json(*words)
    assert events_of(lines) == ["Synchronize"], "with none in service nothing is played"


# ---- what cannot be used

TRUE = ["-plugin", "10-x=/bin/true"]
USELESS: list[tuple[list[str], str]] = [
    ([], "use -plugin, -legacy, -conf, -hooks or -socket"),
    (["-plugin", "1-x=/bin/true"], "'1-x' is not NN-NAME"),
    (["-plugin", "10-x=/nonexistent"], "no such program"),
    (["-plugin", "10-x=/etc/passwd"], "not executable"),
    (["-plugin", "10-x=/bin"], "not executable"),
    ([*TRUE, "-plugin", "10-x=/bin/sh"], "10-x=/bin/true: another plugin has the name 10-x, too"),
    (["/bin/true"] * 11, "-plugin /bin/true: another plugin has the name 99-true, too"),
    ([*TRUE, "-runtime", "docker/1"], "invalid choice: 'docker/1' (choose from "),
    ([*TRUE, "-events", "a", "-container", "b"], "exclude each other"),
    *(([*TRUE, flag, "b"], "belong to -container") for flag in ("-pod", "-name", "-command")),
    ([*TRUE, "-timer", "5s"], "-timer belongs to -contract"),
    ([*TRUE, "-runtime", "all"], "-runtime all and -o junit belong to -contract"),
    ([*TRUE, "-o", "junit"], "-runtime all and -o junit belong to -contract"),
    (["-contract", "-socket", "/nowhere"], "-contract starts the plugin: use -plugin, -legacy, -conf or -hooks"),
    ([*TRUE, "-event", "StopContainer"], "-event belongs to -legacy"),
    ([*TRUE, "-config", "/nonexistent"], "-config /nonexistent: no such directory"),
    ([*TRUE, "-events", "/nonexistent"], "/nonexistent: No such file"),
    (["-legacy", "/bin/true", "-event", "x"], "-event x: not played; there are: RunPodSandbox, CreateContainer, "),
    (["-legacy", "/nonexistent"], "-legacy /nonexistent: no such program"),
    (["-legacy", "/etc/passwd"], "-legacy /etc/passwd: not executable"),
    (["-conf", "/nonexistent"], "/nonexistent: No such file"),
    (["-conf", "/nonexistent", "-legacy", "/bin/true"], "exclude each other"),
    (["-hooks", "/nonexistent"], "-hooks /nonexistent: no such directory"),
    (["-socket", "/x" * 100], "/x: No such file or directory"),
    ([*TRUE, "-pods", "0"], "'0' is not a number from 1 to 99999"),
    ([*TRUE, "-pods", "5", "-max-p99", "20"], "'20' is no time such as 20ms"),
    *(([*TRUE, "-rate", rate], f"'{rate}' is not a number of pods such as 0.5") for rate in ("-1", "1e-320")),
    *(
        ([*TRUE, "-pods", "5", *more], "-pods excludes -events and -contract")
        for more in (["-events", "file"], ["-contract"])
    ),
    *(
        ([*TRUE, *more], "-repeat, -rate, -seed and -max-p99 belong to -pods")
        for more in (["-repeat", "2"], ["-rate", "0.5"], ["-seed", "5"], ["-max-p99", "5s"])
    ),
]
FILES: list[tuple[str, str, str]] = [
    ("-events", '{"event": "RunPodSandbox", "pod": {}}\n{"event": "Nonsense"}\n', ":2: not a recorded event"),
    ("-events", "", ": it is empty"),
    ("-events", '{"event": "Configure"}', ": it has no events"),
    ("-container", '{"id": "c",\n"args": "/x"}', ":2: args: must be a list, not a text"),
    ("-container", MANIFEST.replace("/bin/server", "on"), ":9: spec.containers[0].command[0]: must be a text"),
    ("-conf", '{"plugins": [\n', ":2:1: unexpected end"),
]


def test_what_cannot_be_used_is_named(simulate: Simulate, tmp_path: Path) -> None:
    for words, said in USELESS:
        assert said in simulate.refused(*words), words
    file = tmp_path / "file"
    for option, text, said in FILES:
        file.write_text(text)
        assert f"{file}{said}" in simulate.refused(*TRUE, option, file)
