"""What a hook file says: both versions of its schema, decoded as Go decodes them, into one type. Pure.

Source: go.podman.io/common/pkg/hooks, read.go, 1.0.0/hook.go, 0.1.0/hook.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from adapter.hooks import decode, patterns
from adapter.hooks.decode import Document, HookError

__all__ = ["EXTENSION_STAGES", "STAGES", "Hook", "HookError", "When", "parse"]

STAGES = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
EXTENSION_STAGES = ("precreate",)
"""Stages of podman's own that no runtime knows; a file may have one where whoever reads it asks for that."""


class When(NamedTuple):
    """The conditions of a hook. All that are given must hold, or any one of them where `any_of` is set (0.1.0)."""

    always: bool | None = None
    annotations: tuple[tuple[str, str], ...] = ()
    commands: tuple[str, ...] = ()
    has_bind_mounts: bool | None = None
    any_of: bool = False


class Hook(NamedTuple):
    """A hook, whichever version of the schema its file follows. `args`, if there are any, begin with argv[0]."""

    path: str
    args: tuple[str, ...]
    env: tuple[str, ...]
    timeout: int | None
    when: When
    stages: tuple[str, ...]
    version: str


def parse(text: bytes, extension_stages: Sequence[str] = ()) -> Hook:
    """Returns the hook that a file describes; whether its program exists is not asked here.

    Raises HookError for all that upstream's package refuses, for patterns that RE2 refuses, and for NUL characters,
    with which no program can be started.
    """
    document = Document(text)
    version = document.fields(_VERSION).get("version") or ""
    if version == "1.0.0":
        hook = _current(document.fields(_CURRENT))
    elif version in ("0.1.0", ""):
        hook = _old(document.fields(_OLD))
    else:
        raise document.error(f"the version {version!r} is unknown, there are 1.0.0 and 0.1.0", version)
    _check(hook, document, extension_stages)
    return hook


_VERSION = decode.structure({"version": decode.string})
_CURRENT = decode.structure(
    {
        "hook": decode.structure(
            {
                "path": decode.string,
                "args": decode.strings,
                "env": decode.strings,
                "timeout": decode.integer_pointer,
            }
        ),
        "when": decode.structure(
            {
                "always": decode.boolean_pointer,
                "annotations": decode.string_map,
                "commands": decode.strings,
                "hasBindMounts": decode.boolean_pointer,
            }
        ),
        "stages": decode.strings,
    }
)
_OLD = decode.structure(
    {
        "hook": decode.string_pointer,
        "arguments": decode.strings,
        "stages": decode.strings,
        "stage": decode.strings,
        "cmds": decode.strings,
        "cmd": decode.strings,
        "annotations": decode.strings,
        "annotation": decode.strings,
        "hasbindmounts": decode.boolean_pointer,
    }
)


def _current(fields: Mapping[str, Any]) -> Hook:
    hook, when = fields.get("hook") or {}, fields.get("when") or {}
    if not hook.get("path"):
        raise HookError("hook.path is missing")
    return Hook(
        path=hook["path"],
        args=tuple(hook.get("args") or ()),
        env=tuple(hook.get("env") or ()),
        timeout=hook.get("timeout"),
        when=When(
            always=when.get("always"),
            annotations=tuple((when.get("annotations") or {}).items()),
            commands=tuple(when.get("commands") or ()),
            has_bind_mounts=when.get("hasBindMounts"),
        ),
        stages=_stages(fields.get("stages")),
        version="1.0.0",
    )


def _old(fields: Mapping[str, Any]) -> Hook:
    path = fields.get("hook")
    if not path:
        raise HookError("hook is missing")
    annotations = _either(fields, "annotation")
    arguments = fields.get("arguments")
    return Hook(
        path=path,
        args=() if arguments is None else (path, *arguments),
        env=(),
        timeout=None,
        when=When(
            # One pattern for any annotation, as upstream has it: flags of one reach into the next, and [] is empty,
            # which every value matches.
            annotations=() if annotations is None else ((".*", "|".join(annotations)),),
            commands=tuple(_either(fields, "cmd") or ()),
            has_bind_mounts=fields.get("hasbindmounts"),
            any_of=True,
        ),
        stages=_stages(_either(fields, "stage")),
        version="0.1.0",
    )


def _either(fields: Mapping[str, Any], singular: str) -> list[str] | None:
    """Returns the list that 0.1.0 knows under two names, of which a file may use one."""
    one, other = fields.get(singular), fields.get(f"{singular}s")
    if one is not None and other is not None:
        raise HookError(f"both {singular!r} and '{singular}s' are set")
    return one if other is None else other


def _stages(stages: list[str] | None) -> tuple[str, ...]:
    if stages is None:
        raise HookError("stages is missing")
    return tuple(stages)


def _check(hook: Hook, document: Document, extension_stages: Sequence[str]) -> None:
    for text in (hook.path, *hook.args, *hook.env):
        if "\0" in text:
            raise document.error("a NUL character", text)
    for stage in hook.stages:
        if stage not in STAGES and stage not in extension_stages:
            known = stage in EXTENSION_STAGES
            raise document.error(f"the stage {stage!r} is {'not enabled' if known else 'unknown'}", stage)
    fault = patterns.fault(_patterns(hook.when))
    if fault is not None:
        pattern, reason = fault
        # Of annotations that 0.1.0 makes one pattern of, the one to blame; none is if the joint is.
        parts = (part for part in pattern.split("|") if patterns.fault([part]))
        about = next(parts, pattern) if hook.when.any_of else pattern
        raise document.error(f"the pattern {pattern!r}: {reason}", about)


def _patterns(when: When) -> Iterator[str]:
    for pair in when.annotations:
        yield from pair
    yield from when.commands
