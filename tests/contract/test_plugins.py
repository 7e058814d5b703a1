"""Plugins that connect by themselves, the plugins of others, and those of this project."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from nri import Context, Plugin, api
from nri.testing import FLAVOURS
from nri.testing.contract import External, Launched, Report, Result, Running, ending, judge, starts
from nri.testing.launch import PluginFile
from nri.testing.node import Node
from tests.peers.harness import require
from tests.rig.embedded import ROOT, Plugins, detached, patient
from tests.rig.interpreter import PYTHON
from tests.rig.programs import Fifo, Programs
from v010_adapter.cli.simulate import trial

from .broken import NEWEST, RUN, RUNTIMES, named, of, sound

# ---- plugins that connect by themselves


CONNECTS = """
import socket
from nri.address import address
trunk = socket.socket(socket.AF_UNIX)
def connect():
    with address(sys.argv[0] + ".sock") as short:
        trunk.connect(short)
try:
    connect()
except OSError:
    {otherwise}
os.environ["NRI_PLUGIN_SOCKET"] = str(trunk.detach())
"""


def external(plugins: Plugins, source: str, otherwise: str = "sys.exit(1)") -> Report:
    """Judges a plugin that connects to a socket."""
    path = plugins.write("10-a", CONNECTS.format(otherwise=otherwise) + source)
    return judge(External(Path(f"{path}.sock"), partial(detached, path)), patient())


def test_a_plugin_that_connects_by_itself_keeps_all_rules(plugins: Plugins) -> None:
    report = external(plugins, sound())
    assert named(report) == []
    assert of(report, "valid-name").result is of(report, "starts-before-runtime").result is Result.HOLDS
    assert not any(note.subject == "SIGTERM" for note in report.notes)


def test_a_plugin_that_connects_by_itself_is_named_if_its_name_is_none(plugins: Plugins) -> None:
    ask = 'plugin.ask("RegisterPlugin", api.RegisterPluginRequest(plugin_name="a", plugin_idx="1").SerializeToString())'
    run = f"plugin = raw.RawPlugin(answer)\n{ask}\nwhile plugin.serve(): pass"
    assert named(external(plugins, sound(run=run))) == ["valid-name"]


@pytest.mark.ci
def test_a_plugin_that_connects_by_itself_ends_or_joins_again(
    plugins: Plugins, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "END", 0.2)
    monkeypatch.setattr(starts, "GRACE", 0.1)
    source = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + sound(run=f"{RUN}\nwhile True: signal.pause()")
    report = external(plugins, source)
    assert named(report) == ["ends-with-connection"]
    assert any(note.subject == "SIGTERM" for note in report.notes)


@pytest.fixture
def tried(plugins: Plugins, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The plugin is told to have no socket until it says, in a FIFO, that it has found none."""
    with closing(Fifo(plugins.path / "10-a.tried")) as says:

        def first_try(process: Running, timeout: float) -> bool:
            monkeypatch.setattr(ending, "ends", starts.ends)  # it is asked once more at the end
            says.get()
            return False

        monkeypatch.setattr(ending, "ends", first_try)
        yield


TRIED = """with open(sys.argv[0] + ".tried", "w") as says: says.write("no socket\\n")
    """


@pytest.mark.usefixtures("tried")
def test_a_plugin_may_wait_for_the_socket(plugins: Plugins, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Fifo(plugins.path / "10-a.there")) as there:

        @contextmanager
        def told(path: Path) -> Iterator[socket.socket]:
            with starts.listening(path) as listener:
                there.put()
                yield listener

        monkeypatch.setattr(ending, "listening", told)
        waits = "open(sys.argv[0] + '.there').readline()\n    connect()"
        assert named(external(plugins, sound(), TRIED + waits)) == []


@pytest.mark.usefixtures("tried")
def test_a_plugin_that_finds_no_socket_ends_or_connects_later(
    plugins: Plugins, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "CONNECT", 0.1)
    report = external(plugins, sound(), TRIED + "signal.pause()")
    assert named(report) == ["starts-before-runtime"]
    came = "the plugin is still running, and has not connected after 0.1 s"
    assert report.failures[0][2:] == ("no socket for 1 s, then a socket", came)


