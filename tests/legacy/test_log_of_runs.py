"""The log finds the pod: each line about a run names it, as text and as the members of JSON; one line a run."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from nri import api
from v010_adapter.monitoring import logs
from v010_adapter.monitoring.logs import RUNS, LineFormatter
from v010_adapter.monitoring.trace import Named, Trace
from v010_adapter.settings import LogSettings

from ..rig.node import Node, a_container, a_pod

NAMES = {"namespace", "pod", "container", "id"}


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    caplog.set_level(logging.DEBUG)
    logging.getLogger(RUNS).disabled = False
    yield caplog
    logging.getLogger(RUNS).disabled = True


def test_each_line_about_a_run_has_the_container_in_text_and_json(node: Node, lines: pytest.LogCaptureFixture) -> None:
    node.plugins(loud="echo hello >&2; echo '{}'", bad='echo \'{"error": "no"}\'')
    pod, container = a_pod(namespace="default", name="web"), a_container("c1", name="nginx")
    node.wait(node.handle("StartContainer", api.StartContainerRequest(pod=pod, container=container)))
    text, as_json = LineFormatter(head=False), LineFormatter(as_json=True)
    told = [(text.format(one), json.loads(as_json.format(one))) for one in lines.records if "fields" in vars(one)]
    assert len(told) >= 5, [one.getMessage() for one in lines.records]
    subject = str(Named("container", *(told[0][1][name] for name in ("id", "namespace", "pod", "container"))))
    for line, members in told:
        assert members.keys() >= NAMES, line
        assert members["id"] == "c1"
        assert subject in line, line
    assert any(line == f"loud: {subject}: stderr: hello" for line, _ in told)


def test_with_log_runs_each_run_has_one_line_at_info_and_without_none(
    node: Node, lines: pytest.LogCaptureFixture
) -> None:
    node.plugins(a="hold; echo '{}'", bad='echo \'{"error": "no"}\'')
    for wanted in (True, False):
        logging.getLogger(RUNS).disabled = not wanted
        lines.clear()
        made = node.create(f"c{wanted}")
        node.hear(f"a create c{wanted} holds")
        node.loop.advance(0.5)
        node.release("a")
        node.wait(made)
        assert any("a: done after 500.0 ms" in line for line in lines.messages) is wanted
        told = [(one.levelname, one.fields) for one in lines.records if one.name == RUNS]  # type: ignore[attr-defined]
        runs = [(level, *map(fields.get, ("plugin", "outcome", "us"))) for level, fields in told]
        assert runs == [("INFO", "a", "done", 500_000), ("INFO", "bad", "failed", 0)] * wanted


def test_the_setting_switches_the_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    level = root.level
    try:
        for wanted in (True, False):
            logs.setup(LogSettings(target="stderr", runs=wanted))
            assert logging.getLogger(RUNS).isEnabledFor(logging.INFO) is wanted
    finally:
        root.setLevel(level)


def test_what_is_not_known_is_left_out() -> None:
    assert Trace().extra is None
    pod = Named("sandbox", "p1", "default", "web")
    assert Trace(about=pod).extra == pod.extra == {"fields": {"namespace": "default", "pod": "web", "id": "p1"}}
    assert Trace("x", "0af7").extra == {"trace_id": "0af7"}
    assert Trace().title("a") == "a"
