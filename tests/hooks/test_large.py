"""Containers that are too large for hooks: refused before any work, or matched in a child process until a deadline."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, MutableMapping
from operator import attrgetter
from pathlib import Path
from resource import RLIMIT_CPU, getrlimit
from typing import Any

import pytest

from nri import api
from nri.deferred import in_turn
from nri.runtimes import Runtime
from v010_adapter.errors import Oversized
from v010_adapter.events import hooks as bridge
from v010_adapter.events.hooks import HookBridge
from v010_adapter.hooks.facts import Facts
from v010_adapter.hooks.match import Matcher, NamedHook
from v010_adapter.hooks.model import Hook, When
from v010_adapter.hooks.patterns import compiled
from v010_adapter.oci import sizes
from v010_adapter.programs.apart import CPU_SECONDS, LARGE, RESERVE, computed
from v010_adapter.programs.process import Runner
from v010_adapter.settings import HooksSettings

from ..rig.loop import SteppedLoop
from ..rig.processes import children, failing, open_descriptors
from .hookdirs import text

ALWAYS, COMMANDS, PAIRS, BINDS = (
    '{"always": true}',
    '{"commands": ["sh$"]}',
    '{"annotations": {"^note$": "(a|b)*a(a|b){300}c"}}',
    '{"hasBindMounts": true}',
)
NOTE = "ab" * 100_000
"""An annotation that is as large as Kubernetes allows, and that takes RE2 long."""

Hooks = Callable[..., HookBridge]


@pytest.fixture
def hooks(tmp_path: Path, loop: SteppedLoop) -> Hooks:
    """Makes the hooks of files with these conditions."""

    def make(*conditions: str, fail: bool = True, pod_annotations: bool = False) -> HookBridge:
        directory = tmp_path / f"{len(os.listdir(tmp_path))}"
        directory.mkdir()
        for number, when in enumerate(conditions):
            (directory / f"{number}.json").write_bytes(text(number, when=when))
        own = HooksSettings(
            directories=(str(directory),), watch=False, fail_create=fail, pod_annotations=pod_annotations
        )
        made = HookBridge(loop, own, Runner(loop))
        made.start(Runtime())
        return made

    return make


def creating(pod: dict[str, Any], **container: Any) -> api.CreateContainerRequest:
    return api.CreateContainerRequest(pod=api.PodSandbox(**pod), container=api.Container(id="c", **container))


class Outcome:
    """What becomes of a creation."""

    def __init__(self, hooks: HookBridge, request: api.CreateContainerRequest, due: float) -> None:
        self.response = api.CreateContainerResponse()
        self.error: Exception | None = None
        self.is_there = False
        in_turn(hooks.on_creation(request, self.response, due)).then(self._take)

    def _take(self, _: object, error: Exception | None) -> None:
        self.error, self.is_there = error, True

    @property
    def injected(self) -> list[str]:
        return [hook.args[1] for hook in self.response.adjust.hooks.create_runtime]


TOO_LARGE: list[tuple[str, api.CreateContainerRequest, str]] = [
    (COMMANDS, creating({}, args=["/" * 4095 + "sh"]), "args[0]: 4097 bytes, at most 4095"),
    (PAIRS, creating({"annotations": {"a": "é" * (136 << 10)}}), "the pod's annotations: 278529 bytes, at most 278528"),
]


@pytest.mark.parametrize(("when", "request_", "reason"), TOO_LARGE)
def test_what_cannot_run_is_refused_before_any_work_if_a_hook_reads_it(
    hooks: Hooks, loop: SteppedLoop, monkeypatch: pytest.MonkeyPatch, when: str, request_: Any, reason: str
) -> None:
    """By hooks.onFailure: with `ignore`, hooks with other conditions are injected."""
    bound = api.CreateContainerRequest()
    bound.CopyFrom(request_)
    bound.container.mounts.add(type="bind")
    ignoring = Outcome(hooks(ALWAYS, when, BINDS, fail=False), bound, loop.now + 2)
    assert (ignoring.error, ignoring.injected) == (None, ["0", "2"])
    made = hooks(ALWAYS, when)
    for name in ("facts", "adjustment"):
        monkeypatch.setattr(bridge, name, lambda *_: pytest.fail("there is work"))
    assert str(Outcome(made, request_, loop.now + 2).error) == reason


@pytest.mark.parametrize("fail", [True, False])
def test_more_mounts_than_the_kernel_has_are_not_looked_at(hooks: Hooks, loop: SteppedLoop, *, fail: bool) -> None:
    mounts = [api.Mount(type="bind")] * 100_001
    outcome = Outcome(hooks(ALWAYS, BINDS, fail=fail), creating({}, mounts=mounts), loop.now + 2)
    assert (str(outcome.error), outcome.injected) == (
        ("mounts: 100001 elements, at most 100000", []) if fail else ("None", ["0"])
    )


PAIR_LIMIT = 60_000
"""The most matches of an annotation with a pair of patterns in one turn: 2.5 µs each."""


@pytest.mark.parametrize("number", [1, 10, 1000])
@pytest.mark.parametrize("texts", ["keys", "values"])
def test_what_is_matched_at_once_matches_few_pairs(number: int, texts: str) -> None:
    """A short text costs few steps of RE2, and more time for its calls."""
    pairs = tuple((f"|{each}", "") if texts == "keys" else ("", f"|{each}") for each in range(number))
    matcher = Matcher([NamedHook("a", "a", Hook("/a", (), (), None, When(annotations=pairs), ("poststop",)))])
    annotations = {f"{each:x}": "" for each in range(PAIR_LIMIT // number + 1)}
    assert matcher.work(Facts(annotations, None, has_bind_mounts=False)) > bridge.MAX_WORK


def test_each_byte_of_a_text_counts_once_for_each_instruction_of_the_patterns_for_it() -> None:
    when = When(annotations=(("^key", "a value"),), commands=("a command$",))
    matcher = Matcher([NamedHook("a", "a", Hook("/a", (), (), None, when, ("poststop",)))])
    text, short = "é" * 1000, matcher.work(Facts({"": ""}, "", has_bind_mounts=False))
    for pattern, facts in (("^key", ({text: ""}, "")), ("a value", ({"": text}, "")), ("a command$", ({"": ""}, text))):
        assert matcher.work(Facts(*facts, has_bind_mounts=False)) == short + 2000 * compiled(pattern).programsize
    assert matcher.work(Facts({}, None, has_bind_mounts=False)) == 0
    assert Matcher([]).work(Facts({text: text}, text, has_bind_mounts=False)) == 0, "as there are no patterns"


def test_large_fields_that_no_hook_reads_are_not_looked_at(hooks: Hooks, loop: SteppedLoop) -> None:
    made = hooks(ALWAYS, BINDS)
    for _, request, _ in TOO_LARGE:
        assert Outcome(made, request, loop.now + 2).injected == ["0"]


def test_what_may_take_long_is_matched_in_a_child_process(hooks: Hooks, loop: SteppedLoop) -> None:
    """The turn of the loop ends before; the answer is the same."""
    made = hooks(ALWAYS, PAIRS)
    before = open_descriptors()
    for note, injected in ((NOTE, ["0"]), (NOTE + "a" * 301 + "c", ["0", "1"])):
        outcome = Outcome(made, creating({"annotations": {"note": note}}), loop.now + 2)
        assert not outcome.is_there
        loop.until(lambda outcome=outcome: outcome.is_there, "the child does not end")  # type: ignore[misc]
        assert (outcome.error, outcome.injected) == (None, injected)
    assert open_descriptors() <= before
    assert loop.is_idle


def test_with_pod_annotations_a_match_takes_twice_as_long(
    hooks: Hooks, loop: SteppedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a setting adds to the work of a turn counts."""
    request = creating({"annotations": {"note": "ab" * 1000}})
    made = [hooks(ALWAYS, PAIRS, pod_annotations=setting) for setting in (False, True)]
    monkeypatch.setattr(Matcher, "work", lambda *_: bridge.MAX_WORK)
    at_once, apart = (Outcome(each, request, loop.now + 2) for each in made)
    assert (at_once.is_there, apart.is_there) == (True, False)
    loop.until(lambda: apart.is_there, "the child does not end")
    assert at_once.injected == apart.injected == ["0"]


