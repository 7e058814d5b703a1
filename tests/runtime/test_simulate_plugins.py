"""The plugins of the command `simulate`: launched or external, named, configured, and lost."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from adapter.cli.simulate import play
from adapter.cli.simulate.view import TextView
from adapter.runtime import Runtime

from .fixtures import Plugins
from .simulation import LIFE, Simulate, env, named


def plugins_of(line: dict[str, Any]) -> list[str]:
    return [plugin["name"] for plugin in line["plugins"]]


def test_plugins_are_asked_in_the_order_of_their_index_under_the_names_they_are_given(simulate: Simulate) -> None:
    a, b = simulate.sets("any", "A"), simulate.sets("20-b", "B")
    code, lines = simulate.json("-plugin", b, "-plugin", f"30-late={a}", "--plugin", f"05-early={b}")
    created = named(lines, "CreateContainer")
    assert (code, plugins_of(lines[0]), plugins_of(created)) == (
        1,
        ["05-early", "20-b", "30-late"],
        ["05-early", "20-b"],
    )
    assert created["error"] == 'plugins "20-b" and "05-early" both tried to set Env B'
    # One without an index gets one after its place.
    a, b = simulate.sets("z", "z"), simulate.sets("a=b", "a=b")
    _, lines = simulate.json("-plugin", a, "-plugin", f"05-x={b}", "-plugin", b)
    assert plugins_of(lines[0]) == ["05-x", "10-z", "30-a=b"]


def test_a_plugin_gets_its_text_from_the_directory_of_configurations(simulate: Simulate, tmp_path: Path) -> None:
    """Here the adapter is the plugin, and its text names a one-shot program that changes the container."""
    program, conf, texts = tmp_path / "utc", tmp_path / "conf.json", tmp_path / "texts"
    program.write_text("""#!/bin/sh\necho '{"spec": {"process": {"env": ["TZ=UTC"]}}}'\n""")
    program.chmod(0o755)
    conf.write_text('{"plugins": [{"type": "utc"}]}')
    texts.mkdir()
    own = {"config": str(conf), "path": [str(tmp_path)], "plugins": {"utc": {"events": ["CreateContainer"]}}}
    (texts / "v010-adapter.conf").write_text(json.dumps({"legacy": own}))
    command = Path(sys.executable).parent / "v010-adapter"
    code, lines = simulate.json("-plugin", f"00-v010-adapter={command}", "-config", texts)
    assert code == 0
    assert named(lines, "CreateContainer")["adjust"]["env"] == [{"key": "TZ", "value": "UTC"}]
    assert "no such directory" in simulate.refused("-plugin", "10-x=/bin/true", "-config", tmp_path / "none")
    os.mkfifo(texts / "x.conf")
    assert "not a regular file" in simulate.refused("-plugin", "10-x=/bin/true", "-config", texts)


def test_a_text_that_no_plugin_takes_is_named(tmp_path: Path, simulate: Simulate) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    for name in ("10-a.conf", "a.conf", "b.conf", "20-b.cfg"):
        (texts / name).write_text("")
    simulate.text("-plugin", "10-a=/bin/true", "-plugin", "20-b=/bin/true", "-config", texts)
    said = "no plugin takes it (10-a.conf, else a.conf; 20-b.conf, else b.conf)"
    assert simulate.err == f"{texts}/20-b.cfg: {said}\n{texts}/a.conf: {said}\n"


ONE_SHOT = """\
#!/bin/sh
echo "seen $(sed 's/.*"state":"\\([a-z]*\\)".*/\\1/')" >&2
echo '{"spec": {"process": {"env": ["TZ=UTC"]}}}'
"""


def one_shot(path: Path) -> Path:
    path.write_text(ONE_SHOT)
    path.chmod(0o755)
    return path


