"""What `simulate` keeps apart from the node that it runs on: its configuration and its processes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from adapter import cli, settings
from adapter.commands.simulate.command import EMPTY_CONFIG
from adapter.legacy.config import ConfigFile

from .fixtures import Plugins
from .simulation import LIFE, MANIFEST

TOLD = """
class Mine(Plugin):
    def configure(self, request, context):
        self.config = request.config
    def run_pod_sandbox(self, request, context):
        raise RuntimeError(repr(self.config))
run(Mine())
"""


@pytest.mark.parametrize("name", ["00-v010-adapter", "v010-adapter"])
@pytest.mark.parametrize("texts", [{}, {"other.conf": "x"}, {"v010-adapter.conf": "", "00-v010-adapter.conf": ""}])
def test_an_adapter_without_a_configuration_does_not_get_the_nodes(
    plugins: Plugins, capfd: pytest.CaptureFixture[str], tmp_path: Path, name: str, texts: dict[str, str]
) -> None:
    directory = tmp_path / "texts"
    directory.mkdir()
    for file, text in texts.items():
        (directory / file).write_text(text)
    plugin = plugins.write(name, TOLD)
    (tmp_path / "link").symlink_to(plugin)
    for option in (plugin, f"42-mine={tmp_path}/link") if name == "v010-adapter" else (plugin,):
        words = ["simulate", "-plugin", str(option), *(["-config", str(directory)] if texts else []), "-o", "json"]
        assert cli.main(words) == 1
        out, err = capfd.readouterr()
        assert repr(EMPTY_CONFIG) in [json.loads(line)["error"] for line in out.splitlines()]
        assert "has no configuration (-config): it runs nothing, instead of what this node has\n" in err


def test_that_configuration_is_one_and_there_is_nothing_in_it() -> None:
    own, errors = settings.parse(EMPTY_CONFIG, "here")
    assert errors == []
    assert ConfigFile(own.legacy.config).current().entries == ()
    assert own.hooks.enabled is False


def test_others_get_no_configuration_and_nobody_says_so(plugins: Plugins, capfd: pytest.CaptureFixture[str]) -> None:
    cli.main(["simulate", "-plugin", str(plugins.write("10-a", TOLD))])
    out, err = capfd.readouterr()
    assert "FAILED: ''" in out
    assert "configuration" not in err


PROCESSES = """
import re
class Mine(Plugin):
    def state_change(self, request):
        text = str(request.pod) + str(getattr(request, "container", ""))
        if re.search(r"^ *pid: [0-9]|/proc/", text, re.MULTILINE):
            raise RuntimeError(text)
{handlers}
run(Mine())
"""
HANDLER = "    def {}(self, request, context):\n        self.state_change(request)\n"


@pytest.mark.parametrize("described", [False, True], ids=["recorded", "described"])
def test_what_is_played_without_a_recording_has_nobodys_pid(
    plugins: Plugins, capfd: pytest.CaptureFixture[str], tmp_path: Path, described: bool
) -> None:
    """Neither as such nor as the path of a namespace: plugins enter these."""
    (tmp_path / "pod.yaml").write_text(MANIFEST)
    names = [re.sub("(?<!^)([A-Z])", r"_\1", event).lower() for event in LIFE]
    source = PROCESSES.format(handlers="".join(map(HANDLER.format, names)))
    words = ["-container", str(tmp_path / "pod.yaml")] if described else []
    code = cli.main(["simulate", "-plugin", str(plugins.write("10-a", source)), *words, "-o", "json"])
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [line["error"] for line in lines if line["error"]] == []
    assert code == 0
    assert all(line["plugins"] for line in lines)
