"""Runs the command `simulate` in tests and reads its output. Import the fixtures into a conftest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nri.testing import FLAVOURS, Flavour
from v010_adapter.cli import command_line as cli
from v010_adapter.cli.simulate import command
from v010_adapter.cli.simulate.play import Play
from v010_adapter.cli.simulate.script import Script

from .embedded import ROOT, Plugins, patient
from .processes import restored

Json = dict[str, Any]
GOLDEN = {name: ROOT / f"tests/golden/{name.replace('/', '-')}/events-one-pod.jsonl" for name in FLAVOURS}
"""The recorded life of a pod on each runtime."""
# fmt: off
LIFE = [
    "RunPodSandbox", "CreateContainer", "PostCreateContainer", "StartContainer", "PostStartContainer",
    "UpdateContainer", "PostUpdateContainer", "StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox",
]
# fmt: on


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets `simulate` play runtimes that wait longer than a slow machine needs."""

    def play(events: Script, flavour: Flavour, *more: Any) -> Play:
        return Play(events, patient(flavour), *more)

    monkeypatch.setattr(command, "Play", play)


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

    def answers(self, name: str, **handlers: str) -> Path:
        """Returns a plugin with the bodies of handlers, in a line each."""
        methods = [f"    def {one}(self, request, context):\n        {does}\n" for one, does in handlers.items()]
        return self._plugins.write(name, f"class Mine(Plugin):\n{''.join(methods)}run(Mine())\n")

    def sets(self, name: str, key: str = "A", value: str = "1") -> Path:
        """Returns a plugin that sets a variable of each container."""
        adjust = f"response.adjust.env.add(key={key!r}, value={value!r})"
        return self.answers(
            name, create_container=f"response = api.CreateContainerResponse(); {adjust}; return response"
        )

    def says(self, name: str, handler: str, what: str) -> Path:
        """Returns a plugin that fails an event with what it is told."""
        return self.answers(name, **{handler: f"raise NRIError(str({what}))"})

    def text(self, *words: object) -> tuple[int, str]:
        """Return exit code and output."""
        with restored():
            try:
                code = cli.main(["simulate", *map(str, words)])
            except SystemExit as ended:
                code = int(ended.code or 0)
        out, self.err = self._capfd.readouterr()
        return code, out

    def json(self, *words: object) -> tuple[int, list[Json]]:
        """Return exit code and the objects of the output, one a line."""
        code, out = self.text(*words, "-o", "json")
        return code, [json.loads(line) for line in out.splitlines()]

    def refused(self, *words: object) -> str:
        """Return why the arguments are of no use."""
        code, _ = self.text(*words)
        assert code == 2
        return self.err


def named(lines: list[Json], event: str) -> Json:
    (found,) = [line for line in lines if line["event"] == event]
    return found


def events_of(lines: list[Json]) -> list[str]:
    return [line["event"] for line in lines]


def plugins_of(line: Json) -> list[str]:
    return [plugin["name"] for plugin in line["plugins"]]
