#!/opt/v010-adapter/bin/python3 -I
"""Restricts who may change what in a namespace. Any other change fails the container.

The configuration, conf.d/95-validator.conf: `[shop]`, `"30-limits" = ["CPUShares", "MemLimit"]`. The words are those of
`api.Field`. A runtime with NRI before 0.10 asks no validator, and the stub asks for it from 0.12 on.
"""

import tomllib
from collections.abc import Iterator

from nri import Context, Plugin, api, run


class Validator(Plugin):
    """Knows the fields that each plugin may change, by namespace."""

    def configure(self, request: api.ConfigureRequest, context: Context) -> None:
        rules: dict[str, dict[str, list[str]]] = tomllib.loads(request.config)
        self._rules = rules

    def validate_container_adjustment(
        self, request: api.ValidateContainerAdjustmentRequest, context: Context
    ) -> api.ValidateContainerAdjustmentResponse | None:
        rules = self._rules.get(request.pod.namespace)
        if rules is None:
            return None
        for number, plugin in changes(request.owners.owners[request.container.id]):
            field = api.Field.Name(number)
            if field not in rules.get(plugin, ()):
                reason = f"{plugin} must not change {field} in the namespace {request.pod.namespace}"
                return api.ValidateContainerAdjustmentResponse(reject=True, reason=reason)
        return None


def changes(owners: api.FieldOwners) -> Iterator[tuple[api.Field.ValueType, str]]:
    """Yields each changed field, and the plugin that has changed it."""
    for number, plugin in owners.simple.items():
        yield api.Field.ValueType(number), plugin
    for number, compound in owners.compound.items():
        for plugin in compound.owners.values():
            yield api.Field.ValueType(number), plugin


if __name__ == "__main__":
    run(Validator(), name="validator", idx="95")
