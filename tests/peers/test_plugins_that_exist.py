"""Legacy plugins of other projects, as stand-ins that do what is odd about each, beside the original client.

The original client runs the same programs, by their paths.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from adapter.cli import command_line as cli
from tests.daemon.forks import ran
from tests.runtime.simulation import patience  # noqa: F401 - a fixture

from .harness import LEGACY_EVENTS, Case, Chain, Oracle
from .test_oracle import messages, without_empty
from .test_runtime import LIFE, POD, launched, play

START = """#!/bin/sh
PATH=/usr/bin:/bin
request=$(cat)
printf '%s\\n' "$request" >>"$0.requests"
"""
LOG = """\
file=$(printf %s "$request" | sed -n 's/.*logFile[\\\\": ]*\\([^\\\\"]*\\).*/\\1/p')
test -z "$file" || echo logged >>"$file"
"""
ACT = """case $request in *'"state":"postCreate"'* | *'"state":"removal"'*) echo >"$0.acted";; esac\n"""
FAILS_WITHOUT_CONF = """case $request in '{"conf":'*) error=;; *) error='unexpected end of JSON input';; esac\n"""
DEMO = '{"MatchAll": false, "LabelSelectors": [{"a": "b"}], "States": ["create", "delete"], "Address": "/tmp/nri.sock"}'


class Plugin(NamedTuple):
    """A plugin: its type, its `conf` as it stands in the file (empty: none), what it does, its mode."""

    type: str
    conf: str = ""
    does: str = ""
    mode: int = 0o755

    @property
    def entry(self) -> str:
        return json.dumps({"type": self.type})[:-1] + (f', "conf": {self.conf}}}' if self.conf else "}")


def result(name: str, version: str = "0.1", metadata: str = "null", error: str = "") -> str:
    return f"""echo '{{"plugin":"{name}","version":"{version}","error":"'"{error}"'","metadata":{metadata}}}'\n"""


GADGET = Plugin("nrigadget", "", FAILS_WITHOUT_CONF + result("ighook", error="$error"))
LOGGER = Plugin("logger-v1", "", LOG + result("logger", metadata="{}"))
SOUND = [
    GADGET._replace(conf='{"socketFile": "/run/gadgettracermanager.socket"}'),
    LOGGER._replace(conf='{"logFile": "DIRECTORY/log"}'),
    LOGGER._replace(conf=r'"{\"logFile\": \"DIRECTORY/log\"}"'),
    Plugin("nri-hook-demo", DEMO, result("", version="")),
    Plugin("rootfs-persister", "{}", ACT + result("rootfs-persister")),
]
FAULTY = {  # what the original client made of it, and what we do
    "its installer appends an entry without conf": (
        GADGET,
        "unexpected end of JSON input",
        "unexpected end of JSON input",
    ),
    "it is installed with mode 0640": (
        GADGET._replace(conf="{}", mode=0o640),
        "fork/exec nrigadget: permission denied",
        "PATH is not an executable file: chmod +x PATH",
    ),
}
EVENTS = [recorded for recorded in LIFE if recorded.event in LEGACY_EVENTS]


class Others(Chain):
    """A chain of such plugins."""

    def install(self, plugins: Sequence[Plugin]) -> None:
        for plugin in plugins:
            program = self.bin / plugin.type
            program.write_text(START + plugin.does)
            program.chmod(plugin.mode)
        entries = ", ".join(plugin.entry for plugin in plugins)
        self.conf.write_text(f'{{"version": "0.1", "plugins": [{entries}]}}'.replace("DIRECTORY", str(self.bin)))

    def got(self) -> list[bytes]:
        """The requests of all, type by type; they are forgotten."""
        found = []
        for notes in sorted(self.bin.glob("*.requests")):
            found += notes.read_bytes().split(b"\n")[:-1]
            notes.unlink()
        return found

    def by_the_original(self) -> tuple[list[str], list[bytes]]:
        """The errors of the original client in the life of a pod, and its requests, type by type."""
        conf = self.conf.read_bytes().replace(b'{"type": "', b'{"type": "%b/' % str(self.bin).encode())
        # The runtime leaves the pid out of StopPodSandbox: it is what it was at the create.
        cases = [Case(LEGACY_EVENTS[e.event], {**e.pod, "pid": POD["pid"]}, e.container, conf) for e in EVENTS]
        errors, requests = [], []
        with Oracle() as oracle:
            for case in cases:
                (outcome,) = oracle.outcomes([case])
                errors.append(outcome.error.replace(f"{self.bin}/", ""))
                pod, container = messages(case)
                resources = (pod if container is None else container).linux.resources
                requests += [without_empty(text, resources) for text in self.got()]
        return errors, requests

    def invoke(self, type_: str) -> tuple[int, dict[str, Any]]:
        own = self.bin.parent / "own.yaml"
        own.write_text(self.settings + "runtime: {reserve: 0}\n")
        run = ran(["invoke", "-config", str(own), "-o", "json", type_], self.bin)
        return run.returncode, json.loads(run.stdout)


@pytest.fixture
def others(tmp_path: Path) -> Others:
    return Others(tmp_path)


def test_they_get_and_answer_what_they_did_with_the_original_client(others: Others, tmp_path: Path) -> None:
    others.install(SOUND)
    errors, requests = others.by_the_original()
    assert errors == [""] * len(EVENTS)
    assert len(requests) == len(EVENTS) * len(SOUND)
    (others.bin / "log").unlink()
    with launched(others, tmp_path) as runtime:
        for recorded in LIFE:
            play(runtime, recorded)
    assert sorted(others.got()) == sorted(requests)
    assert (others.bin / "log").read_text() == "logged\n" * 2 * len(EVENTS)
    assert not list(others.bin.glob("*.acted")), "no client ever sent these states"
    for plugin, name in zip(SOUND, ("ighook", "logger", "logger", "", "rootfs-persister"), strict=True):
        code, told = others.invoke(plugin.type)
        assert (code, told["error"], told["result"]["plugin"]) == (0, "", name)


@pytest.mark.parametrize("fault", FAULTY)
def test_one_that_fails_fails_the_creates_as_with_the_original_client(
    others: Others, tmp_path: Path, fault: str
) -> None:
    plugin, theirs, ours = FAULTY[fault]
    others.install([plugin])
    errors, _ = others.by_the_original()
    assert errors == [f"plugin: {plugin.type}: {theirs}"] * len(EVENTS)
    ours = f"plugin: {plugin.type}: {ours.replace('PATH', str(others.bin / plugin.type))}"
    with launched(others, tmp_path) as runtime:
        for recorded in EVENTS:
            error = runtime.event(recorded.event, recorded.pod, recorded.container).error
            is_create = LEGACY_EVENTS[recorded.event] == "create"
            assert error == (f"rpc error: code = Unknown desc = {ours}" if is_create else "")
    code, told = others.invoke(plugin.type)
    assert (code, told["error"]) == (1, ours)


def test_simulate_tries_them_without_a_conf(others: Others, capfd: pytest.CaptureFixture[str]) -> None:
    others.install([*SOUND[1:], GADGET])
    paths = dict.fromkeys(str(others.bin / plugin.type) for plugin in [*SOUND[1:], GADGET])
    words = ["simulate", *(word for path in paths for word in ("-legacy", path))]
    code = cli.main([*words, "-event", "StartContainer", "-o", "json"])
    errors = [error for line in capfd.readouterr().out.splitlines() if (error := json.loads(line)["error"])]
    assert (code, errors) == (1, [f"plugin: {others.bin}/nrigadget: unexpected end of JSON input"])
    others.install([FAULTY["it is installed with mode 0640"][0]])
    assert cli.main(words) == 2
    gadget = others.bin / "nrigadget"
    assert f"v010-adapter: -legacy {gadget}: not executable: chmod +x {gadget}\n" in capfd.readouterr().err
