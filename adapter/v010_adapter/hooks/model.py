"""Hook files: both versions of the schema become one type, decoded as Go decodes them. Pure.

Source: go.podman.io/common/pkg/hooks, read.go, 1.0.0/hook.go, 0.1.0/hook.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from nri.proto import nri_pb2 as api
from v010_adapter.hooks import decode, patterns
from v010_adapter.hooks.decode import Document, HookError, boolean_pointer, string, string_map, string_pointer, strings
from v010_adapter.oci.sizes import MAX_PATH

STAGES = {field.json_name: field.name for field in api.Hooks.DESCRIPTOR.fields}
"""NRI's field for each stage that runtimes know."""
STAGES["prestart"] = STAGES["createRuntime"]  # as upstream does: these deprecated hooks run at the same moment
RUNTIME_STAGES = {field: stage for stage, field in STAGES.items()}
"""The runtimes' name of each of NRI's fields, in the order of the stages."""
IN_CONTAINER = "startContainer"
"""The stage whose hooks run in the container."""
PRECREATE = "precreate"
"""A stage of podman's that runtimes do not know. A file may have it only if the caller allows it."""


class When(NamedTuple):
    """The conditions of a hook. All given conditions must hold. With `any_of` (version 0.1.0), one suffices."""

    always: bool | None = None
    annotations: tuple[tuple[str, str], ...] = ()
    commands: tuple[str, ...] = ()
    has_bind_mounts: bool | None = None
    any_of: bool = False


class Hook(NamedTuple):
    """A hook of either version. `args`, if not empty, begin with argv[0]; `timeout` is in seconds."""

    path: str
    args: tuple[str, ...]
    env: tuple[str, ...]
    timeout: int | None
    when: When
    stages: tuple[str, ...]


def parse(text: bytes, *, precreate: bool = False) -> Hook:
    """Returns the hook of a file; does not check that the hook's program exists.

    Raises HookError for everything that upstream's package refuses, for patterns that RE2 refuses, and for values with
    which runc would fail every container: NUL characters, relative or overlong paths, timeouts out of range.
    """
    document = Document(text)
    hook = _decoded(document)
    _check(hook, document, precreate=precreate)
    return hook


def _decoded(document: Document) -> Hook:
    version = document.decode(_VERSION).get("version") or ""
    if version == "1.0.0":
        return _current(document.decode(_CURRENT))
    if version in ("0.1.0", ""):
        return _old(document.decode(_OLD))
    raise document.error(f"the version {version!r} is unknown, there are 1.0.0 and 0.1.0", version)


_VERSION = decode.structure({"version": string})
_WHEN = {"always": boolean_pointer, "annotations": string_map, "commands": strings, "hasBindMounts": boolean_pointer}
_CURRENT = decode.structure(
    {
        "hook": decode.structure({"path": string, "args": strings, "env": strings, "timeout": decode.seconds_pointer}),
        "when": decode.structure(_WHEN),
        "stages": strings,
    }
)
_LISTS = ("arguments", "stages", "stage", "cmds", "cmd", "annotations", "annotation")
_OLD = decode.structure({"hook": string_pointer, "hasbindmounts": boolean_pointer, **dict.fromkeys(_LISTS, strings)})


def _current(fields: Mapping[str, Any]) -> Hook:
    hook, when = fields.get("hook") or {}, fields.get("when") or {}
    return Hook(
        path=_required(hook.get("path") or None, "hook.path"),
        args=tuple(hook.get("args") or ()),
        env=tuple(hook.get("env") or ()),
        timeout=hook.get("timeout"),
        when=When(
            always=when.get("always"),
            annotations=tuple((when.get("annotations") or {}).items()),
            commands=tuple(when.get("commands") or ()),
            has_bind_mounts=when.get("hasBindMounts"),
        ),
        stages=tuple(_required(fields.get("stages"), "stages")),
    )


def _old(fields: Mapping[str, Any]) -> Hook:
    path = _required(fields.get("hook") or None, "hook")
    annotations = _either(fields, "annotation")
    arguments = fields.get("arguments")
    return Hook(
        path=path,
        args=() if arguments is None else (path, *arguments),
        env=(),
        timeout=None,
        when=When(
            # Upstream joins the patterns into one. So flags of a pattern apply to the next, and [] matches every value.
            annotations=() if annotations is None else ((".*", "|".join(annotations)),),
            commands=tuple(_either(fields, "cmd") or ()),
            has_bind_mounts=fields.get("hasbindmounts"),
            any_of=True,
        ),
        stages=tuple(_required(_either(fields, "stage"), "stages")),
    )


def _required(value: Any, key: str) -> Any:
    if value is None:
        raise HookError(f"{key} is missing")
    return value


def _either(fields: Mapping[str, Any], singular: str) -> list[str] | None:
    """Returns a list that has two names in version 0.1.0. A file may use only one of them."""
    one, other = fields.get(singular), fields.get(f"{singular}s")
    if one is not None and other is not None:
        raise HookError(f"both {singular!r} and '{singular}s' are set")
    return one if other is None else other


def _check(hook: Hook, document: Document, *, precreate: bool) -> None:
    """Raises HookError for the first fault of a hook."""
    for text in (hook.path, *hook.args, *hook.env):
        if "\0" in text:
            raise document.error("a NUL character", text)
    if not hook.path.startswith("/"):
        raise document.error(f"must be an absolute path, not {hook.path!r}", hook.path)
    if len(hook.path.encode("utf-8", "surrogatepass")) > MAX_PATH:
        raise document.error(f"more than {MAX_PATH} bytes", hook.path)
    for stage in hook.stages:
        if stage not in STAGES and not (precreate and stage == PRECREATE):
            reason = "not enabled (hooks.precreate: true enables it)" if stage == PRECREATE else "unknown"
            raise document.error(f"the stage {stage!r} is {reason}", stage)
    for pattern in patterns_of(hook.when):
        if fault := patterns.fault(pattern):
            # A pattern for annotations in version 0.1.0 is joined; the file has its parts.
            parts = pattern.split("|") if hook.when.any_of and pattern not in hook.when.commands else [pattern]
            part = next(filter(patterns.fault, parts), pattern)
            raise document.error(f"the pattern {pattern!r}: {fault}", part)


def patterns_of(when: When) -> Iterator[str]:
    """Yields the patterns of all conditions."""
    for pair in when.annotations:
        yield from pair
    yield from when.commands
