"""Many events, and a runtime that does not keep up: nothing piles up."""

from __future__ import annotations

import os
import resource
from collections import deque

from adapter.nri import api
from adapter.wire import Code

from .harness import POD, Daemon, Node, container, start, stop

KIB_PER_EVENT = 0.3
"""Growth that is no leak: the allocator's, and the timers of calls, which are kept until they would be due."""


def settled(daemon: Daemon) -> None:
    """Waits until what the daemon does behind its last answer is done: it does one thing at a time."""
    for _ in range(2):
        assert daemon.call("CreateContainer").code == Code.OK


def misbehaving(node: Node) -> list[str]:
    """Installs plugins of every kind that ends by itself; returns their names."""
    scripts = {
        "fails": 'echo \'{"error":"no"}\'',
        "silent": "exit 1",
        "garbage": "echo oops",
        "killed": "kill -KILL $$",
        "deaf": "exec <&-; echo '{}'",
        "parent": ": & echo '{}'",
        "loud": "echo one >&2; echo two >&2; echo '{}'",
    }
    for name, script in scripts.items():
        node.plugin(name, script)
    (node.bin / "unfit").write_bytes(b"")
    (node.bin / "unfit").chmod(0o755)
    return [*scripts, "unfit", "missing"]


def test_200_events_leave_no_descriptor_and_no_process_behind(node: Node) -> None:
    kinds = misbehaving(node)
    daemon = node.launch({"onFailure": "ignore"})
    node.still_serves(daemon)
    settled(daemon)
    descriptors = daemon.descriptors()
    assert daemon.children() == {}
    for number in range(100):
        node.configure("good", kinds[number % len(kinds)])
        assert daemon.call("StartContainer", start(f"ctr-{number}")).code == Code.OK
        assert daemon.call("StopContainer", stop(f"ctr-{number}")).code == Code.OK
    settled(daemon)
    assert len(node.runs("good")) == 202
    assert daemon.children() == {}
    assert daemon.descriptors() == descriptors
    node.still_serves(daemon)


def test_100_late_plugins_leave_no_descriptor_and_no_process_behind_once_they_have_ended(node: Node) -> None:
    gate = node.gate()
    node.plugin("slow", f"{gate.script}; echo '{{}}'")
    daemon = node.launch({"plugins": {"slow": {"killOnTimeout": True, "timeout": 0.05}}})
    node.still_serves(daemon)
    settled(daemon)
    descriptors = daemon.descriptors()
    node.configure("slow")
    calls = [daemon.send("StartContainer", start(f"ctr-{number}")) for number in range(100)]
    for call in calls:
        assert daemon.reply(call).code == Code.UNKNOWN
    daemon.until(lambda: len([line for line in daemon.log if "has ended: killed by" in line]) == 100, "the end of all")
    settled(daemon)
    assert daemon.children() == {}
    assert daemon.descriptors() == descriptors


def life(number: int) -> list[tuple[str, object]]:
    ctr, pod = f"ctr-{number}", api.PodSandbox(id=f"pod-{number}", labels={"app": "web"}, pid=4242)
    removal = api.RemoveContainerRequest(pod=pod, container=container(ctr, None, pod))
    return [
        ("RunPodSandbox", api.RunPodSandboxRequest(pod=pod)),
        ("StartContainer", start(ctr, {"some": "annotation"}, pod)),
        ("StopContainer", stop(ctr, pod)),
        ("RemoveContainer", removal),
        ("StopPodSandbox", api.StopPodSandboxRequest(pod=pod)),
        ("RemovePodSandbox", api.RemovePodSandboxRequest(pod=pod)),
    ]


def play(daemon: Daemon, lives: range) -> None:
    """Plays lives of pods, a few at once."""
    calls: deque[int] = deque()
    for number in lives:
        for method, request in life(number):
            calls.append(daemon.send(method, request))  # type: ignore[arg-type]
        while len(calls) > 20:
            assert daemon.reply(calls.popleft()).code == Code.OK
    while calls:
        assert daemon.reply(calls.popleft()).code == Code.OK
    daemon.replies.clear()
    daemon.heard.clear()


def test_memory_does_not_grow_with_1800_events(node: Node) -> None:
    node.plugin("quick", 'echo \'{"plugin":"quick"}\'')
    node.configure("quick")
    daemon = node.launch()
    play(daemon, range(150))
    before = daemon.resident()
    play(daemon, range(150, 450))
    growth = daemon.resident() - before
    assert growth < 1800 * KIB_PER_EVENT, f"{growth} KiB"
    settled(daemon)
    assert daemon.children() == {}
    node.still_serves(daemon)


