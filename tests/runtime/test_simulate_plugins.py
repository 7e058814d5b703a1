"""The plugins of the command `simulate`: launched, one-shot or external, with their names and configurations."""

from __future__ import annotations

import json
import os
import re
import socket
import tempfile
from pathlib import Path

import pytest

from tests.rig.sockets import bind
from v010_adapter import settings
from v010_adapter.cli.simulate import play
from v010_adapter.cli.simulate.command import EMPTY_CONFIG
from v010_adapter.legacy.config import ConfigFile

from ..rig.programs import Programs
from ..rig.simulation import LIFE, Simulate, named, plugins_of
from .test_simulate import MANIFEST


def test_plugins_are_asked_in_the_order_of_their_index_under_the_names_they_are_given(simulate: Simulate) -> None:
    a, b = simulate.sets("any", "A"), simulate.sets("20-b", "B")
    code, lines = simulate.json("-plugin", b, "-plugin", f"30-late={a}", "--plugin", f"05-early={b}")
    created = named(lines, "CreateContainer")
    assert (code, plugins_of(lines[0])) == (1, ["05-early", "20-b", "30-late"])
    assert created["error"] == 'plugins "20-b" and "05-early" both tried to set Env B'
    # One without an index gets one after its place.
    a, b = simulate.sets("z", "z"), simulate.sets("a=b", "a=b")
    _, lines = simulate.json("-plugin", a, "-plugin", f"05-x={b}", "-plugin", b)
    assert plugins_of(lines[0]) == ["05-x", "10-z", "30-a=b"]


PROCESSES = 'if re.search(r"^ *pid: [0-9]|/proc/", str(request), re.MULTILINE): raise NRIError(str(request))'


def test_what_is_played_without_a_recording_has_nobodys_pid(simulate: Simulate, tmp_path: Path) -> None:
    """Neither as such nor as the path of a namespace: plugins enter these."""
    (tmp_path / "pod.yaml").write_text(MANIFEST)
    handlers = [re.sub("(?<!^)([A-Z])", r"_\1", event).lower() for event in LIFE]
    plugin = simulate.answers("10-a", **dict.fromkeys(handlers, f"import re\n        {PROCESSES}"))
    for words in ([], ["-container", tmp_path / "pod.yaml"]):
        code, lines = simulate.json("-plugin", plugin, *words)
        assert (code, [line["error"] for line in lines if line["error"]]) == (0, [])
        assert all(line["plugins"] for line in lines)


# ---- configurations

TOLD = {"configure": "self.config = request.config", "run_pod_sandbox": "raise NRIError(repr(self.config))"}


def test_a_plugin_gets_its_text_from_the_directory_of_configurations(simulate: Simulate, tmp_path: Path) -> None:
    (tmp_path / "a.conf").write_text("its own")
    plugin = simulate.answers("10-a", **TOLD)
    _, lines = simulate.json("-plugin", plugin, "-config", tmp_path)
    assert (named(lines, "RunPodSandbox")["error"], simulate.err) == ("'its own'", "")
    (tmp_path / "b.conf").write_text("")
    for words, known in ((["-plugin", plugin], "10-a.conf, else a.conf"), ([], "there is none")):
        simulate.text("-legacy", "/bin/true", *words, "-config", tmp_path)
        assert f"{tmp_path}/b.conf: no plugin uses it ({known})\n" in simulate.err
    os.mkfifo(tmp_path / "10-a.conf")
    assert "not a regular file" in simulate.refused("-plugin", plugin, "-config", tmp_path)


@pytest.mark.parametrize("texts", [{}, {"other.conf": "x"}, {"v010-adapter.conf": "", "00-v010-adapter.conf": ""}])
def test_an_unconfigured_adapter_runs_nothing(simulate: Simulate, tmp_path: Path, texts: dict[str, str]) -> None:
    directory = tmp_path / "texts"
    directory.mkdir()
    for file, text in texts.items():
        (directory / file).write_text(text)
    own, other = simulate.answers("00-v010-adapter", **TOLD), simulate.answers("v010-adapter", **TOLD)
    (tmp_path / "link").symlink_to(other)
    for option in (own, other, f"42-mine={tmp_path}/link"):
        code, lines = simulate.json("-plugin", option, *(["-config", directory] if texts else []))
        assert (code, named(lines, "RunPodSandbox")["error"]) == (1, repr(EMPTY_CONFIG))
        said = "has no configuration (-config): it runs nothing, so that this node's plugins and hooks do not run\n"
        assert said in simulate.err
    _, out = simulate.text("-plugin", simulate.answers("10-a", **TOLD))
    assert ("FAILED: ''" in out, "configuration" in simulate.err) == (True, False), "others get none"
    of_nothing, errors = settings.parse(EMPTY_CONFIG, "here")
    assert (errors, of_nothing.hooks.enabled) == ([], False)
    assert ConfigFile(of_nothing.legacy.config).current().entries == ()


