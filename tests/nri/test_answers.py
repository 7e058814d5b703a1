"""Answers: errors and their codes, answers that are too large, answers that come later, deadlines."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from nri import Context, Deferred, api
from nri.errors import CallError
from nri.events import PLUGIN, RUNTIME
from nri.proto import ttrpc_pb2
from nri.wire import PLUGIN_SERVICE, Code, Reply, mux, ttrpc
from v010_adapter.errors import PluginError

from ..rig.trunk import HANDLERS, NUMBERS, Runtime, plugin
from ..wire import message_of

Start = Deferred[api.StartContainerResponse]
ANSWERED = {"Configure": "configure", "Synchronize": "synchronize"} | HANDLERS

# ---- errors

# After one UNIMPLEMENTED, NRI >= 0.12 sends every event as a state change: it is never the code of a handler's error.
ERRORS: list[tuple[Exception, int, str]] = [
    (PluginError("konfine", "exit status 1\n"), Code.UNKNOWN, "plugin: konfine: exit status 1\n"),
    (KeyError(), Code.UNKNOWN, "10-sample: KeyError"),
    (CallError(Code.UNKNOWN, ""), Code.UNKNOWN, ""),
    (CallError(Code.UNIMPLEMENTED, "not today"), Code.UNKNOWN, "not today"),
    (CallError(Code.OK, "not today"), Code.UNKNOWN, "not today"),
    *((CallError(code, "so there"), code, "so there") for code in (1, 3, 4, 5, 8, 9, 13, 14, 16)),
]


def failing(error: Exception) -> Callable[..., Any]:
    def handler(request: object, context: object) -> None:
        raise error

    return handler


def test_a_handlers_error_has_its_own_text_and_may_choose_its_code_in_either_generation() -> None:
    for method, handler in ANSWERED.items():
        for error, code, text in ERRORS:
            runtime = Runtime(plugin(**{handler: failing(error)}))
            replies = [runtime.call(method)]
            if method in NUMBERS:
                change = api.StateChangeEvent(event=NUMBERS[method])  # type: ignore[arg-type]
                replies.append(runtime.call("StateChange", change))
            assert {(reply.code, reply.message) for reply in replies} == {(code, text)}
        wrong = Runtime(plugin(**{handler: lambda *_: 5})).call(method).message
        assert wrong == f"10-sample: TypeError: {handler} has returned a int, not {method}Response"


def test_an_expected_error_is_not_logged_and_a_bug_is_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    Runtime(plugin(start_container=failing(PluginError("konfine", "no")))).call("StartContainer")
    assert caplog.records == []
    Runtime(plugin(start_container=failing(ZeroDivisionError("bug")))).call("StartContainer")
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.ERROR, "StartContainer: 10-sample: ZeroDivisionError: bug")
    assert record.exc_info


def test_an_unknown_method_or_service_is_unimplemented_and_named_in_proportion() -> None:
    unknown = [(PLUGIN, method) for method in ("NoSuchMethod", "startContainer", "", "x" * (3 << 20))]
    for service, method in (*unknown, (RUNTIME, "StartContainer"), ("", "StartContainer")):
        reply = Runtime().send(method, service=service)
        assert reply
        text = f"no method {service}/{method}"[: 64 << 10]
        assert (reply.code, reply.message.removesuffix(" …")) == (Code.UNIMPLEMENTED, text)


def test_a_payload_that_cannot_be_decoded_is_an_internal_error_and_no_event() -> None:
    seen: list[object] = []
    runtime = Runtime(plugin(**dict.fromkeys(HANDLERS.values(), lambda request, context: seen.append(request))))
    for method in ("Shutdown", "StateChange", *ANSWERED):
        for payload in (b"\xff", b"\x0a\x05abc"):
            reply = runtime.send(method, payload)
            assert reply
            assert (reply.code, reply.message[:12], seen) == (Code.INTERNAL, "undecodable ", [])
    assert runtime.call("StartContainer").code == Code.OK


def test_an_answer_of_nearly_4_mib_is_sent_and_a_larger_one_becomes_an_error() -> None:
    size, told = [ttrpc.MAX_LENGTH - 64], list[int]()

    def create(*_: object) -> api.CreateContainerResponse:
        return api.CreateContainerResponse(adjust=api.ContainerAdjustment(args=["x" * size[0]]))

    deferred = Deferred[api.StopContainerResponse]()
    made = plugin(create_container=create, stop_container=lambda *_: deferred)
    made.answered = lambda context: told.append(context.status)  # type: ignore[method-assign]
    runtime = Runtime(made)
    assert runtime.call("CreateContainer").code == Code.OK
    size[0] = ttrpc.MAX_LENGTH
    reply = runtime.call("CreateContainer")
    assert (reply.code, reply.message[:17]) == (Code.RESOURCE_EXHAUSTED, "CreateContainer: ")
    runtime.send("StopContainer")
    deferred.complete(api.StopContainerResponse(update=[api.ContainerUpdate(container_id="x" * size[0])]))
    assert runtime.call("StartContainer").code == Code.OK
    assert [reply.code for reply in runtime.replies] == told == [Code.OK, *[Code.RESOURCE_EXHAUSTED] * 2, Code.OK]


# ---- answers that come later

UPDATED = api.StopContainerResponse(update=[api.ContainerUpdate(container_id="c")])
LATER: list[tuple[Callable[[Deferred[Any]], object], Reply]] = [
    (lambda deferred: deferred.complete(), Reply(1, Code.OK, "", b"")),
    (lambda deferred: deferred.complete(UPDATED), Reply(1, Code.OK, "", UPDATED.SerializeToString())),
    *((lambda deferred, error=error: deferred.fail(error), Reply(1, code, text, b"")) for error, code, text in ERRORS),
]


@pytest.mark.parametrize("is_before", [True, False])
def test_a_deferred_answer_is_sent_when_it_is_complete_also_before_the_handler_returns(is_before: bool) -> None:
    for complete, reply in LATER:
        deferred = Deferred[Any]()
        runtime = Runtime(plugin(stop_container=lambda *_, deferred=deferred: deferred))
        if is_before:
            complete(deferred)
        assert runtime.send("StopContainer") == (reply if is_before else None)
        complete(deferred)
        assert runtime.replies == [reply]


def test_two_threads_never_write_at_the_same_time() -> None:
    """Each thread that writes has the stub's lock, also one that completes an answer."""

    class Locked(Runtime):
        def receive(self, data: bytes) -> None:
            assert self.stub._lock.locked()
            super().receive(data)

    later = Start()
    runtime = Locked(plugin(start_container=lambda *_: later, stop_container=failing(KeyError())))
    runtime.stub.register()
    runtime.send("StartContainer")
    runtime.call("StopContainer")
    later.complete()
    assert [reply.stream_id for reply in runtime.replies] == [3, 1]