def test_a_one_shot_plugin_and_hooks_are_tried_without_any_configuration(
    tmp_path: Path, simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may be anywhere, also where everybody can write."""
    for directory in ("x", "temporary"):
        (tmp_path / directory).mkdir()
    (tmp_path / "x").chmod(0o777)
    one_shot(tmp_path / "x/utc")
    hook = {"version": "1.0.0", "hook": {"path": "/bin/true"}, "when": {"always": True}, "stages": ["poststop"]}
    (tmp_path / "x/a.json").write_text(json.dumps(hook))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    code, lines = simulate.json("-legacy", "x/utc", "-hooks", "x")
    assert code == 0
    assert named(lines, "CreateContainer")["adjust"] == {
        "env": [{"key": "TZ", "value": "UTC"}],
        "hooks": {"poststop": [{"path": "/bin/true"}]},
    }
    assert simulate.err.count("seen create") == 1, "at no other event"
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_one_shot_plugin_is_tried_at_the_events_that_are_asked_for(tmp_path: Path, simulate: Simulate) -> None:
    program = one_shot(tmp_path / "utc")
    code, out = simulate.text("-legacy", program, "-event", "StartContainer", "-event", "StopContainer")
    assert code == 1
    assert f"    FAILED: plugin: {program}: spec: the container exists already" in out
    assert [line.rpartition(" ")[2] for line in simulate.err.splitlines() if "seen" in line] == ["create", "delete"]


@pytest.mark.usefixtures("executing")
def test_a_launched_plugin_gets_what_a_runtime_gives_it(simulate: Simulate) -> None:
    what = "(sorted(os.environ.items()), os.readlink('/proc/self/fd/0'))"
    plugin = simulate.says("10-a", "run_pod_sandbox", what)
    _, lines = simulate.json("-plugin", f"42-me={plugin}")
    environment = [("NRI_PLUGIN_IDX", "42"), ("NRI_PLUGIN_NAME", "me"), ("NRI_PLUGIN_SOCKET", "3")]
    told = named(lines, "RunPodSandbox")["error"]
    assert all(repr(pair) in told for pair in environment)
    assert "'PATH'" not in told
    assert f"'RUNTIME_DIRECTORY', '{tempfile.gettempdir()}/nri-" in told, (
        "what is in service keeps its state for itself"
    )
    assert "/dev/null" in told


EXTERNAL = """
class Mine(Plugin):
    def create_container(self, request, context):
        response = api.CreateContainerResponse()
        response.adjust.env.add(key="E", value="1")
        return response
run(Mine(), name="ext", idx="15", path={socket!r})
"""


def test_an_external_plugin_is_waited_for(
    plugins: Plugins, simulate: Simulate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "nri.sock"
    source = plugins.write("any", EXTERNAL.format(socket=str(path)))
    started: list[subprocess.Popen[bytes]] = []
    accept = Runtime.accept

    def start_it(runtime: Runtime, timeout: float) -> Any:
        """Starts the plugin when its runtime listens."""
        started.append(subprocess.Popen([source], stdin=subprocess.DEVNULL))
        return accept(runtime, timeout)

    monkeypatch.setattr(Runtime, "accept", start_it)
    code, lines = simulate.json("-plugin", simulate.sets("10-a"), "-socket", path)
    (process,) = started
    process.wait()
    assert code == 0
    assert plugins_of(named(lines, "CreateContainer")) == ["10-a", "15-ext"]
    assert env(named(lines, "CreateContainer")["spec"])[-2:] == ["A=1", "E=1"]
    assert not path.exists()


def test_nobody_comes(simulate: Simulate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(play, "CONNECT_TIMEOUT", 0.01)
    code, lines = simulate.json("-socket", tmp_path / "nri.sock")
    assert code == 1
    assert [(line["event"], line["plugins"][0]["error"]) for line in lines] == [
        ("Synchronize", "no plugin connected in 0.01 s")
    ]


def test_a_socket_that_is_there_is_left_alone(simulate: Simulate, tmp_path: Path) -> None:
    path = tmp_path / "nri.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        assert f"{path}: Address already in use" in simulate.refused("-socket", path)
    assert path.exists()


def test_a_missing_interpreter_is_named(plugins: Plugins, simulate: Simulate) -> None:
    plugin = plugins.path / "10-a"
    plugin.write_text("#!/no/such/python3\n")
    plugin.chmod(0o755)
    _, lines = simulate.json("-plugin", plugin)
    assert lines[0]["plugins"][0]["error"] == "its interpreter '/no/such/python3': No such file or directory"


def test_it_tells_for_which_event_it_waits(simulate: Simulate, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(play, "announce_if_slow", lambda doing: told.append(doing) or nullcontext())  # type: ignore[func-returns-value]
    simulate.json("-plugin", simulate.sets("10-a"))
    assert told == ["starting the plugins", *(f"waiting for the plugins' answers to {event}" for event in LIFE)]


def test_details_are_as_wide_as_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in (40, 300):
        monkeypatch.setenv("COLUMNS", str(columns))
        out = io.StringIO()
        TextView(out).detail("x" * 500)
        assert len(out.getvalue()) == columns + 1
