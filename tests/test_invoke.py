"""The command `invoke`: one legacy plugin by hand, run as the daemon would, and what becomes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nri.testing import POD_LIFE
from tests.rig.forks import ran
from tests.rig.programs import Programs
from tests.rig.screen import shown

Json = dict[str, Any]

ECHO = """\
tee {folder}/request
echo "in $PWD, $0 $1, umask $(umask)" >&2
"""
"""A plugin that answers with its request, as some do, and keeps it."""
UTC = """echo '{"spec": {"process": {"env": ["TZ=UTC"]}}}'\n"""


class Invoked:
    """A directory with plugins, conf.json and a configuration, and what the command has printed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = self.err = ""
        self.configure()

    def configure(self, *entries: Json, **legacy: object) -> None:
        """Writes conf.json, and a configuration with these keys in `legacy:`."""
        (self.folder / "conf.json").write_text(json.dumps({"version": "0.7", "plugins": entries}))
        legacy = {"config": f"{self.folder}/conf.json", "path": [str(self.folder)], **legacy}
        (self.folder / "own.yaml").write_text(json.dumps({"runtime": {"reserve": 1.0}, "legacy": legacy}))

    def plugin(self, name: str, script: str) -> None:
        Programs(self.folder).shell(name, script.replace("{folder}", str(self.folder)))

    def __call__(self, *words: str, text: str = "") -> int:
        run = ran(["invoke", "-config", "own.yaml", *words], self.folder, text)
        self.out, self.err = run.stdout, run.stderr
        assert "Traceback" not in self.err
        return run.returncode

    def json(self, *words: str, text: str = "") -> Json:
        self(*words, "-o", "json", text=text)
        found: Json = json.loads(self.out)
        return found


@pytest.fixture
def node(tmp_path: Path) -> Invoked:
    return Invoked(tmp_path)


def recorded(*events: str) -> str:
    """Events of the recorded pod."""
    lines = POD_LIFE.read_text().splitlines(keepends=True)
    return "".join(line for line in lines if json.loads(line)["event"] in events)


def test_a_plugin_gets_the_request_and_the_surroundings_that_the_daemon_gives_it(node: Invoked) -> None:
    node.plugin("a", ECHO)
    node.configure({"type": "b"}, {"type": "a", "conf": {"n": 1e300}})
    told = node.json("a")
    request = (node.folder / "request").read_text()
    assert (request[:36], told["request"]["state"]) == ('{"conf":{"n":1e+300},"version":"0.7"', "create")
    assert told["result"] == told["request"] == json.loads(request)
    assert "event" not in told["request"], "a request of the original client"
    assert told["stderr"] == [f"in /, {node.folder}/a invoke, umask 0022"]
    assert (told["type"], told["configured"], told["ending"]) == ("a", True, "exit code 0")
    assert (told["event"], told["error"], told["plugins"][0]["error"]) == ("StartContainer", "", "")
    assert told["us"] >= told["plugins"][0]["us"] > 0
    (warning,) = told["log"]
    assert warning.startswith("warning: a answers StartContainer with `spec`, which is ignored")


def test_what_becomes_of_a_change_is_shown(node: Invoked) -> None:
    node.plugin("utc", UTC)
    node.configure({"type": "utc"}, plugins={"utc": {"events": ["CreateContainer", "StopContainer"]}})
    assert node("utc") == 0
    shown = (
        *('request   {"version":"0.7","state":"create","id":"', f"result    {UTC[6:-2]}"),
        "ending    exit code 0 after ",
        *("outcome   the event succeeds", "CreateContainer ", '    + process.env[TZ]  "TZ=UTC"'),
    )
    assert all(map(str.startswith, node.out.splitlines(), shown)), node.out
    assert node.json("utc")["adjust"] == {"env": [{"key": "TZ", "value": "UTC"}]}
    node.plugin("utc", UTC.replace("TZ=UTC", "FOO=baz"))
    assert node("utc") == 0
    assert '    - process.env[FOO]  "FOO=bar"\n    + process.env[FOO]  "FOO=baz"\n' in node.out


