"""Who has set what of which container within one event, so that no two plugins set the same."""

from __future__ import annotations

from adapter.errors import AdapterError
from adapter.nri import api

REMOVAL = "-"
"""What marks a key, a path or an owner as removed."""


class Conflict(AdapterError):
    """Two plugins want to set the same thing, or one asks for what cannot be. The event fails with this text."""


class Owners:
    """The owner of every field of every container; a field with many entries has one for each of their keys.

    Source: containerd/nri pkg/api/owners.go.
    """

    def __init__(self) -> None:
        """Nobody has set anything yet."""
        self._owners: dict[tuple[str, int, str | None], str] = {}

    def claim(self, id_: str, field: api.Field.ValueType, plugin: str, key: str | None = None) -> None:
        """Makes a plugin the owner; raises Conflict if somebody is. Who has removed a thing may set it anew."""
        other = self._owners.get((id_, field, key))
        if other is not None and other != REMOVAL + plugin:
            what = " ".join([api.Field.Name(field), *([] if key is None else [key])])
            raise Conflict(f'plugins "{plugin}" and "{other.removeprefix(REMOVAL)}" both tried to set {what}')
        self._owners[id_, field, key] = plugin

    def clear(self, id_: str, field: api.Field.ValueType, plugin: str, key: str | None = None) -> None:
        """Notes that a plugin has removed what was set; from now on nobody else can set it."""
        self._owners[id_, field, key] = REMOVAL + plugin

    def share(self, id_: str, field: api.Field.ValueType, plugin: str) -> None:
        """Makes a plugin one more owner of a field that everybody can add to."""
        other = self._owners.get((id_, field, None))
        self._owners[id_, field, None] = f"{other},{plugin}" if other else plugin

    def message(self) -> api.OwningPlugins:
        """Returns the owners as validators get them."""
        message = api.OwningPlugins()
        for (id_, field, key), plugin in self._owners.items():
            fields = message.owners[id_]
            if key is None:
                fields.simple[field] = plugin
            else:
                fields.compound[field].owners[key] = plugin
        return message
