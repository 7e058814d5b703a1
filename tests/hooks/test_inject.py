"""What hooks become in NRI's terms."""

from __future__ import annotations

import pytest
from google.protobuf.json_format import MessageToDict

from adapter.hooks.inject import adjustment
from adapter.hooks.match import NamedHook
from adapter.hooks.model import STAGES, Hook, When
from adapter.proto import nri_pb2 as api


def named(path: str, *stages: str, timeout: int | None = None) -> NamedHook:
    return NamedHook(f"{path}.json", "", Hook(path, (path, "-x"), ("A=b",), timeout, When(), stages))


def injected(*hooks: NamedHook) -> dict[str, list[str]]:
    """Paths by NRI's field names."""
    message = adjustment(hooks)
    assert message is not None
    found = MessageToDict(message, preserving_proto_field_name=True)
    assert list(found) == ["hooks"]
    return {field: [hook["path"] for hook in hooks] for field, hooks in found["hooks"].items()}


@pytest.mark.parametrize("timeout", [None, 0, 5, -1, -(2**63), 2**63 - 1])
def test_a_hook_is_injected_with_all_it_has(timeout: int | None) -> None:
    hook = api.Hook(path="a", args=["a", "-x"], env=["A=b"])
    if timeout is not None:
        hook.timeout.value = timeout
    assert adjustment([named("a", "poststop", timeout=timeout)]) == api.ContainerAdjustment(
        hooks=api.Hooks(poststop=[hook])
    )


FIELDS = ("create_runtime", "create_runtime", "create_container", "start_container", "poststart", "poststop")


def test_each_stage_has_its_field_and_hooks_keep_their_order() -> None:
    for stage, field in zip(STAGES, FIELDS, strict=True):
        assert injected(named("a", stage)) == {field: ["a"]}
    assert injected(named("b", "poststop", "poststart"), named("a", "prestart"), named("c", "poststop")) == {
        "poststop": ["b", "c"],
        "poststart": ["b"],
        "create_runtime": ["a"],
    }


def test_a_hook_with_prestart_and_create_runtime_is_injected_twice_as_upstream_does() -> None:
    assert injected(named("a", "prestart", "createRuntime"), named("b", "poststop", "poststop")) == {
        "create_runtime": ["a", "a"],
        "poststop": ["b", "b"],
    }


def test_what_no_runtime_would_run_is_no_adjustment() -> None:
    assert [adjustment(hooks) for hooks in ([], [named("a")], [named("a", "precreate")])] == [None] * 3
    assert injected(named("a", "precreate", "poststop")) == {"poststop": ["a"]}
