"""The NRI adjustment that injects hooks. Pure.

Source: go.podman.io/common/pkg/hooks, hooks.go (Manager.Hooks).
"""

from __future__ import annotations

from collections.abc import Iterable

from adapter.hooks.match import NamedHook
from adapter.proto import nri_pb2 as api

FIELDS = {field.json_name: field.name for field in api.Hooks.DESCRIPTOR.fields}
"""NRI's field for each stage. `precreate` has no field, because runtimes do not know it."""
FIELDS["prestart"] = FIELDS["createRuntime"]  # as upstream does: these deprecated hooks run at the same moment


def adjustment(hooks: Iterable[NamedHook]) -> api.ContainerAdjustment | None:
    """Returns the adjustment that injects hooks in their order, None if there is nothing to inject."""
    adjusted = api.ContainerAdjustment()
    for _, _, hook in hooks:
        timeout = None if hook.timeout is None else api.OptionalInt(value=hook.timeout)
        message = api.Hook(path=hook.path, args=hook.args, env=hook.env, timeout=timeout)
        for stage in hook.stages:
            if stage in FIELDS:
                getattr(adjusted.hooks, FIELDS[stage]).append(message)
    return adjusted if adjusted.HasField("hooks") else None
