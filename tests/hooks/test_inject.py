"""What hooks become in NRI's terms."""

from __future__ import annotations

import pytest
from google.protobuf.json_format import MessageToDict

from adapter.hooks.inject import adjustment
from adapter.hooks.match import Named
from adapter.hooks.model import STAGES, Hook, When
from adapter.proto import nri_pb2 as api


def named(path: str, *stages: str, timeout: int | None = None) -> Named:
    return Named(f"{path}.json", "", Hook(path, (path, "-x"), ("A=b",), timeout, When(), stages))


def injected(*hooks: Named) -> dict[str, list[str]]:
    """Paths by NRI's field names."""
    message = adjustment(hooks)
    assert message is not None
    found = MessageToDict(message, preserving_proto_field_name=True)
    assert list(found) == ["hooks"]
    return {field: [hook["path"] for hook in hooks] for field, hooks in found["hooks"].items()}


def test_a_hook_is_injected_with_all_it_has() -> None:
    message = adjustment([named("a", "poststop", timeout=5)])
    hook = api.Hook(path="a", args=["a", "-x"], env=["A=b"], timeout=api.OptionalInt(value=5))
    assert message == api.ContainerAdjustment(hooks=api.Hooks(poststop=[hook]))


@pytest.mark.parametrize("timeout", [0, -1, -(2**63), 2**63 - 1])
def test_any_timeout_is_passed_on(timeout: int) -> None:
    message = adjustment([named("a", "poststop", timeout=timeout)])
    assert message is not None
    assert message.hooks.poststop[0].HasField("timeout")
    assert message.hooks.poststop[0].timeout.value == timeout


def test_no_timeout_is_none() -> None:
    message = adjustment([named("a", "poststop")])
    assert message is not None
    assert not message.hooks.poststop[0].HasField("timeout")


@pytest.mark.parametrize(
    ("stage", "field"),
    [
        ("prestart", "create_runtime"),
        ("createRuntime", "create_runtime"),
        ("createContainer", "create_container"),
        ("startContainer", "start_container"),
        ("poststart", "poststart"),
        ("poststop", "poststop"),
    ],
)
def test_each_stage_has_its_field(stage: str, field: str) -> None:
    assert stage in STAGES
    assert injected(named("a", stage)) == {field: ["a"]}


def test_a_hook_with_prestart_and_create_runtime_is_injected_twice_as_upstream_does() -> None:
    assert injected(named("a", "prestart", "createRuntime"), named("b", "poststop", "poststop")) == {
        "create_runtime": ["a", "a"],
        "poststop": ["b", "b"],
    }


def test_hooks_keep_their_order_in_each_stage() -> None:
    assert injected(named("b", "poststop", "poststart"), named("a", "prestart"), named("c", "poststop")) == {
        "poststop": ["b", "c"],
        "poststart": ["b"],
        "create_runtime": ["a"],
    }


@pytest.mark.parametrize("hooks", [[], [named("a")], [named("a", "precreate")]], ids=["none", "no stage", "precreate"])
def test_what_no_runtime_would_run_is_no_adjustment(hooks: list[Named]) -> None:
    assert adjustment(hooks) is None


def test_precreate_is_left_out_beside_other_stages() -> None:
    assert injected(named("a", "precreate", "poststop")) == {"poststop": ["a"]}
