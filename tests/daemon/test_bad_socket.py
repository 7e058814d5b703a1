"""Bytes that no runtime sends today: a breach of the protocol, and a later one. tests/wire has the other breaches."""

from __future__ import annotations

from google.protobuf.message import Message

from adapter.nri import api
from adapter.wire import PLUGIN_SERVICE, Code, mux

from .harness import POD, Node, container, start


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
