"""Handlers that would never be called, or that a call would fail, are named when the class is made."""

from __future__ import annotations

from typing import Any

import pytest

from nri import Plugin
from nri.errors import CallError
from nri.stub import status_of


def of_two(self: Any, request: Any, context: Any) -> None: ...
def of_one(self: Any, request: Any) -> None: ...
def of_none(self: Any) -> None: ...
def of_three(self: Any, request: Any, context: Any, more: Any) -> None: ...
def of_any(self: Any, *arguments: Any) -> None: ...
def of_more(self: Any, request: Any, context: Any, more: Any = None) -> None: ...
def with_key(self: Any, request: Any, context: Any, *, key: str) -> None: ...
def with_default(self: Any, request: Any, context: Any, *, key: str = "") -> None: ...
async def later(self: Any, request: Any, context: Any) -> None: ...


NEVER = "is never called; did you mean `{}`? Begin the name of a method of your own with `_`"
TWO = "must take (self, request, context)"
WRONG = {
    "creat_container": (of_two, NEVER.format("create_container")),
    "CreateContainer": (of_two, NEVER.format("create_container")),
    "runPodSandbox": (of_one, NEVER.format("run_pod_sandbox")),
    "Start_Container": (of_one, NEVER.format("start_container")),
    "on_joined": (of_none, NEVER.format("on_join")),
    "configure_my": (of_two, NEVER.format("configure")),
    "postStartContainer": (later, NEVER.format("post_start_container")),
    "create_container": (of_one, TWO),
    "start_container": (of_three, TWO),
    "stop_container": (with_key, TWO),
    "synchronize": (of_none, TWO),
    "on_join": (of_one, "must take (self)"),
    "on_disconnect": (of_none, "must take (self, reason)"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_handler_is_named_with_the_right_one(name: str) -> None:
    function, text = WRONG[name]
    with pytest.raises(TypeError) as raised:
        type("Mine", (Plugin,), {name: function})
    assert str(raised.value) == f"Mine.{name} {text}"


def test_handlers_and_methods_of_the_plugins_own_are_taken() -> None:
    for name, value in {
        **{"create_container": of_any, "start_container": of_more, "stop_container": later, "answered": of_one},
        **{
            "_creat_container": of_two,
            "stop_containers": of_one,
            "helper": of_two,
            "remember": of_two,
            "Nested": Plugin,
            "post_start_container": with_default,
        },
        **{"update": of_two, "start": of_two, "remove_pod_sandbox": staticmethod(lambda request, context: None)},
    }.items():
        made = type("Mine", (Plugin,), {name: value})
        type("Heir", (made,), {})


def test_an_exception_keeps_its_type_and_the_plugin_is_named() -> None:
    for error, text in (
        (KeyError("x"), "10-mine: KeyError: 'x'"),
        (ValueError("not here"), "10-mine: ValueError: not here"),
        (ValueError(), "10-mine: ValueError"),
        (CallError(3, "as it is"), "as it is"),
    ):
        assert status_of(error, "10-mine")[1] == text


def test_a_plugin_may_have_another_base_that_looks_at_its_subclasses() -> None:
    seen = []

    class Base:
        def __init_subclass__(cls) -> None:
            seen.append(cls.__name__)

    class Mine(Plugin, Base):
        pass

    assert seen == [Mine.__name__]
