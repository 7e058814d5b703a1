"""Whatever a plugin wishes for is taken or refused by name: no other exception, and nothing by half."""

from __future__ import annotations

import json
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings
from hypothesis.strategies import SearchStrategy

from adapter.base.loop import Loop
from adapter.errors import NotAdjustable
from adapter.legacy import request, result
from adapter.legacy.answer import AnswerBuilder
from adapter.legacy.create_answer import CreateAnswerBuilder
from adapter.legacy.pending_updates import PendingUpdates
from adapter.legacy.update_answer import UpdateAnswerBuilder
from adapter.nri import api
from adapter.nri.runtimes import Runtime

from .node import a_container, a_pod

WORDS = """
process env args mounts linux resources cpu shares cpus memory limit devices path type major annotations hooks poststop
rlimits hard soft namespaces sysctl destination options source $patch cgroupsPath unified pids seccomp updates id spec
adjust key value CDI_devices name net_devices oom_score_adj hugepageLimits pageSize
"""
KEYS = st.sampled_from(["", *WORDS.split()])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    KEYS,
    st.text(max_size=3),
    st.sampled_from(["A=1", "-A", "\0"]),
)
ANYTHING: SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inside: st.lists(inside, max_size=3) | st.dictionaries(KEYS, inside, max_size=3), max_leaves=8
)
PARTS = st.dictionaries(st.sampled_from(["", "annotations", "linux", "process", "mounts", "hooks"]), ANYTHING)
WISHES = st.fixed_dictionaries(
    {},
    optional={
        "spec": ANYTHING | PARTS,
        "adjust": ANYTHING,
        "updates": ANYTHING | st.lists(ANYTHING),
        "cgroupsPath": ANYTHING,
        "metadata": st.dictionaries(KEYS, KEYS, max_size=2),
    },
)


def printed(wishes: dict[str, Any]) -> result.Result:
    text = json.dumps(wishes, allow_nan=False) if is_json(wishes) else "{}"
    return result.parse(text.encode())


def is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


def container() -> api.Container:
    made = a_container("c1", env=["PATH=/bin", "A=1"], args=["sleep"])
    made.mounts.add(destination="/data", type="bind", source="/srv", options=["ro"])
    made.linux.resources.cpu.shares.value = 5
    return made


def outcomes() -> list[AnswerBuilder]:
    updates = PendingUpdates(Loop())
    updates.known |= {"id", "name"}
    creation = api.CreateContainerRequest(pod=a_pod(), container=container())
    update = api.UpdateContainerRequest(pod=a_pod(), container=container(), linux_resources=api.LinuxResources())
    target = request.of_container(creation.container, creation.pod)
    return [
        CreateAnswerBuilder("CreateContainer", creation, target, updates, Runtime(nri=(0, 12, 5)), "x/"),
        UpdateAnswerBuilder("UpdateContainer", update, target, updates),
        AnswerBuilder("StopContainer", creation, target, updates),
    ]


OUTCOMES = outcomes()


@settings(max_examples=600)
@given(WISHES)
def test_a_wish_is_taken_or_refused_by_name(wishes: dict[str, Any]) -> None:
    wished = printed(wishes)
    for builder in OUTCOMES:
        before = builder.extension().spec
        try:
            builder.take("plugin", wished)
        except NotAdjustable:
            assert builder.extension().spec == before
        json.loads(builder.extension().spec)


@settings(max_examples=300)
@given(WISHES)
def test_what_was_taken_can_be_sent(wishes: dict[str, Any]) -> None:
    wished = printed(wishes)
    for builder in outcomes():
        try:
            builder.take("plugin", wished)
        except NotAdjustable:
            continue
        reply = builder.reply()
        assert reply is None or reply.SerializeToString()