def test_the_errors_of_a_handler_keep_no_frames() -> None:
    """They would keep the request as long as somebody keeps an error."""
    first, second = ValueError("first"), KeyError("second")

    def start(*_: object) -> None:
        try:
            raise first
        except ValueError:
            raise second from None

    assert Runtime(plugin(start_container=start)).call("StartContainer").code == Code.UNKNOWN
    assert (first.__traceback__, second.__traceback__) == (None, None)


# ---- deadlines


def test_the_deadline_is_the_callers_which_may_be_over_else_that_of_configure_else_2_seconds() -> None:
    """A Go client whose deadline passes while it prepares its call sends a negative timeout."""
    for configured, told, seconds in ((4000, 1.5, 1.5), (4000, -0.005, -0.005), (4000, 0, 4.0), (0, 0, 2.0)):
        seen: list[float] = []
        runtime = Runtime(plugin(start_container=lambda _, context, seen=seen: seen.append(context.remaining())))
        runtime.configure(api.ConfigureRequest(request_timeout=configured))
        call = ttrpc_pb2.Request(service=PLUGIN, method="StartContainer", timeout_nano=int(told * 1e9))
        message = message_of(3, ttrpc.Type.REQUEST, call.SerializeToString())
        runtime.stub.receive_data(mux.frames(PLUGIN_SERVICE, message))
        assert seen == [pytest.approx(seconds)]


def test_the_remaining_time_runs_out_by_the_clock() -> None:
    kept: list[Context] = []
    runtime = Runtime(plugin(start_container=lambda request, context: kept.append(context)))
    runtime.call("StartContainer", timeout=2)
    (context,) = kept
    assert (context.method, context.deadline, context.due) == ("StartContainer", 1002.0, 1001.9)
    for timeout, due in ((0.1, 1000.05), (-1, 999.0)):
        assert Context("", timeout, runtime.clock, 1000.0).due == pytest.approx(due)
    earlier = Context("", 2.0, runtime.clock, 1000.0)
    assert (earlier.status, earlier.size, earlier.is_heard) == (0, 0, True)
    for seconds, due in ((0.25, 1001.65), (0.25, 1001.4), (9.0, 1001.0)):
        earlier.be_due_earlier(seconds)
        assert earlier.due == pytest.approx(due)
    for now, seconds in ((1000.0, 2.0), (1001.5, 0.5), (1003.0, -1.0)):
        runtime.clock.now = now
        assert context.remaining() == seconds


def test_the_handshake_has_deadlines_and_a_synchronize_in_parts_the_time_that_is_left_at_its_last_part() -> None:
    """The runtime counts one request timeout for all of them together."""
    seen: list[tuple[str, float]] = []

    def note(request: object, context: Context) -> None:
        seen.append((context.method, context.remaining()))

    runtime = Runtime(plugin(configure=note, synchronize=note))
    runtime.call("Configure", timeout=1.25)
    for more, timeout in ((True, 2.0), (True, 1.5), (False, 0.25)):
        runtime.call("Synchronize", api.SynchronizeRequest(more=more), timeout)
        runtime.clock.now += 0.5
    assert seen == [("Configure", 1.25), ("Synchronize", 0.25)]


def test_a_plugin_is_told_of_each_answer_once_it_is_written() -> None:
    later = Start()
    told: list[tuple[str, float, int]] = []

    def note(context: Context) -> None:
        told.append((context.method, context.elapsed(), len(runtime.replies)))

    sample = plugin(start_container=lambda *_: later, remove_container=failing(CallError(Code.UNKNOWN, "no")))
    sample.answered = note  # type: ignore[method-assign]
    runtime = Runtime(sample)
    runtime.send("StartContainer")
    assert told == []
    runtime.clock.now += 1
    runtime.call("StopContainer")
    runtime.call("RemoveContainer")
    later.complete()
    later.complete()
    assert told == [("StopContainer", 0.0, 1), ("RemoveContainer", 0.0, 2), ("StartContainer", 1.0, 3)]