class Injector(Plugin):
    """Gives each container a variable."""

    def create_container(self, request: api.CreateContainerRequest, context: Context) -> api.CreateContainerResponse:
        adjust = api.ContainerAdjustment(env=[api.KeyValue(key="A", value=request.container.id)])
        return api.CreateContainerResponse(adjust=adjust)


@pytest.mark.ci
@pytest.mark.parametrize("nri_runtime", ["cri-o/1.34.0", NEWEST], indirect=True)
def test_the_fixture_judges_a_class_and_a_file(
    nri_runtime: Node, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    nri_runtime.played = patient(nri_runtime.flavour)
    assert nri_runtime.contract(Injector).failures == []
    with pytest.raises(TypeError, match="not an instance"):
        nri_runtime.contract(Injector())  # type: ignore[arg-type]
    path = tmp_path / "20-file.py"
    path.write_text("import nri\nclass Mine(nri.Plugin): pass\nprint('here')\nnri.run(Mine())\n")
    report = nri_runtime.contract(path)
    assert (report.plugin, report.failures, report.flavour.nri) == ("20-file", [], nri_runtime.played.nri)
    assert "here\n" in capfd.readouterr().err


def test_a_plugin_that_starts_but_once_or_never_connects_does_not_register(plugins: Plugins) -> None:
    """It keeps a file that it does not take when it starts again."""
    once = "os.close(os.open(sys.argv[0] + '.once', os.O_CREAT | os.O_EXCL))\n" + RUN
    report = external(plugins, sound(run=once))
    assert named(report) == ["registers"]
    assert report.failures[0][2:] == ("another start", "connection closed by the plugin")
    path = plugins.write("10-b", "sys.exit(7)")
    (failure,) = judge(External(Path(f"{path}.sock"), partial(detached, path)), patient()).failures
    assert failure[2:] == ("a start", "the plugin has ended with exit code 7, without a connection")


# ---- others' plugins, and ours


@pytest.mark.usefixtures("executed")
@pytest.mark.parametrize("name", RUNTIMES)
def test_a_plugin_made_of_upstreams_stub_keeps_all_rules(name: str) -> None:
    idle = Launched(PluginFile(require("idle"), "10", "idle"))
    assert named(judge(idle, patient(FLAVOURS[name]))) == []


@pytest.mark.ci
@pytest.mark.usefixtures("executed")
@pytest.mark.parametrize("name", RUNTIMES)
def test_the_adapter_keeps_all_rules(name: str, tmp_path: Path) -> None:
    program = Programs(tmp_path).shell("program", """echo '{"spec": {"process": {"env": ["TZ=UTC"]}}}'""")
    adapter = trial.plugin(tmp_path, [str(program)], ["CreateContainer"], [str(ROOT / "hooks.d")])
    report = judge(Launched(adapter, state=str(tmp_path)), patient(FLAVOURS[name]))
    assert named(report) == []
    assert of(report, "changes-are-applied").result is Result.HOLDS


EXAMPLES = sorted([*ROOT.glob("examples/*.py"), *ROOT.glob("examples/cookbook/*.py")])
CONFIG = {"devices": "allowed = {}"}
FILES = {"limits": "[small]\ncpu_shares = 2\nmemory = 1000000\n"}
"""What examples read that have a file of their own, the flag -file."""


@pytest.mark.ci
@pytest.mark.usefixtures("executed")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_keep_all_rules(nri_runtime: Node, path: Path, tmp_path: Path) -> None:
    nri_runtime.played = patient()
    config = CONFIG.get(path.stem, "")
    if path.stem in FILES:
        (tmp_path / "file").write_text(FILES[path.stem])
        script = f"exec {PYTHON} {shlex.quote(str(path))} -file {tmp_path}/file"
        path = Programs(tmp_path).shell(path.stem, script)
    assert nri_runtime.contract(path, config=config).failures == []
