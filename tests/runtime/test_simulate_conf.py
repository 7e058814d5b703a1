"""`simulate -conf`: a whole list of one-shot plugins is rehearsed, as a node runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .simulation import Simulate

PROGRAM = """\
#!/bin/sh
echo "$(sed 's/.*"conf":{"n":\\([0-9]\\)}.*"state":"\\([a-z]*\\)".*/\\1 \\2/')" >>LOG
echo '{}'
"""


@pytest.fixture
def conf_json(tmp_path: Path) -> Path:
    """A list of two plugins with their `conf`: each writes its conf and state to `log`."""
    program = tmp_path / "p"
    program.write_text(PROGRAM.replace("LOG", str(tmp_path / "log")))
    program.chmod(0o755)
    conf = tmp_path / "node.json"
    conf.write_text(
        json.dumps({"version": "0.1", "plugins": [{"type": str(program), "conf": {"n": n}} for n in (1, 2)]})
    )
    return conf


def test_the_whole_list_runs_at_the_start_and_the_end_of_pod_and_container(
    simulate: Simulate, conf_json: Path, tmp_path: Path
) -> None:
    code, _ = simulate.json("-conf", conf_json)
    assert code == 0, simulate.err
    runs = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    creates, deletes = [["1", "create"], ["2", "create"]], [["1", "delete"], ["2", "delete"]]
    assert runs == [*creates, *creates, *deletes, *deletes]


def test_a_plugin_that_fails_fails_the_pod(simulate: Simulate, conf_json: Path, tmp_path: Path) -> None:
    program = tmp_path / "p"
    program.write_text('#!/bin/sh\necho \'{"error": "no"}\'\n')
    code, out = simulate.text("-conf", conf_json)
    assert code == 1
    assert f"plugin: {program}: no" in out


def test_a_list_that_is_broken_or_not_there_is_named(simulate: Simulate, conf_json: Path, tmp_path: Path) -> None:
    conf_json.write_text('{"plugins": [\n')
    assert f"{conf_json}:2: unexpected end" in simulate.refused("-conf", conf_json)
    assert "No such file" in simulate.refused("-conf", tmp_path / "none")
    assert "exclude each other" in simulate.refused("-conf", conf_json, "-legacy", "/bin/true")
