"""Creates and deletes with real plugins, as long as all goes fast: who runs, on what, and what the event gets."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

import pytest

from adapter.legacy import cgroup

from .node import Answer, Node, a_pod

FAIL = """echo '{"error":"broken"}'"""


def done(node: Node, answer: Answer) -> str:
    node.wait(answer)
    return answer.outcome


def logged(caplog: pytest.LogCaptureFixture, level: int = logging.ERROR) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == level]


# Once each


def test_every_plugin_runs_once_for_a_create_and_once_for_the_delete_in_order(node: Node) -> None:
    node.plugins(b="answer", a="answer", c="answer")
    assert done(node, node.create("c1")) == "ok"
    assert done(node, node.delete("c1")) == "ok"
    assert node.runs == [f"{name} {state} c1" for state in ("create", "delete") for name in "bac"]
    assert len(node.bridge.ledger) == 0


def test_pods_and_containers_are_served_alike(node: Node) -> None:
    node.plugins(a="answer")
    assert done(node, node.create_pod()) == "ok"
    assert done(node, node.create("c1")) == "ok"
    assert done(node, node.delete("c1")) == "ok"
    assert done(node, node.delete_pod()) == "ok"
    assert node.runs == ["a create pod", "a create c1", "a delete c1", "a delete pod"]
    assert [(request["id"], request["sandboxID"]) for request in node.requests("a")] == [
        ("pod", "pod"),
        ("c1", "pod"),
        ("c1", "pod"),
        ("pod", "pod"),
    ]


def test_without_plugins_there_is_nothing_to_do(node: Node) -> None:
    assert node.create("c1").outcome == "nothing to do"
    node.configure()
    assert node.create_pod().outcome == "nothing to do"
    assert node.delete("c1").outcome == "nothing to do"
    assert not node.busy


def test_what_had_no_create_gets_no_delete(node: Node) -> None:
    node.plugins(a="answer")
    assert node.delete("c1").outcome == "nothing to do"
    assert node.delete_pod().outcome == "nothing to do"
    assert node.runs == []


def test_a_second_stop_and_a_remove_after_it_do_nothing(node: Node) -> None:
    node.plugins(a="answer")
    done(node, node.create("c1"))
    done(node, node.delete("c1"))
    assert node.delete("c1").outcome == "nothing to do"
    assert node.delete("c1", event="RemoveContainer").outcome == "nothing to do"
    assert node.runs == ["a create c1", "a delete c1"]


def test_a_remove_makes_up_for_a_stop_that_never_came(node: Node) -> None:
    node.plugins(a="answer")
    done(node, node.create_pod())
    done(node, node.create("c1"))
    assert done(node, node.delete("c1", event="RemoveContainer")) == "ok"
    assert done(node, node.delete_pod(event="RemovePodSandbox")) == "ok"
    assert node.runs[2:] == ["a delete c1", "a delete pod"]


def test_a_second_stop_while_the_first_is_under_way_does_nothing(node: Node) -> None:
    node.plugins(a='[ "$state" = create ] || hold; answer')
    done(node, node.create("c1"))
    first = node.delete("c1")
    node.hear("a delete c1 holds")
    assert node.delete("c1").outcome == "nothing to do"
    assert node.delete("c1", event="RemoveContainer").outcome == "nothing to do"
    node.release("a")
    assert done(node, first) == "ok"
    assert node.runs == ["a create c1", "a delete c1"]


def test_a_create_that_comes_again_runs_again_and_has_one_delete(node: Node) -> None:
    node.plugins(a="answer")
    done(node, node.create("c1"))
    done(node, node.create("c1"))
    done(node, node.delete("c1"))
    assert node.delete("c1").outcome == "nothing to do"
    assert node.runs == ["a create c1", "a create c1", "a delete c1"]


def test_two_entries_of_one_type_are_two_plugins(node: Node) -> None:
    node.plugin("a")
    node.configure(("a", 1), ("a", 2))
    done(node, node.create("c1"))
    done(node, node.delete("c1"))
    assert [(request["state"], request["conf"]) for request in node.requests("a")] == [
        ("create", 1),
        ("create", 2),
        ("delete", 1),
        ("delete", 2),
    ]


# Requests


def test_results_go_down_the_chain(node: Node) -> None:
    node.plugins(a="answer", b="echo null", c="answer")
    done(node, node.create("c1"))
    done(node, node.delete("c1"))
    of_a = {"plugin": "a", "version": "", "error": "", "metadata": {"of": "create"}}
    of_b = {"plugin": "", "version": "", "error": ""}
    assert "results" not in node.requests("a")[0]
    assert node.requests("b")[0]["results"] == [of_a]
    assert node.requests("c")[0]["results"] == [of_a, of_b]
    assert node.requests("c")[1]["results"] == [{**of_a, "metadata": {"of": "delete"}}, of_b]


def test_a_delete_remembers_what_the_runtime_has_forgotten(node: Node) -> None:
    node.plugins(a="answer")
    done(node, node.create_pod())
    done(node, node.create("c1"))
    done(node, node.delete("c1"))
    done(node, node.delete_pod())
    pod, container, container_gone, pod_gone = node.requests("a")
    assert pod_gone == {**pod, "state": "delete"}
    assert container_gone == {**container, "state": "delete"}
    assert (pod["pid"], container["pid"]) == (11, 22)
    assert pod["labels"] == container["labels"] == dict(a_pod().labels)
    assert (pod["spec"]["cgroupsPath"], container["spec"]["cgroupsPath"]) == ("/pod", "/c1")


def test_a_delete_uses_the_entry_of_its_create_though_conf_json_has_changed(node: Node) -> None:
    for name in "abc":
        node.plugin(name)
    node.configure(("a", {"n": 1}), ("b", {"n": 1}))
    done(node, node.create("c1"))
    node.configure(("c", {"n": 2}), ("b", {"n": 2}))
    done(node, node.create("c2"))
    done(node, node.delete("c1"))
    done(node, node.delete("c2"))
    assert node.runs[4:] == ["a delete c1", "b delete c1", "c delete c2", "b delete c2"]
    assert [request["conf"] for request in node.requests("b")] == [{"n": 1}, {"n": 2}, {"n": 1}, {"n": 2}]


def test_a_delete_comes_though_conf_json_is_gone_or_broken(node: Node) -> None:
    node.plugins(a="answer")
    done(node, node.create("c1"))
    done(node, node.create("c2"))
    node.conf_json.write_text("{")
    assert done(node, node.delete("c1")) == "ok"
    node.conf_json.unlink()
    assert done(node, node.delete("c2")) == "ok"
    assert node.runs[2:] == ["a delete c1", "a delete c2"]


# The pid


def finder(found: int, asked: list[str]) -> Callable[[str], int]:
    def find_pid(path: str) -> int:
        asked.append(path)
        return found

    return find_pid


def test_a_pid_that_the_runtime_does_not_tell_is_looked_up_and_remembered(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    found = os.getpid()
    monkeypatch.setattr(cgroup, "find_pid", finder(found, asked))
    node.plugins(a="answer")
    done(node, node.create("c1", pid=0))
    done(node, node.delete("c1"))
    assert [request["pid"] for request in node.requests("a")] == [found, found]
    assert asked == ["/c1"]


def test_a_pid_that_is_not_found_is_left_out(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "find_pid", finder(0, []))
    node.plugins(a="answer")
    done(node, node.create("c1", pid=0))
    done(node, node.delete("c1"))
    assert ["pid" in request for request in node.requests("a")] == [False, False]


def test_a_pid_that_the_runtime_tells_is_taken(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(cgroup, "find_pid", finder(77, asked))
    node.plugins(a="answer")
    done(node, node.create("c1", pid=5))
    assert node.requests("a")[0]["pid"] == 5
    done(node, node.create("c2", pid=0, linux=None))
    assert "pid" not in node.requests("a")[1]
    assert asked == []


def test_the_pid_is_the_process_in_a_real_cgroup(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    root = node.folder / "cgroup"
    (root / "cpu/c1").mkdir(parents=True)
    (root / "cpu/c1/cgroup.procs").write_text("4242\n")
    real = cgroup.find_pid
    monkeypatch.setattr(cgroup, "find_pid", lambda path: real(path, str(root)))
    node.plugins(a="answer")
    done(node, node.create("c1", pid=0))
    assert node.requests("a")[0]["pid"] == 4242
