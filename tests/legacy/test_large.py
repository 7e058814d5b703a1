"""Large containers: requests are made and results are read in child processes, and nobody waits for these too long.

Here every container counts as large.
"""

from __future__ import annotations

import os
import re
import resource
import signal
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest

from nri import api
from nri.plugin import RESERVE
from v010_adapter.events import serving
from v010_adapter.legacy import create_answer, request, result, update_answer
from v010_adapter.legacy.answer import AnswerBuilder
from v010_adapter.oci import sizes, spec
from v010_adapter.programs import apart
from v010_adapter.programs.children import children
from v010_adapter.settings import LegacySettings

from ..rig.node import Answer, Node, a_container, a_pod, configured, creating, saying
from .scenarios import done

DUE = 2 - RESERVE
EDIT = {"spec": {"process": {"env": ["B=2"]}}, "metadata": {"k": "v"}}
EVENTS = ("CreateContainer", "UpdateContainer", "PostCreateContainer")


@pytest.fixture(autouse=True)
def every_container_is_large(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing meets a bug in a child process: what has been prepared there would be made in this one."""
    monkeypatch.setattr(serving, "LARGE", 0)
    yield
    assert not [record for record in caplog.get_records("call") if record.message.startswith("a bug")]


def event(node: Node, name: str) -> Answer:
    container = a_container("c1", env=["A=1"], mounts=[api.Mount(destination="/data", type="bind", source="/srv")])
    return node.handle(name, getattr(api, f"{name}Request")(pod=a_pod(), container=container))


class Hanging:
    """Lets a child process hang where a request is made, or where a result is read."""

    def __init__(self, node: Node, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
        self._node = node
        self._forks = 0
        self._last = 1 if where == "request" else 2
        self._fork = children.fork
        hangs: dict[str, tuple[Any, str]] = {"request": (AnswerBuilder, "_spec"), "result": (create_answer, "merged")}
        hangs["late result"] = result, "parse"
        monkeypatch.setattr(*hangs[where], lambda *_: signal.pause())
        monkeypatch.setattr(children, "fork", self.fork)

    def fork(self) -> int:
        self._forks += 1
        return self._fork()

    def create(self) -> Answer:
        """Creates a container; returns when the process hangs."""
        made = creating(self._node)
        self._node.loop.until(lambda: self.is_hanging, "no process is forked")
        return made

    @property
    def is_hanging(self) -> bool:
        return self._forks == self._last


def test_plugins_see_and_change_a_large_container_as_any_other(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for limit in (1 << 30, 0):
        monkeypatch.setattr(serving, "LARGE", limit)
        configured(node, "CreateContainer").plugins(
            a=saying(**EDIT, adjust={"CDI_devices": [{"name": "x/y=1"}]}, updates=[{"id": "c0", "resources": {}}]),
            b=saying(spec={"annotations": {"x": "y"}}),
        )
        node.serving.updates.existing.add("c0")
        made = creating(node)
        assert done(node, made) == "ok"
        found.append((made.reply, node.requests("a")[-1], node.requests("b")[-1]))
    for first, second in zip(*found, strict=True):
        assert first == second
    reply, _, got = found[1]
    assert (reply.adjust.env[0].key, dict(reply.adjust.annotations)) == ("B", {"x": "y"})
    assert [device.name for device in reply.adjust.CDI_devices] == ["x/y=1"]
    assert [update.container_id for update in reply.update] == ["c0"]
    assert "B=2" in got["spec"]["process"]["env"]
    assert got["results"] == [{"plugin": "", "version": "", "error": "", "metadata": {"k": "v"}}]


@pytest.fixture
def nothing_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails what makes or reads a large container in this process."""
    daemon = os.getpid()

    def apart_only(of: Any, name: str) -> None:
        original = getattr(of, name)

        def checked(*arguments: Any) -> Any:
            assert os.getpid() != daemon
            return original(*arguments)

        monkeypatch.setattr(of, name, checked)

    for of, name_ in (
        *((spec, "to_json"), (create_answer, "read"), (update_answer, "read"), (AnswerBuilder, "_spec")),
        *((AnswerBuilder, "_encode"), (request, "_spec")),
    ):
        apart_only(of, name_)


@pytest.mark.usefixtures("nothing_here")
@pytest.mark.parametrize("name", EVENTS)
def test_the_daemon_itself_makes_and_reads_nothing_of_a_large_container(node: Node, name: str) -> None:
    wishes = EDIT if name == "CreateContainer" else {"metadata": {"k": "v"}}
    configured(node, name).plugins(a=saying(**wishes), b="answer")
    assert done(node, event(node, name)) == "ok"
    assert [len(got["spec"]["mounts"]) for got in node.requests("b")] == [1]


@pytest.mark.usefixtures("nothing_here")
def test_that_is_so_if_the_next_plugin_gets_the_whole_container_and_the_first_what_its_create_knew(node: Node) -> None:
    configured(node, "RemoveContainer", plugins="b").plugins(a="answer", b="answer")
    for name in ("StartContainer", "RemoveContainer"):
        assert done(node, event(node, name)) == "ok"
    assert [(got["state"], "mounts" in got["spec"]) for got in node.requests("a")] == [
        ("create", False), ("delete", False)
    ]  # fmt: skip
    assert [(got["state"], "mounts" in got["spec"]) for got in node.requests("b")] == [("delete", True)]


def test_an_update_that_no_kernel_takes_fails_before_a_plugin_runs(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "MAX_ELEMENTS", 3)
    configured(node, "UpdateContainer", plugins="a", fail_create=True).plugins(a="answer")
    many = api.LinuxResources(unified={str(number): "1" for number in range(4)})
    for container, resources, field in (
        (a_container("c1"), many, "linux.resources.unified"),
        (api.Container(id="c1", mounts=[api.Mount()] * 4), None, "mounts"),
    ):
        update = api.UpdateContainerRequest(pod=a_pod(), container=container, linux_resources=resources)
        refused = f"plugin: a: {field}: 4 elements, at most 3"
        assert (done(node, node.handle("UpdateContainer", update)), node.runs) == (refused, [])


WHERE = pytest.mark.parametrize("where", ["request", "result"])
FAIL = pytest.mark.parametrize("fail", [True, False])


@WHERE
@FAIL
def test_what_takes_too_long_is_killed_and_decided_by_the_policy_before_the_answer_is_due(
    node: Node, monkeypatch: pytest.MonkeyPatch, where: str, *, fail: bool
) -> None:
    configured(node, "CreateContainer", plugins="a", fail_create=fail).plugins(a=saying(**EDIT))
    made = Hanging(node, monkeypatch, where).create()
    node.loop.advance(DUE - apart.RESERVE - 0.01)
    assert made.pending
    node.loop.advance(0.01)
    error = r"plugin: a: a container of \d+ bytes: not done in the time of the event" if fail else "ok"
    assert re.fullmatch(error, done(node, made))
    assert made.reply is None
    assert node.runs == {"request": [], "result": ["a create c1"]}[where]


@WHERE
@FAIL
def test_the_event_is_answered_when_it_is_due_though_the_process_is_not_killed_in_time(
    node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, where: str, *, fail: bool
) -> None:
    """As on a machine that is too busy. What the process returns then counts no more."""
    configured(node, "CreateContainer", plugins="a", fail_create=fail, kill_on_timeout=True).plugins(a=saying(**EDIT))
    monkeypatch.setattr(apart, "RESERVE", -5)
    made = Hanging(node, monkeypatch, where).create()
    node.loop.advance(DUE)
    reason = {"request": "not run: no time was left", "result": "no result within 1.9 s"}[where]
    assert made.outcome == (f"plugin: a: {reason}" if fail else "ok")
    node.loop.advance(5)
    node.idle()
    assert "a bug" not in caplog.text


def test_the_limit_of_a_plugin_does_not_count_while_its_result_is_read(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    configured(node, "CreateContainer", plugins="a", timeout=0.5).plugins(a=saying(**EDIT))
    made = Hanging(node, monkeypatch, "result").create()
    node.loop.advance(1)
    assert made.pending
    node.loop.advance(DUE - apart.RESERVE - 1)
    assert "not done in the time of the event" in done(node, made)


def test_what_is_read_after_the_answer_has_the_time_of_late_plugins(
    node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    configured(node, "CreateContainer", plugins="a", fail_create=False).plugins(a="hold; " + saying(**EDIT))
    hanging = Hanging(node, monkeypatch, "late result")
    kill = Mock(side_effect=signal.pidfd_send_signal)
    monkeypatch.setattr(signal, "pidfd_send_signal", kill)
    made = creating(node)
    node.hear("a create c1 holds")
    node.loop.advance(DUE)
    assert made.outcome == "ok"
    node.release("a")
    node.loop.until(lambda: hanging.is_hanging, "no process is forked")
    node.loop.advance(LegacySettings().late_limit - apart.RESERVE - 0.01)
    assert not kill.called
    node.loop.advance(0.01)
    assert kill.called
    node.idle()
    assert "not done in the time" in caplog.text
    assert caplog.messages[-1] == "create of container c1: it has ended after the answer"


@pytest.mark.parametrize(
    ("of", "name", "what"), [(spec, "to_json", "its first request"), (create_answer, "merged", "a result")]
)
def test_a_bug_in_a_child_process_fails_its_plugin_and_is_logged(
    node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, of: object, name: str, what: str
) -> None:
    monkeypatch.setattr(of, name, Mock(side_effect=KeyError("found")))
    configured(node, "CreateContainer", plugins="a").plugins(a=saying(**EDIT))
    assert done(node, creating(node)).startswith("plugin: a: ")
    assert f"a bug: create of container c1: {what}" in caplog.text
    assert "KeyError: 'found'" in caplog.text
    caplog.clear()


def test_a_result_that_a_child_process_cannot_write_is_no_result(node: Node) -> None:
    def computed() -> bytes:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        return bytes(100_000)

    made = Answer(apart.computed(node.loop, computed, node.loop.time() + 10, "a container"))
    assert done(node, made) == "a container: the process that looks at it cannot write its result"
