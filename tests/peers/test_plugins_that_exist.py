"""Legacy plugins of other projects, as stand-ins that do what is odd about each, beside the original client.

The original client runs the same programs, by their paths.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .harness import LEGACY_EVENTS, LIFE, POD, Case, Chain, Oracle, launched, play
from .test_oracle import messages, without_empty

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


def result(name: str, version: str = "0.1", metadata: str = "null", error: str = "") -> str:
    return f"""echo '{{"plugin":"{name}","version":"{version}","error":"'"{error}"'","metadata":{metadata}}}'\n"""


GADGET, LOGGER = FAILS_WITHOUT_CONF + result("ighook", error="$error"), LOG + result("logger", metadata="{}")
SOUND: list[tuple[str, str, str]] = [  # the type, its `conf` as it stands in the file, what it does
    ("nrigadget", '{"socketFile": "/run/gadgettracermanager.socket"}', GADGET),
    ("logger-v1", '{"logFile": "DIRECTORY/log"}', LOGGER),
    ("logger-v1", r'"{\"logFile\": \"DIRECTORY/log\"}"', LOGGER),
    ("nri-hook-demo", DEMO, result("", version="")),
    ("rootfs-persister", "{}", ACT + result("rootfs-persister")),
]
FAULTY = [  # a `conf`, a mode, what the original client made of it, and what we do
    ("", 0o755, *["unexpected end of JSON input"] * 2),  # its installer appends an entry without conf
    ("{}", 0o640, "fork/exec nrigadget: permission denied", "PATH is not an executable file: chmod +x PATH"),
]
EVENTS = [recorded for recorded in LIFE if recorded.event in LEGACY_EVENTS]


class Others(Chain):
    """A chain of such plugins."""

    def install(self, plugins: list[tuple[str, str, str]], mode: int = 0o755) -> None:
        entries = []
        for type_, conf, does in plugins:
            (self.bin / type_).write_text(START + does)
            (self.bin / type_).chmod(mode)
            entries.append(f'{{"type": "{type_}"' + (f', "conf": {conf}}}' if conf else "}"))
        self.conf.write_text(
            f'{{"version": "0.1", "plugins": [{", ".join(entries)}]}}'.replace("DIRECTORY", str(self.bin))
        )

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
        errors, requests = [], []
        with Oracle() as oracle:
            for event in EVENTS:
                # The runtime leaves the pid out of StopPodSandbox: it is what it was at the create.
                case = Case(LEGACY_EVENTS[event.event], {**event.pod, "pid": POD["pid"]}, event.container, conf)
                (outcome,) = oracle.outcomes([case])
                errors.append(outcome.error.replace(f"{self.bin}/", ""))
                pod, container = messages(case)
                resources = (pod if container is None else container).linux.resources
                requests += [without_empty(text, resources) for text in self.got()]
        return errors, requests


@pytest.fixture
def others(tmp_path: Path) -> Others:
    return Others(tmp_path)


def test_they_get_and_answer_what_they_did_with_the_original_client(others: Others, tmp_path: Path) -> None:
    others.install(SOUND)
    errors, requests = others.by_the_original()
    assert (errors, len(requests)) == ([""] * len(EVENTS), len(EVENTS) * len(SOUND))
    (others.bin / "log").unlink()
    with launched(others, tmp_path) as runtime:
        for recorded in LIFE:
            play(runtime, recorded)
    assert sorted(others.got()) == sorted(requests)
    assert (others.bin / "log").read_text() == "logged\n" * 2 * len(EVENTS)
    assert not list(others.bin.glob("*.acted")), "no client ever sent these states"


@pytest.mark.parametrize(("conf", "mode", "theirs", "ours"), FAULTY)
def test_one_that_fails_fails_the_creates_as_with_the_original_client(
    others: Others, tmp_path: Path, conf: str, mode: int, theirs: str, ours: str
) -> None:
    others.install([("nrigadget", conf, GADGET)], mode)
    errors, _ = others.by_the_original()
    assert errors == [f"plugin: nrigadget: {theirs}"] * len(EVENTS)
    ours = f"plugin: nrigadget: {ours.replace('PATH', str(others.bin / 'nrigadget'))}"
    with launched(others, tmp_path) as runtime:
        for recorded in EVENTS:
            error = runtime.event(recorded.event, recorded.pod, recorded.container).error
            is_create = LEGACY_EVENTS[recorded.event] == "create"
            assert error == (f"rpc error: code = Unknown desc = {ours}" if is_create else "")