def test_at_a_terminal_requests_and_results_are_indented(node: Invoked) -> None:
    node.plugin("utc", UTC.replace("TZ=UTC", "TZ=Zürich"))
    node.configure({"type": "utc"})
    rows = shown("invoke", "-config", node.folder / "own.yaml", "utc").rows
    assert rows[:3] == ["request   {", '            "version": "0.7",', '            "state": "create",']
    assert "result    {" in rows
    assert [row for row in rows if row.endswith('"TZ=Zürich"')], rows


def test_a_failure_is_judged_as_configured(node: Invoked) -> None:
    node.plugin("bad", "echo nonsense; exit 3\n")
    for policy, outcome in {"fail": "the event fails", "ignore": "the failure is tolerated"}.items():
        node.configure({"type": "bad"}, onFailure=policy)
        assert node("bad") == 1
        assert "\nresult    nonsense\nending    exit code 3 after " in node.out
        assert f"\noutcome   {outcome}" in node.out
        assert node.out.count("no result (line 1") == 1
        assert ("FAILED: plugin: bad: " in node.out) is (policy == "fail")


def test_an_answer_that_is_no_text_is_shown_with_its_bytes(node: Invoked) -> None:
    node.plugin("bad", "printf 'a\\377'\n")
    node.configure({"type": "bad"})
    assert node.json("bad")["result"] == "a\\xff"
    assert node("bad") == 1
    assert "\nresult    a\\xff\n" in node.out


def test_a_plugin_that_is_late_is_left_or_killed(node: Invoked) -> None:
    node.plugin("late", "exec sleep 1000\n")
    node.configure({"type": "late"}, killOnTimeout=True)
    told = node.json("late")
    assert told["request"]["state"] == "create"
    assert (told["result"], told["ending"]) == ("", "still running")
    assert told["error"].startswith("plugin: late: no result within ")
    assert told["log"][0].startswith("warning: late: container default/p1/c1 ("), told["log"]
    assert told["log"][0].endswith(" has no result in time: killed")


def test_a_delete_comes_as_if_its_create_had_been(node: Invoked) -> None:
    node.plugin("a", ECHO)
    told = node.json("./a", "-event", "-", text=recorded("StopContainer", "StopPodSandbox"))
    assert (told["event"], told["request"]["state"], told["configured"]) == ("StopContainer", "delete", False)
    assert told["type"] == str(node.folder / "a")
    (node.folder / "life").write_text(recorded("StopPodSandbox") + recorded("RunPodSandbox"))
    told = node.json("a", "-event", "life")
    assert told["event"] == "StopPodSandbox", "the first event"
    assert told["request"]["id"] == told["request"]["sandboxID"]


def test_what_cannot_be_used_is_named_and_ends_with_2(node: Invoked) -> None:
    node.plugin("a", ECHO)
    (node.folder / "own.yaml").write_text("hooks: {stanby: 1}\nlog: 5\n")
    assert node("a") == 2
    assert node.err.startswith("v010-adapter: own.yaml:1: hooks.stanby: "), node.err
    node.configure()
    assert node("a", "-event", "none") == 2
    assert node.err == "v010-adapter: none: No such file or directory\n"
    assert node("a", "-event", "-", text=recorded("CreateContainer")) == 2
    runs = "RunPodSandbox, StartContainer, StopContainer, StopPodSandbox"
    assert node.err == f"v010-adapter: a: runs at {runs}; the recorded events are CreateContainer\n"
    node.configure(plugins={"a": {"events": []}})
    assert node("a") == 2
    assert node.err.startswith("v010-adapter: a: runs at no event; the recorded events are RunPodSandbox, ")
    (node.folder / "conf.json").write_text("{")
    assert node("a") == 2
    assert node.err == f"v010-adapter: {node.folder}/conf.json:1:2: unexpected end\n"


def test_a_plugin_that_conf_json_does_not_name_is_run_and_this_is_said(node: Invoked) -> None:
    assert node("none") == 1
    assert node.out.startswith(f"none is not in {node.folder}/conf.json: the daemon does not run it\nending ")
    assert "\nending    not started after 0.0 ms\noutcome   the event fails\n" in node.out
    assert "FAILED: plugin: none: not found in " in node.out
    assert node.json("none")["plugins"][0]["us"] == 0
