"""The owners: which plugin has set a field of a container at one event. Two plugins must not set the same field."""

from __future__ import annotations

from typing import NamedTuple

from adapter.errors import AdapterError
from adapter.nri import api

REMOVAL = "-"
"""The prefix of a removed key, path or owner."""


class Conflict(AdapterError):
    """Two plugins set the same field, or a plugin asks for an impossible change. The event fails with this text."""


class Owners(dict[tuple[str, api.Field.ValueType, str | None], str]):
    """The owners by container id, field and, in a field with several entries, key.

    Source: containerd/nri pkg/api/owners.go.
    """

    def message(self) -> api.OwningPlugins:
        """Returns the owners as validators get them."""
        message = api.OwningPlugins()
        for (id_, field, key), plugin in self.items():
            fields = message.owners[id_]
            if key is None:
                fields.simple[field] = plugin
            else:
                fields.compound[field].owners[key] = plugin
        return message


class Claims(NamedTuple):
    """Makes one plugin the owner of fields of one container."""

    owners: Owners
    plugin: str
    container: str

    def claim(self, field: api.Field.ValueType, key: str | None = None) -> None:
        """Makes the plugin the owner. Raises Conflict if another plugin is, unless this one has cleared the field."""
        other = self.owners.get((self.container, field, key))
        if other is not None and other != REMOVAL + self.plugin:
            what = " ".join([api.Field.Name(field), *([] if key is None else [key])])
            raise Conflict(f'plugins "{self.plugin}" and "{other.removeprefix(REMOVAL)}" both tried to set {what}')
        self.owners[self.container, field, key] = self.plugin

    def clear(self, field: api.Field.ValueType, key: str | None = None) -> None:
        """Records that the plugin has removed a field. From now on, no other plugin can set the field."""
        self.owners[self.container, field, key] = REMOVAL + self.plugin

    def share(self, field: api.Field.ValueType) -> None:
        """Adds an owner to a field to which several plugins may add."""
        other = self.owners.get((self.container, field, None))
        self.owners[self.container, field, None] = f"{other},{self.plugin}" if other else self.plugin
