"""What hooks are in NRI's terms: the adjustment that injects them. Pure.

Source: go.podman.io/common/pkg/hooks, hooks.go (Manager.Hooks).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from adapter.hooks.match import Named
from adapter.hooks.model import Hook
from adapter.proto import nri_pb2 as api

FIELDS: Mapping[str, str] = MappingProxyType(
    {
        # As upstream delivers it now: runtimes run prestart hooks, which are deprecated, at the same moment.
        "prestart": "create_runtime",
        "createRuntime": "create_runtime",
        "createContainer": "create_container",
        "startContainer": "start_container",
        "poststart": "poststart",
        "poststop": "poststop",
    }
)
"""NRI's field for each stage; stages that runtimes do not know, as precreate, have none."""


def adjustment(hooks: Iterable[Named]) -> api.ContainerAdjustment | None:
    """Returns what injects the hooks, in their order; None where there is nothing to inject."""
    adjusted = api.ContainerAdjustment()
    for named in hooks:
        message = _message(named.hook)
        for stage in named.hook.stages:
            if stage in FIELDS:
                getattr(adjusted.hooks, FIELDS[stage]).append(message)
    return adjusted if adjusted.HasField("hooks") else None


def _message(hook: Hook) -> api.Hook:
    timeout = None if hook.timeout is None else api.OptionalInt(value=hook.timeout)
    return api.Hook(path=hook.path, args=hook.args, env=hook.env, timeout=timeout)
