"""Many events, a full node, and a runtime that does not keep up: nothing piles up."""

from __future__ import annotations

import signal

from google.protobuf.message import Message

from adapter.nri import api
from adapter.wire import Code

from .harness import Node, container, start, stop
from .process import Daemon


def settled(daemon: Daemon) -> None:
    """Waits until what the daemon does behind its last answer is done: it does one thing at a time."""
    daemon.serves("CreateContainer", "CreateContainer")


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