# ---- one-shot plugins

ONE_SHOT = """\
echo "seen $(sed 's/.*"state":"\\([a-z]*\\)".*/\\1/')" >&2
echo '{"spec": {"process": {"env": ["TZ=UTC"]}}}'
"""


def test_a_one_shot_plugin_and_hooks_are_tried_without_any_configuration(
    tmp_path: Path, simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may be anywhere, also where everybody can write."""
    for directory in ("x", "temporary"):
        (tmp_path / directory).mkdir()
    (tmp_path / "x").chmod(0o777)
    Programs(tmp_path / "x").shell("utc", ONE_SHOT)
    hook = {"version": "1.0.0", "hook": {"path": "/bin/cat"}, "when": {"always": True}}
    hook["stages"] = ["precreate", "poststop"]
    (tmp_path / "x/a.json").write_text(json.dumps(hook))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    code, lines = simulate.json("-legacy", "x/utc", "-hooks", "x")
    env, hooks = [{"key": "TZ", "value": "UTC"}], {"poststop": [{"path": "/bin/cat"}]}
    assert (code, named(lines, "CreateContainer")["adjust"]) == (0, {"env": env, "hooks": hooks})
    assert simulate.err.count("seen create") == 1, "at no other event"
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_one_shot_plugin_is_tried_at_the_events_that_are_asked_for(tmp_path: Path, simulate: Simulate) -> None:
    program = Programs(tmp_path).shell("utc", ONE_SHOT)
    code, out = simulate.text("-legacy", program, "-event", "StartContainer", "-event", "StopContainer")
    assert (code, f"    FAILED: plugin: {program}: spec: the container exists already" in out) == (1, True)
    assert [line.rpartition(" ")[2] for line in simulate.err.splitlines() if "seen" in line] == ["create", "delete"]


NOTES = """\
sed 's/.*"conf":{"n":\\([0-9]\\)}.*"state":"\\([a-z]*\\)".*/\\1 \\2\\n/' >>"$0.log"
echo '{}'
"""


def test_a_whole_list_of_one_shot_plugins_is_rehearsed_as_a_node_runs_it(simulate: Simulate, tmp_path: Path) -> None:
    program, conf = Programs(tmp_path).shell("p", NOTES), tmp_path / "node.json"
    conf.write_text(json.dumps({"plugins": [{"type": str(program), "conf": {"n": n}} for n in (1, 2)]}))
    assert simulate.json("-conf", conf)[0] == 0, simulate.err
    creates, deletes = "1 create\n2 create\n", "1 delete\n2 delete\n"
    assert (tmp_path / "p.log").read_text() == creates + creates + deletes + deletes
    Programs(tmp_path).shell("p", """echo '{"error": "no"}'""")
    code, out = simulate.text("-conf", conf)
    assert (code, f"plugin: {program}: no" in out) == (1, True)


# ---- external


def test_nobody_comes(simulate: Simulate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(play, "CONNECT_TIMEOUT", 0.01)
    code, (line,) = simulate.json("-socket", tmp_path / "nri.sock")
    assert (code, line["event"], line["plugins"][0]["error"]) == (1, "Synchronize", "no plugin connected in 0.01 s")
    waits = f"waiting for a plugin to connect to {tmp_path}/nri.sock\n"
    assert (line["plugins"][0]["name"], simulate.err) == ("?", waits)
    assert list(tmp_path.glob("*.sock")) == []


def test_a_socket_that_is_there_is_left_alone(simulate: Simulate, tmp_path: Path) -> None:
    path = tmp_path / "nri.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        bind(listener, path)
        assert f"{path}: Address already in use" in simulate.refused("-socket", path)
    assert path.exists()