def test_the_child_has_no_descriptor_of_the_daemon_and_ends_at_its_signals_and_after_some_computing(
    loop: SteppedLoop,
) -> None:
    """Some descriptors hold locks, which end with the last one."""
    held, numbers = os.open("/dev/null", os.O_RDONLY), (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.signal(number, lambda *_: None) for number in numbers]

    def compute() -> list[Any]:
        return [*map(signal.getsignal, numbers), *getrlimit(RLIMIT_CPU), *sorted(os.listdir("/proc/self/fd"))]

    try:
        answer = computed(loop, compute, loop.now + 2, "a text")
    finally:
        os.close(held)
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
    replies: list[Any] = []
    answer.then(lambda reply, _: replies.append(reply))
    loop.until(lambda: bool(replies), "the child does not end")
    assert replies == [[signal.SIG_DFL] * 3 + [CPU_SECONDS] * 2 + ["0", "1", "2", "3"]], "3 is the directory"


FILLINGS = {"a long one": {"filling": NOTE}, "many": {f"{number}": "" for number in range(12_000)}}
NOTES = '{"annotations": {"^note$": "^(a|b)*$"}}'


@pytest.mark.parametrize("filling", FILLINGS.values(), ids=FILLINGS)
@pytest.mark.parametrize("how", ["in time", "refused", "without"])
def test_a_hook_comes_with_its_annotation_or_not_at_all_whatever_else_the_pod_has(
    hooks: Hooks, loop: SteppedLoop, monkeypatch: pytest.MonkeyPatch, filling: dict[str, str], how: str
) -> None:
    """The match and the annotations are one decision: in one turn, in one child process, or by the policy."""
    made = hooks(ALWAYS, NOTES, PAIRS, fail=how != "without", pod_annotations=True)
    if how != "in time":
        monkeypatch.setattr(Matcher, "deciding", lambda *_: signal.pause())
    request = creating({"annotations": {"note": "abba", **filling}}, annotations={"own": "x"})
    outcome = Outcome(made, request, loop.now + 2)
    monkeypatch.undo()
    if how != "in time":
        loop.advance(2 - RESERVE - 0.01)
        assert not outcome.is_there
        loop.advance(0.01)
    loop.until(lambda: outcome.is_there, "the child does not end")
    annotations = dict(outcome.response.adjust.annotations)
    if how == "refused":
        assert str(outcome.error) == "annotations and args[0]: not done in the time of the event"
        assert (outcome.injected, annotations) == ([], {})
    else:
        assert outcome.error is None
        assert (outcome.injected, annotations) == ((["0", "1"], {"note": "abba"}) if how == "in time" else (["0"], {}))


