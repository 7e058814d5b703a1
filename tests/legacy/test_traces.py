"""The runtime's span of an event: which programs get it, and which log lines name its trace."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from nri import Context, api
from v010_adapter.events.precreate import program
from v010_adapter.hooks.match import NamedHook
from v010_adapter.hooks.model import Hook, When
from v010_adapter.monitoring.trace import Trace
from v010_adapter.programs.process import Process, Program, Runner

from ..job.conftest import Stage, stage
from ..rig.loop import SteppedLoop
from ..rig.node import Answer, Node, a_container, a_pod
from ..rig.programs import Programs
from .deviations import DEVIATIONS

__all__ = ["stage"]

TRACE, OTHER = "0af7651916cd43dd8448eb211c80319c", "1" * 32
SHOWS = """echo '{"metadata":{"traceparent":"'"${TRACEPARENT-none}"'"}}'"""
"""A plugin whose result has the span that it got."""


def parent(trace: str = TRACE) -> str:
    return f"00-{trace}-b7ad6b7169203331-01"


def ask(node: Node, event: str, id_: str, trace: str, kind: Any = api.StartContainerRequest) -> Answer:
    """Sends an event of a runtime that traces, if `trace` is not empty."""
    request = kind(pod=a_pod(), container=a_container(id_))
    metadata = (("traceparent", parent(trace)),) if trace else ()
    context = Context(event, 2.0, node.loop.time, node.loop.time(), size=request.ByteSize(), metadata=metadata)
    return Answer(node.serving.serve(request, context))


def traced(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[tuple[str, str]]:
    """The trace and the first words of each record."""
    records = [record for record in caplog.records if record.levelno >= level]
    return [(getattr(record, "trace_id", ""), " ".join(record.getMessage().split()[:4])) for record in records]


def test_a_plugin_that_is_started_at_its_event_gets_the_span_of_that_event_and_of_no_other(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEPARENT", parent(OTHER))  # the adapter's own is not the event's
    node.plugins(a=SHOWS, b="answer")
    for id_, trace in (("c1", TRACE), ("c2", ""), ("c3", OTHER)):
        node.wait(ask(node, "StartContainer", id_, trace))
    node.wait(ask(node, "StopContainer", "c1", OTHER, api.StopContainerRequest))
    told = [one["results"][0]["metadata"]["traceparent"] for one in node.requests("b")]
    assert told == [parent(), "none", parent(OTHER), parent(OTHER)]
    assert any("`TRACEPARENT`" in one.what for one in DEVIATIONS)


def test_a_program_that_stands_by_has_no_span_and_its_replacement_neither(stage: Stage) -> None:
    wanted = stage.plugin(script="cat >/dev/null; echo ${{TRACEPARENT-none}}")._replace(takes_trace=True)

    def event() -> bytes:
        stage.standby.on_event()
        process = stage.runner.spawn(wanted, stage.ended.append, Trace(parent(), TRACE))
        process.feed(b"{}")
        return stage.finish(process)

    stage.open()
    assert event() == b"none\n"
    stage.ready()
    assert event() == b"none\n"
    stage.ready()
    stage.standby.close()
    assert event().decode() == f"{parent()}\n", "this one was started for its event"


def test_a_precreate_hook_has_the_variables_of_its_file_alone(loop: SteppedLoop, programs: Programs) -> None:
    path = programs.shell("hook", "echo ${TRACEPARENT-none}")
    hook = Hook(str(path), (), ("A=1",), None, When(always=True), ("precreate",))
    made: Program = program(NamedHook("hook.json", "/hooks/hook.json", hook), "/")
    ended: list[Process] = []
    Runner(loop).spawn(made, ended.append, Trace(parent(), TRACE)).feed(b"")
    loop.until(lambda: bool(ended), "the hook does not end")
    assert ended[0].stdout == b"none\n"


def test_the_log_lines_of_an_event_have_its_trace_and_those_of_untraced_events_none(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.plugins(a="""echo '{"error":"broken"}'""")
    for id_, trace in (("c1", TRACE), ("c2", ""), ("c3", OTHER)):
        node.wait(ask(node, "StartContainer", id_, trace))
    of = "create of container "
    assert traced(caplog) == [(TRACE, f"{of}c1:"), ("", f"{of}c2:"), (OTHER, f"{of}c3:")]


def test_what_is_logged_after_the_answer_has_the_trace_of_the_event_that_began_it(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.build(fail_create=False)
    node.plugins(a="hold; answer")
    first = ask(node, "StartContainer", "c1", TRACE)
    node.loop.until(lambda: bool(node.heard), "the plugin does not start")
    node.loop.advance(1.9)
    assert first.outcome == "ok"
    node.wait(ask(node, "StopContainer", "c2", OTHER, api.StopContainerRequest))
    node.release("a")
    node.loop.until(lambda: "has ended after the answer" in caplog.text, "the plugin does not end")
    assert {trace for trace, words in traced(caplog, logging.INFO) if "c1" in words} == {TRACE}


def test_a_conf_json_that_cannot_be_read_refuses_a_create_with_its_trace_in_the_log(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.conf_json.write_text("{")
    with pytest.raises(Exception, match="no plugin can run"):
        ask(node, "StartContainer", "c1", TRACE)
    assert traced(caplog)[-1] == (TRACE, "create of container c1:")
