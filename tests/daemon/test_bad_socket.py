"""Bytes that no runtime should send, or not like that: what they ask is refused, and the next event is served.

tests/wire and tests/nri have every case without a process; here the daemon meets one of each kind.
"""

from __future__ import annotations

import json

from google.protobuf.message import Message

from adapter.nri import api
from adapter.wire import PLUGIN_SERVICE, Code, mux, ttrpc

from .harness import POD, Node, container, patched, start, stop

GARBAGE = b"\xff" * 100
NOT_UTF_8 = b"\x0a\x04\x0a\x02\xff\xfe\x12\x04\x0a\x02\xff\xfe"
HOSTILE = "$(touch /tmp/x) `id` ../../etc \0 \n\r\x1b[31m \u2028 \U0001f600 \x7f %s %d {0} <&>"


def test_a_frame_that_is_oversized_costs_the_connection_when_the_chains_under_way_have_ended(node: Node) -> None:
    gate = node.slow()
    node.configure("slow")
    daemon = node.launch(by_process=True)
    daemon.send(start("ctr"))
    gate.arrival()
    daemon.send_bytes(mux.HEADER.pack(PLUGIN_SERVICE, mux.MAX_PAYLOAD + 1))
    daemon.dropped()
    daemon.end_runtime()
    daemon.logged("INFO the runtime has ended")
    assert daemon.is_running()
    gate.let_on()
    assert daemon.ended() == 0
    assert node.runs("slow") == [("create", "ctr")]
    (line,) = [line for line in daemon.log if "ERROR" in line]
    assert line.endswith(f"ERROR connection 1: a frame of {mux.MAX_PAYLOAD + 1} bytes, at most {mux.MAX_PAYLOAD}")


def test_an_oversized_message_is_refused_and_skipped_and_the_largest_reaches_the_plugin(node: Node) -> None:
    daemon = node.launch()
    reply = daemon.reply(daemon.send_envelope(b"\xff" * (ttrpc.MAX_LENGTH + 1)))
    assert (reply.code, str(ttrpc.MAX_LENGTH) in reply.message) == (Code.RESOURCE_EXHAUSTED, True)
    node.plugin("whole", f"cat >'{node.path}/request'; echo '{{}}'")
    node.plugin("deaf", "exec <&-; echo '{}'")
    node.configure("deaf", "whole")
    size = ttrpc.MAX_LENGTH - len(start("ctr", {"big": ""}).SerializeToString()) - 200
    daemon.serves(start("ctr", {"big": "x" * size}))
    assert json.loads((node.path / "request").read_bytes())["spec"]["annotations"] == {"big": "x" * size}


def test_events_before_configure_and_synchronize_and_about_nothing_are_answered(node: Node) -> None:
    daemon = node.spawn(patched(f"settings.DEFAULT_PATH = {str(node.file())!r}"))
    registration = daemon.request()
    methods = ("CreateContainer", "StartContainer", "StopContainer", "StopPodSandbox", "RemovePodSandbox")
    daemon.serves(*methods)
    daemon.answer(registration)
    daemon.configure()
    daemon.serves("Synchronize", "RunPodSandbox", *methods)
    node.still_serves(daemon)


def test_what_pods_may_choose_reaches_the_plugin_as_it_is(node: Node) -> None:
    node.configure("good")
    daemon = node.launch()
    daemon.serves(stop("stranger"), start("ctr", {HOSTILE: HOSTILE}))
    (request,) = node.requests("good")
    assert request["spec"]["annotations"] == {HOSTILE: HOSTILE}
    ids = [HOSTILE, "x" * 100_000, "/", "..", "%n"]
    daemon.serves(*(event(id_) for id_ in ids for event in (start, stop)))
    assert [id_ for state, id_ in node.runs() if state == "delete"] == ids
    node.still_serves(daemon)


def test_a_later_protocol_with_more_fields_events_and_methods_is_served_as_todays(node: Node) -> None:
    node.configure("good")
    answers = []
    for is_later in (False, True):
        daemon = node.spawn()
        of, pod = container("ctr", {"a": "b"}), api.PodSandbox.FromString(POD.SerializeToString())
        calls: list[Message] = [
            api.ConfigureRequest(config=node.settings(), NRI_version="v0.12.5", request_timeout=60_000),
            api.SynchronizeRequest(pods=[pod]),
            api.RunPodSandboxRequest(pod=pod),
            api.CreateContainerRequest(pod=pod, container=of),
            api.StartContainerRequest(pod=pod, container=of),
            api.StateChangeEvent(event=15, pod=pod, container=of),  # type: ignore[arg-type]
            api.StopContainerRequest(pod=pod, container=of),
        ]
        daemon.registration()
        for message in (*calls, *(part for call in calls for _, part in call.ListFields())):
            if is_later and isinstance(message, Message):
                message.MergeFromString(b"\xa2\x1f\x01x")  # field 500, a text
        replies = [daemon.call(message) for message in calls]
        assert [reply.code for reply in replies] == [Code.OK] * len(calls), replies
        answers.append([reply.payload for reply in replies])
        assert daemon.call("ActivatePodSandbox").code == Code.UNIMPLEMENTED
        daemon.kill()
    assert answers[0] == answers[1]
    first, second = (node.requests("good")[at : at + 3] for at in (0, 3))
    assert first == second
    assert node.runs() == 2 * [("create", "pod-1"), ("create", "ctr"), ("delete", "ctr")]
