"""What the adapter does in steps, done at once."""

from __future__ import annotations

from collections.abc import Iterable

from v010_adapter.hooks import model
from v010_adapter.hooks.match import Matcher, NamedHook
from v010_adapter.hooks.model import Hook
from v010_adapter.hooks.steps import finish


def parse(text: bytes, *, precreate: bool = False) -> Hook:
    return finish(model.parse(text, precreate=precreate))


def matcher_of(hooks: Iterable[NamedHook]) -> Matcher:
    matcher = Matcher(hooks)
    finish(matcher.compile())
    return matcher