@pytest.mark.parametrize("missing", ["memfd_create", "fork", "pidfd_open", "watch"])
def test_a_process_that_cannot_be_had_is_decided_by_the_policy(
    hooks: Hooks, loop: SteppedLoop, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    made = hooks(PAIRS)
    before = open_descriptors()
    monkeypatch.setattr(loop if missing == "watch" else os, missing, failing(errno.EAGAIN))
    outcome = Outcome(made, creating({"annotations": {"note": NOTE}}), loop.now + 2)
    assert "no process: Resource temporarily unavailable" in str(outcome.error)
    assert open_descriptors() <= before
    assert children() == []


def test_an_ordinary_container_is_matched_at_once(hooks: Hooks, loop: SteppedLoop, monkeypatch: Any) -> None:
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("a process is forked"))
    made = hooks(PAIRS, COMMANDS)
    outcome = Outcome(made, creating({"annotations": {"note": "ab" * 1000}}, args=["/bin/sh"]), loop.now + 2)
    assert (outcome.is_there, outcome.injected) == (True, ["1"])


def test_only_paths_can_be_too_long_in_an_event_that_is_not_large() -> None:
    assert min(sizes.MAX_STRING + 1, sizes.MAX_STRINGS, sizes.MAX_ANNOTATIONS, 2 * sizes.MAX_ELEMENTS) >= LARGE
    small = creating({}, mounts=[api.Mount(), api.Mount(source="/" * 4096)])
    with pytest.raises(Oversized, match=r"^mounts\[1\].source: 4096 bytes, at most 4095$"):
        sizes.refuse_oversized(small.pod, small.container, sizes.EDITED_OF_SMALL)


MANY = ["annotations", "mounts", "rlimits", "linux.seccomp_policy.syscalls", "hooks.prestart", "hooks.poststop"]
MANY += [f"linux.{name}" for name in ("devices", "namespaces", "sysctl")]
MANY += [f"linux.resources.{name}" for name in ("devices", "hugepage_limits", "unified")]


def filled(name: str, number: int) -> api.Container:
    container = api.Container()
    field = attrgetter(name)(container)
    if isinstance(field, MutableMapping):
        field.update({str(each): "" for each in range(number)})
    else:
        field.extend([field.add()] * (number - 1))
    return container


# A place, a container with so many bytes there, and the most.
LONGEST: dict[str, tuple[Callable[[int], api.Container], int]] = {
    "env[0]": (lambda size: api.Container(env=["x" * size]), 131_071),
    "args[1]": (lambda size: api.Container(args=["a", "x" * size]), 131_071),
    "mounts[1].source": (lambda size: api.Container(mounts=[api.Mount(), api.Mount(source="/" * size)]), 4095),
    "mounts[0].destination": (
        lambda size: api.Container(mounts=[api.Mount(destination="é" * 2047 + "/" * (size - 4094))]), 4095),
}  # fmt: skip


def test_the_limits_are_the_kernels_and_kubernetes() -> None:
    """The largest is accepted, and one byte more is not."""
    most = api.Container(args=["x" * 99_991] * 40, env=["A=" + "x" * 99_989] * 22 + ["x" * 91_447])
    sizes.refuse_oversized(api.PodSandbox(), most)
    for name in MANY:
        sizes.refuse_oversized(api.PodSandbox(), filled(name, 100_000))
        many = filled(name, 100_001)
        with pytest.raises(Oversized, match=f"^{name}: 100001 elements, at most 100000$"):
            sizes.refuse_oversized(api.PodSandbox(), many)
        sizes.refuse_oversized(api.PodSandbox(), many, ("command", "strings"))
    with pytest.raises(Oversized, match=r"^args and env: 6291457 bytes, at most 6291456$"):
        sizes.refuse_oversized(
            api.PodSandbox(), api.Container(args=[*most.args, ""], env=[*most.env[:-1], "x" * 91_439])
        )
    for name, (make, most_bytes) in LONGEST.items():
        sizes.refuse_oversized(api.PodSandbox(), make(most_bytes), (*sizes.EDITED, "command"))
        with pytest.raises(Oversized) as refused:
            sizes.refuse_oversized(api.PodSandbox(), make(most_bytes + 1))
        assert refused.value.place == name