def test_memory_does_not_grow_with_2000_events_that_find_a_broken_conf_json(node: Node) -> None:
    node.write_conf('{"plugins": 5}')
    daemon = node.launch({"onFailure": "ignore"})
    requests = {number: start(f"ctr-{number}") for number in range(100)}

    def play_starts(count: int) -> None:
        for number in range(count):
            assert daemon.call("StartContainer", requests[number % 100]).code == Code.OK
        daemon.replies.clear()
        daemon.heard.clear()

    play_starts(300)
    before = daemon.resident()
    play_starts(2000)
    growth = daemon.resident() - before
    assert growth < 2000 * KIB_PER_EVENT, f"{growth} KiB"
    assert len([line for line in daemon.log if "must be an array" in line]) == 1
    node.still_serves(daemon)


def test_a_runtime_that_does_not_read_costs_no_event_and_gets_every_answer_when_it_reads(node: Node) -> None:
    """Its answers are long enough to fill any socket: the daemon can write them only when they are read."""
    node.plugin("bad", "printf '{\"error\":\"'; head -c 70000 /dev/zero | tr '\\0' x; printf '\"}'")
    node.configure("bad")
    daemon = node.launch()
    calls = [daemon.send("StartContainer", start(f"ctr-{number}")) for number in range(10)]
    daemon.until(
        lambda: (
            len({line.split(": ")[0] for line in daemon.log if "ERROR create of container default/web/ctr-" in line})
            == 10
        ),
        "the failure of all",
        read_trunk=False,
    )
    assert daemon.replies.keys().isdisjoint(calls)
    calls.append(daemon.send("StartContainer", start("one-more")))  # while the others' answers stand in its way
    daemon.logged("ERROR create of container default/web/one-more (one-more): ")
    for call in calls:
        assert daemon.reply(call).message.startswith("plugin: bad: xxxx")
    node.still_serves(daemon)


def test_a_runtime_that_goes_with_answers_unread_is_gone_and_that_is_all(node: Node) -> None:
    node.plugin("bad", "printf '{\"error\":\"'; head -c 70000 /dev/zero | tr '\\0' x; printf '\"}'")
    node.configure("bad")
    daemon = node.launch(by_process=True)
    for number in range(20):
        daemon.send("StartContainer", start(f"ctr-{number}"))
    daemon.logged("ERROR create of container default/web/ctr-19 (ctr-19)")
    daemon.end_runtime()
    assert daemon.ended() == 0


def test_a_hundred_events_in_one_piece_are_all_served(node: Node) -> None:
    node.configure("good")
    daemon = node.launch()
    calls = daemon.send_together(*(("StartContainer", start(f"ctr-{number}"), 30.0) for number in range(100)))
    for call in calls:
        assert daemon.reply(call).code == Code.OK
    assert sorted(node.runs("good")) == sorted(("create", f"ctr-{number}") for number in range(100))
    assert os.path.exists(f"/proc/{daemon.server}")
    assert daemon.call("StopPodSandbox", api.StopPodSandboxRequest(pod=POD)).code == Code.OK


def test_a_daemon_that_has_run_out_of_descriptors_says_so_and_recovers(node: Node) -> None:
    node.configure("good")
    daemon = node.launch()
    node.still_serves(daemon)
    settled(daemon)
    descriptors = daemon.descriptors()
    hard = resource.prlimit(daemon.server, resource.RLIMIT_NOFILE)[1]
    for spare in range(1, 8):
        resource.prlimit(daemon.server, resource.RLIMIT_NOFILE, (len(descriptors) + spare, hard))
        reply = daemon.call("StartContainer", start(f"ctr-{spare}"))
        if reply.code != Code.OK:
            assert reply.message == f"plugin: good: {node.bin}/good: Too many open files"
    assert spare_is_enough(daemon, node), "it takes seven at most"
    resource.prlimit(daemon.server, resource.RLIMIT_NOFILE, (hard, hard))
    settled(daemon)
    assert daemon.descriptors() == descriptors
    assert daemon.children() == {}
    node.still_serves(daemon)


def spare_is_enough(daemon: Daemon, node: Node) -> bool:
    return daemon.call("StartContainer", start("enough")).code == Code.OK and ("create", "enough") in node.runs("good")
