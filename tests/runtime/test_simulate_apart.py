"""What `simulate` keeps apart from the node that it runs on: its configuration and its processes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from adapter import settings
from adapter.cli.simulate.command import EMPTY_CONFIG
from adapter.legacy.config import ConfigFile

from .fixtures import Plugins
from .simulation import LIFE, MANIFEST, Simulate

TOLD = """
class Mine(Plugin):
    def configure(self, request, context):
        self.config = request.config
    def run_pod_sandbox(self, request, context):
        raise RuntimeError(repr(self.config))
run(Mine())
"""


@pytest.mark.parametrize("texts", [{}, {"other.conf": "x"}, {"v010-adapter.conf": "", "00-v010-adapter.conf": ""}])
def test_an_adapter_without_a_configuration_does_not_get_the_nodes(
    plugins: Plugins, simulate: Simulate, tmp_path: Path, texts: dict[str, str]
) -> None:
    directory = tmp_path / "texts"
    directory.mkdir()
    for file, text in texts.items():
        (directory / file).write_text(text)
    own, other = plugins.write("00-v010-adapter", TOLD), plugins.write("v010-adapter", TOLD)
    (tmp_path / "link").symlink_to(other)
    for option in (own, other, f"42-mine={tmp_path}/link"):
        code, lines = simulate.json("-plugin", option, *(["-config", directory] if texts else []))
        assert (code, repr(EMPTY_CONFIG) in [line["error"] for line in lines]) == (1, True)
        said = "has no configuration (-config): it runs nothing, instead of what this node has\n"
        assert said in simulate.err


def test_that_configuration_is_one_and_there_is_nothing_in_it() -> None:
    own, errors = settings.parse(EMPTY_CONFIG, "here")
    assert errors == []
    assert ConfigFile(own.legacy.config).current().entries == ()
    assert own.hooks.enabled is False


def test_others_get_no_configuration_and_nobody_says_so(plugins: Plugins, simulate: Simulate) -> None:
    _, out = simulate.text("-plugin", plugins.write("10-a", TOLD))
    assert ("FAILED: ''" in out, "configuration" in simulate.err) == (True, False)


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


def test_what_is_played_without_a_recording_has_nobodys_pid(
    plugins: Plugins, simulate: Simulate, tmp_path: Path
) -> None:
    """Neither as such nor as the path of a namespace: plugins enter these."""
    (tmp_path / "pod.yaml").write_text(MANIFEST)
    names = [re.sub("(?<!^)([A-Z])", r"_\1", event).lower() for event in LIFE]
    plugin = plugins.write("10-a", PROCESSES.format(handlers="".join(map(HANDLER.format, names))))
    for words in ([], ["-container", tmp_path / "pod.yaml"]):
        code, lines = simulate.json("-plugin", plugin, *words)
        assert (code, [line["error"] for line in lines if line["error"]]) == (0, [])
        assert all(line["plugins"] for line in lines)
