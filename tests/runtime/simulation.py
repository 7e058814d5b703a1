"""Runs the command `simulate` in tests and reads its output. Import the fixtures into a conftest."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from adapter.cli import command_line as cli
from adapter.cli.simulate import command
from adapter.cli.simulate.play import Play
from adapter.cli.simulate.script import Script
from adapter.runtime import POD_LIFE, Flavour, read

from .fixtures import Plugins

Json = dict[str, Any]
LIFE = [one.event for one in read(POD_LIFE) if one.event not in ("Configure", "Synchronize")]
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

SETS = """
class Mine(Plugin):
    def create_container(self, request, context):
        response = api.CreateContainerResponse()
        response.adjust.env.add(key={key!r}, value={value!r})
        return response
run(Mine())
"""
LISTENS = """
class Mine(Plugin):
    def {handler}(self, request, context):
        raise RuntimeError(str({what}))
run(Mine())
"""


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets `simulate` play runtimes that wait longer than a slow machine needs."""

    def patient(events: Script, flavour: Flavour, *more: Any) -> Play:
        return Play(events, replace(flavour, registration_timeout=60, request_timeout=60), *more)

    monkeypatch.setattr(command, "Play", patient)


@pytest.fixture
def simulate(capfd: pytest.CaptureFixture[str], plugins: Plugins) -> Simulate:
    return Simulate(capfd, plugins)


class Simulate:
    """Writes plugins and runs the command."""

    def __init__(self, capfd: pytest.CaptureFixture[str], plugins: Plugins) -> None:
        self._capfd = capfd
        self._plugins = plugins
        self.err = ""
        """What the last run said on stderr."""

    def sets(self, name: str, key: str = "A", value: str = "1") -> Path:
        """Returns a plugin that sets a variable of each container."""
        return self._plugins.write(name, SETS.format(key=key, value=value))

    def says(self, name: str, handler: str, what: str) -> Path:
        """Returns a plugin that fails an event with what it is told."""
        return self._plugins.write(name, LISTENS.format(handler=handler, what=what))

    def answers(self, name: str, **handlers: str) -> Path:
        """Returns a plugin with the bodies of handlers, in a line each."""
        methods = [f"    def {one}(self, request, context):\n        {does}\n" for one, does in handlers.items()]
        return self._plugins.write(name, f"class Mine(Plugin):\n{''.join(methods)}run(Mine())\n")

    def text(self, *words: object) -> tuple[int, str]:
        """Return exit code and output."""
        code = cli.main(["simulate", *map(str, words)])
        out, self.err = self._capfd.readouterr()
        return code, out

    def json(self, *words: object) -> tuple[int, list[Json]]:
        """Return exit code and the objects of the output, one a line."""
        code, out = self.text(*words, "-o", "json")
        return code, [json.loads(line) for line in out.splitlines()]

    def refused(self, *words: object) -> str:
        """Return why the arguments are of no use."""
        try:
            code = cli.main(["simulate", *map(str, words)])
        except SystemExit as ended:
            code = int(ended.code or 0)
        assert code == 2
        return self._capfd.readouterr().err


def named(lines: list[Json], event: str) -> Json:
    (found,) = [line for line in lines if line["event"] == event]
    return found


def events_of(lines: list[Json]) -> list[str]:
    return [line["event"] for line in lines]


def env(spec: Json) -> list[str]:
    found: list[str] = spec["process"]["env"]
    return found
