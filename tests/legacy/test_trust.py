"""A conf.json or a plugin's program that anybody could have written is not used, and the error names the place."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from adapter.errors import ConfigError

from .node import Node


def done(node: Node, kind: str, id_: str = "c1") -> str:
    answer = node.create(id_) if kind == "create" else node.delete(id_)
    node.wait(answer)
    return answer.outcome


@pytest.fixture
def bin_(node: Node) -> Path:
    """Another directory of programs, with the plugin `a`."""
    node.plugins(a="answer")
    (node.folder / "bin").mkdir()
    (node.folder / "a").rename(node.folder / "bin/a")
    node.build(path=(str(node.folder / "bin"),))
    return node.folder / "bin"


@pytest.mark.parametrize("at", [".", "a"], ids=["its directory", "itself"])
def test_a_program_that_anybody_can_replace_is_not_run_until_that_has_changed(node: Node, bin_: Path, at: str) -> None:
    place = bin_ / at
    place.chmod(0o777)
    for _ in range(2):
        assert done(node, "create") == f"plugin: a: {bin_}/a: {place} is world-writable"
    assert node.runs == []
    place.chmod(0o755)
    assert done(node, "create") == "ok"
    assert node.runs == ["a create c1"]


def test_a_delete_that_a_program_must_not_run_stays_owed(node: Node, bin_: Path) -> None:
    assert done(node, "create") == "ok"
    (bin_ / "a").chmod(0o777)
    assert done(node, "delete") == "ok"
    (bin_ / "a").chmod(0o755)
    assert done(node, "delete") == "ok"
    assert node.runs == ["a create c1", "a delete c1"]


@pytest.mark.parametrize("at", [".", "conf.json"], ids=["its directory", "itself"])
def test_a_conf_json_that_anybody_can_replace_runs_nothing_until_that_has_changed(
    node: Node, at: str, caplog: pytest.LogCaptureFixture
) -> None:
    etc = node.folder / "etc"
    etc.mkdir()
    node.plugins(a="answer")
    node.conf_json.rename(etc / "conf.json")
    node.build(config=str(etc / "conf.json"))
    (etc / at).chmod(0o777)
    reason = f"{etc}/conf.json: {etc / at} is world-writable"
    for _ in range(2):
        with pytest.raises(ConfigError) as caught:
            node.create("c1")
        assert str(caught.value) == f"{reason} (no plugin can run)"
    refused = f"create of container c1: {reason} (no plugin can run)"
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert errors == [f"{reason}; no plugin can run", refused, refused]
    (etc / at).chmod(0o755)
    assert done(node, "create") == "ok"
    assert node.runs == ["a create c1"]


def test_of_a_conf_json_the_last_version_that_was_trusted_stays_in_force(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.plugins(a="answer")
    assert done(node, "create") == "ok"
    node.plugin("b")
    node.configure("b")
    node.conf_json.chmod(0o666)
    assert done(node, "create", "c2") == "ok"
    assert node.runs == ["a create c1", "a create c2"]
    assert f"{node.conf_json} is world-writable; the last good version stays in force" in caplog.text


def test_what_a_group_can_write_runs_with_one_warning(node: Node, bin_: Path, caplog: pytest.LogCaptureFixture) -> None:
    bin_.chmod(0o775)
    (bin_ / "b").symlink_to("a")
    node.configure("a", "b")
    assert done(node, "create") == done(node, "create", "c2") == "ok"
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [text for text in warnings if "trust" in text] == [
        f"trust: {bin_} is writable for group {bin_.stat().st_gid}"
    ]
