"""What a runtime sends beside the message of a call: the trace context of runtimes that trace."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry import propagate, trace

from nri import Context
from nri.proto import ttrpc_pb2
from nri.syslog import PlainFormatter
from nri.testing import Node

from ..rig.trunk import Runtime, plugin

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
WRONG = (
    "",
    PARENT.upper(),
    PARENT[:-1],
    f"{PARENT}-",
    f"{PARENT}-x",
    f" {PARENT}",
    f"{PARENT}\n",
    f"ff-{TRACE}-{SPAN}-01",
    f"00-{'0' * 32}-{SPAN}-01",
    f"00-{TRACE}-{'0' * 16}-01",
    f"01-{TRACE}-{SPAN}-01-\0",
    f"01-{TRACE}-{SPAN}-01x",
    "x" * 1_000_000,
)
"""What W3C Trace Context (3.2) calls invalid, and what no environment variable can have."""


def context_of(*pairs: tuple[str, str]) -> Context:
    return Context("StartContainer", 2.0, lambda: 0.0, 0.0, metadata=pairs)


def test_a_handler_sees_the_metadata_of_its_call() -> None:
    seen: list[Context] = []
    runtime = Runtime(plugin(start_container=lambda request, context: seen.append(context)))
    runtime.ask("StartContainer", metadata={"Traceparent": PARENT, "tracestate": "a=1"})
    runtime.ask("StartContainer")
    told, untold = seen
    assert told.metadata == {"traceparent": [PARENT], "tracestate": ["a=1"]}
    assert (told.traceparent, told.trace_id) == (PARENT, TRACE)
    assert (untold.metadata, untold.traceparent, untold.trace_id) == ({}, None, "")


def test_all_values_of_a_key_are_there_in_order_and_two_spans_are_none() -> None:
    context = context_of(("a", "1"), ("traceparent", PARENT), ("A", "2"), ("Traceparent", PARENT))
    assert context.metadata == {"a": ["1", "2"], "traceparent": [PARENT, PARENT]}
    assert (context.traceparent, context.trace_id) == (None, "")


@pytest.mark.parametrize("sent", WRONG, ids=range(len(WRONG)))
def test_an_invalid_span_is_none(sent: str) -> None:
    assert context_of(("traceparent", sent)).traceparent is None


@pytest.mark.parametrize("sent", [PARENT, f"01-{TRACE}-{SPAN}-01", f"cc-{TRACE}-{SPAN}-01-what-comes.later"])
def test_later_versions_of_a_span_are_taken(sent: str) -> None:
    context = context_of(("traceparent", sent))
    assert (context.traceparent, context.trace_id) == (sent, TRACE)


def test_open_telemetry_reads_the_runtimes_span_from_the_metadata() -> None:
    context = propagate.extract(context_of(("traceparent", PARENT), ("tracestate", "a=1")).metadata)
    span = trace.get_current_span(context).get_span_context()
    assert (f"{span.trace_id:032x}", f"{span.span_id:016x}", span.trace_state.get("a")) == (TRACE, SPAN, "1")


def test_metadata_that_is_sent_as_bytes_of_ttrpc_arrives() -> None:
    """The numbers of the fields are ttRPC's: key 1, value 2, in metadata 5 (containerd/ttrpc request.proto)."""
    pair = b"\x0a\x01k\x12\x01v"
    assert ttrpc_pb2.Request.FromString(b"\x2a" + bytes([len(pair)]) + pair).metadata[0].value == "v"


def test_the_stubs_line_about_a_failed_handler_has_the_trace(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("no")

    runtime = Runtime(plugin(start_container=fail))
    runtime.ask("StartContainer", metadata={"traceparent": PARENT})
    runtime.ask("StartContainer")
    told, untold = caplog.records
    assert PlainFormatter(0, head=False).format(told).startswith(f"trace_id={TRACE} StartContainer: ")
    assert PlainFormatter(0, head=False).format(untold).startswith("StartContainer: ")


@pytest.mark.parametrize(("flavour", "validates"), [("containerd/1.7.35", False), ("containerd/2.4.2", True)])
def test_the_embedded_runtime_sends_metadata(flavour: str, validates: bool) -> None:
    traces: list[str] = []

    def note(request: object, context: Context) -> None:
        traces.append(context.trace_id)

    with Node(flavour) as node:
        node.add(plugin(start_container=note, validate_container_adjustment=note))
        node.event("StartContainer")
        node.metadata["traceparent"] = PARENT
        node.event("StartContainer")
        node.event("CreateContainer")
    assert traces == ["", TRACE, *([TRACE] if validates else [])]
