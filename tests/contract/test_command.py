"""`simulate -contract`, and the page of the docs."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from nri.testing import FLAVOURS, Flavour
from nri.testing.contract import RULES, SITUATIONS, Report, Source, judge
from nri.testing.contract.requests import Call
from tests.rig.brief import CI
from tests.rig.command import Terminal
from tests.rig.embedded import ROOT, Plugins, patient
from tests.rig.programs import Programs
from tests.rig.simulation import Simulate
from tests.rig.waiting import LIMIT
from tests.runtime.test_simulate import MANIFEST
from v010_adapter.cli.simulate import contract as command

from .broken import BROKEN, WITH_CRIO, sound


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the command play a runtime that waits longer than a slow machine needs."""

    def wait(source: Source, flavour: Flavour, life: Sequence[Call], **more: Any) -> Report:
        return replace(judge(source, patient(flavour), life, **more), flavour=flavour)

    monkeypatch.setattr(command, "judge", wait)


@pytest.mark.usefixtures("waiting")
def test_the_command_prints_a_line_for_each_rule(plugins: Plugins, simulate: Simulate) -> None:
    path = plugins.write("10-a", sound(BROKEN["unknown-call"]))
    code, out = simulate.text("-contract", "-plugin", path)
    lines = out.splitlines()
    assert (code, lines[0]) == (1, "10-a under containerd v2.4.2, NRI v0.12.3")
    at = lines.index("unknown-call            FAILS")
    rule = RULES["unknown-call"]
    assert lines[at + 1 : at + 4] == [f"    rule: {rule.holds}", "    sent: FutureEvent {}", "    came: error 2: what?"]
    assert lines[at + 4 : at + 6] == [f"    then: {rule.otherwise}", f"    source: {rule.source}"]
    assert "registers               holds" in lines
    for why in (
        "the runtime launches the plugin: valid-name, starts-before-runtime",
        "the plugin has changed no container: merges, crashes-no-runtime, changes-are-applied",
        "the plugin has not called UpdateContainers; a timer of it is waited for with -timer, in pytest timer=:"
        " updates-do-not-block, refused-updates",
        "containerd does not do that: repeated-stop",
        "containerd only logs the error: lets-pods-stop",
    ):
        assert f"does not apply, because {why}" in lines
    deadline = r"note: time: p99 of \d+ CreateContainer: \d+\.\d ms, \d\.\d% of the deadline"
    assert [line for line in lines if re.fullmatch(deadline, line)]
    assert re.fullmatch(rf"{len(RULES)} rules, 1 failure; \d+\.\d s", lines[-2])
    assert lines[-3] == ""


@pytest.mark.usefixtures("waiting")
def test_the_command_prints_json_and_junit(plugins: Plugins, simulate: Simulate) -> None:
    path = plugins.write("10-a", sound(BROKEN["lets-pods-stop"]))
    code, lines = simulate.json("-contract", "-plugin", path, "-runtime", "all" if CI else WITH_CRIO)
    assert code == 1
    played = list(FLAVOURS) if CI else [WITH_CRIO]
    failed = [(line["runtime"], line["rule"], line["came"]) for line in lines if line.get("result") == "fails"]
    crio = [name.replace("/", " ") for name in played if name.startswith("cri-o")]
    assert failed == [(name, "lets-pods-stop", "error 2: no") for name in crio]
    assert len([line for line in lines if "rule" in line]) == len(RULES) * len(played)
    assert len([line for line in lines if line.get("note") == "time"]) == len(played)
    whys = {line.get("why") for line in lines if line.get("rule") in ("valid-name", "registers")}
    assert whys == {"the runtime launches the plugin", None}
    code, out = simulate.text("-contract", "-plugin", path, "-runtime", WITH_CRIO, "-o", "junit")
    (suite,) = ElementTree.fromstring(out)  # noqa: S314 - it is our own
    assert (code, suite.get("tests"), suite.get("failures")) == (1, str(len(RULES)), "1")
    (failure,) = suite.findall("testcase[@name='lets-pods-stop']/failure")
    assert failure.get("message") == "error 2: no"
    assert len(suite.findall("testcase/skipped")) == int(suite.get("skipped", ""))


@pytest.mark.usefixtures("waiting")
@pytest.mark.ci
def test_the_command_plays_the_container_of_a_file(plugins: Plugins, simulate: Simulate, tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(MANIFEST)
    breaks = 'if container and container.name == "c1": die()'
    words = "-contract", "-plugin", plugins.write("10-a", sound(breaks)), "-o", "json"
    assert simulate.json(*words)[0] == 1
    assert simulate.json(*words, "-container", tmp_path / "pod.yaml")[0] == 0


def test_what_cannot_be_started_is_refused_by_name(simulate: Simulate, tmp_path: Path) -> None:
    path = tmp_path / "10-a"
    path.write_text("#!/nowhere/interpreter\n")
    path.chmod(0o755)
    assert f"{path}: " in simulate.refused("-contract", "-plugin", path)
    at = tmp_path / "nri.sock"
    assert f"{path}: its interpreter" in simulate.refused("-contract", "-socket", at, "-plugin", path)
    at.write_text("")
    assert f"{at}: Address already in use" in simulate.refused("-contract", "-socket", at, "-plugin", path)
    assert at.read_text() == ""


def test_junit_is_ascii_and_a_terminal_sees_how_far_it_is(simulate: Simulate, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no declaration of an encoding, and stdout may have any."""
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    _, out = simulate.text("-contract", "-plugin", "10-\u00e9\x1b=/bin/true", "-o", "junit")
    (suite,) = ElementTree.fromstring(out)  # noqa: S314 - it is our own
    assert out.isascii()
    assert suite.get("name", "").startswith("10-\u00e9\\x1b under ")
    assert "is started about twenty times for each runtime" in terminal.getvalue()
    assert f" under containerd v2.4.2: 1 of {SITUATIONS}: " in terminal.getvalue()


def test_what_a_plugin_prints_comes_before_its_own_report(
    simulate: Simulate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.path.sameopenfile", lambda *_: True)
    words = [
        word for name in ("10-long", "20-b") for word in ("-plugin", Programs(tmp_path).shell(name, f"echo {name}"))
    ]
    code, out = simulate.text("-contract", *words)
    assert (code, simulate.err) == (1, "")
    for name, part in zip(("10-long", "20-b"), out.split("messages of the plugins\n")[1:], strict=True):
        said, _, report = part.partition("\n\n")
        assert {*said.splitlines()} == {f"    {name}"}
        assert report.startswith(f"{name} under ")


def test_ctrl_c_while_a_plugin_starts_ends_it(
    simulate: Simulate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, started = subprocess.Popen, list[subprocess.Popen[bytes]]()

    def interrupted(*words: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(start(*words, **options))
        signal.raise_signal(signal.SIGINT)
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    plugin = Programs(tmp_path).shell("10-a", "exec sleep 1000")
    with pytest.raises(KeyboardInterrupt):
        simulate.text("-contract", "-socket", tmp_path / "nri.sock", "-plugin", plugin)
    assert started[0].wait(LIMIT) == -signal.SIGKILL


def test_the_page_has_the_rules_of_the_code() -> None:
    text = (ROOT / "docs/testing-plugins.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \| (.*?) \| (.*?) \| (.*?) \|$", text, re.MULTILINE)
    assert rows == [(rule.name, rule.holds, rule.otherwise, rule.source) for rule in RULES.values()]
