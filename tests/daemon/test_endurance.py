"""Many events, a full node, and a runtime that does not keep up: nothing piles up."""

from __future__ import annotations

import signal

from google.protobuf.message import Message

from adapter.nri import api
from adapter.wire import Code

from .harness import Node, container, start, stop
from .process import Daemon
from .test_end import failed

MISBEHAVING = {
    "fails": 'echo \'{"error":"no"}\'',
    "garbage": "echo oops",
    "killed": "kill -KILL $$",
    "deaf": "exec <&-; echo '{}'",
    "parent": ": & echo '{}'",
    "loud": "echo one >&2; echo two >&2; echo '{}'",
    "late": "exec sleep 1000",
}


def settled(daemon: Daemon) -> None:
    """Waits until what the daemon does behind its last answer is done: it does one thing at a time."""
    daemon.serves("CreateContainer", "CreateContainer")


def test_events_of_all_kinds_leave_no_descriptor_and_no_process_behind(node: Node) -> None:
    for name, script in MISBEHAVING.items():
        node.plugin(name, script)
    (node.bin / "unfit").write_bytes(b"")
    (node.bin / "unfit").chmod(0o755)
    kinds = [*MISBEHAVING, "unfit", "missing"]
    own = {"late": {"killOnTimeout": True, "timeout": 0.001}}
    daemon = node.launch({"onFailure": "ignore", "plugins": own})
    node.still_serves(daemon)
    settled(daemon)
    descriptors = daemon.descriptors()
    for number in range(2 * len(kinds)):
        node.configure("good", kinds[number % len(kinds)])
        daemon.serves(start(f"ctr-{number}"), stop(f"ctr-{number}"))
    daemon.until(lambda: len([line for line in daemon.log if "has ended: killed by" in line]) == 4, "the end of all")
    settled(daemon)
    assert (daemon.children(), daemon.descriptors()) == ({}, descriptors)
    node.still_serves(daemon)


COUNT = """
import gc
from adapter.daemon.router import Adapter

def count(*_):
    gc.collect()
    kinds = [type(one) for one in gc.get_objects()]
    ours = [kind for kind in kinds if kind.__module__.startswith(("adapter.", "google.")) and kind.__name__ != "Timer"]
    logs.log.info("%d objects", len(ours))

Adapter.reload = count
"""


def life(number: int) -> list[Message]:
    ctr, pod = f"ctr-{number}", api.PodSandbox(id=f"pod-{number}", labels={"app": "web"}, pid=4242)
    return [
        api.RunPodSandboxRequest(pod=pod),
        start(ctr, {"some": "annotation"}, pod),
        stop(ctr, pod),
        api.RemoveContainerRequest(pod=pod, container=container(ctr, None, pod)),
        api.StopPodSandboxRequest(pod=pod),
        api.RemovePodSandboxRequest(pod=pod),
    ]


def test_lives_of_pods_leave_no_object_behind(node: Node) -> None:
    """None of the adapter's classes or a message, counted on SIGHUP. Cancelled timers are searched for now and then."""
    node.plugin("quick", "echo '{}'")
    node.configure("quick")
    daemon = node.launch(patch=COUNT)
    counts = []
    for lives in (range(60), range(60, 120), range(120, 180)):
        for number in lives:
            for call in daemon.send_together(*life(number)):
                assert daemon.reply(call).code == Code.OK
        settled(daemon)
        daemon.log.clear()
        daemon.signal(signal.SIGHUP)
        counts.append(int(daemon.logged(" objects").split()[-2]))
    assert counts[2] <= counts[1] + 10, counts


def test_a_runtime_that_does_not_read_costs_no_event_and_gets_every_answer_when_it_reads(node: Node) -> None:
    """Its answers are long enough to fill any socket: the daemon can write them only when they are read."""
    daemon = node.launch()
    calls = failed(node, daemon)
    calls.append(daemon.send(start("one-more")))  # while the others' answers stand in its way
    daemon.logged("ERROR create of container default/web/one-more (one-more): ")
    for call in calls:
        assert daemon.reply(call).message.startswith("plugin: bad: xxxx")
    node.still_serves(daemon)
