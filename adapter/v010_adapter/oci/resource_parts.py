"""The parts of `linux.resources`: limits, which NRI can set but not remove."""

from __future__ import annotations

from collections.abc import Container
from functools import lru_cache
from typing import Any

from nri.needs import NOT_REMOVABLE, ONLY_THE_LIMIT
from nri.proto import nri_pb2 as api
from v010_adapter.base.gojson import encode
from v010_adapter.errors import NotAdjustable
from v010_adapter.oci.limits import inside
from v010_adapter.oci.parts import Group, Part
from v010_adapter.oci.resources import resources_from
from v010_adapter.oci.shapes import CACHED, CACHED_LENGTH, Shape, write
from v010_adapter.oci.values import Spec, is_empty, members, read


class Resources(Group):
    """The resources as a whole, whose parts are read and written together."""

    field = "linux.resources"

    def to_oci(self, container: Any) -> Spec:
        """See Part. `pids` without a limit are omitted: Go types before runtime-spec 1.3 would write 0 for them."""
        return _with_limited_pids(container.linux.resources)

    def to_json(self, value: Any) -> str:
        serialized = value.SerializeToString()
        text = _cached(serialized) if len(serialized) <= CACHED_LENGTH else encode(_with_limited_pids(value))
        return "" if text == "{}" else text


def _with_limited_pids(resources: api.LinuxResources) -> Spec:
    return {key: part for key, part in resources_from(resources).items() if part or key != "pids"}


@lru_cache(CACHED)
def _cached(serialized: bytes) -> str:
    return encode(_with_limited_pids(api.LinuxResources.FromString(serialized)))


class CgroupLimits(Part):
    """An object of cgroup limits. A limit can be set but not removed."""

    def __init__(self, field: str, shape: Shape, ignored: Container[int] = ()) -> None:
        """Takes the shape. Runtimes take a `limit` that is in `ignored` as no change."""
        super().__init__(field, shape)
        self._ignored = ignored

    def adjust(self, adjusted: Any, before: Any, after: Any, place: str) -> None:
        old, new = members(before, place), members(after, place)
        for key in {**old, **new}:
            if old.get(key) != new.get(key):
                self._member(adjusted, key, old, new, place)

    def _member(self, adjusted: Any, key: str, old: Spec, new: Spec, place: str) -> None:
        was, becomes, where = old.get(key), new.get(key), inside(place, key)
        if key not in self.shape.fields:
            super().adjust(adjusted, was, becomes, where)
        elif becomes is None or (becomes == "" and key in ("cpus", "mems")):
            if not is_empty(was):
                raise NotAdjustable(where, NOT_REMOVABLE)
        else:
            message = read(self.shape, {key: becomes}, place)
            target = getattr(self.holder(adjusted), self.name)
            target.SetInParent()
            target.MergeFrom(message)

    def apply(self, adjustment: Any, before: Any) -> Any:
        holder = self.holder(adjustment)
        if not holder.HasField(self.name):
            return before
        written = write(self.shape, getattr(holder, self.name)).items()
        changes = {key: value for key, value in written if key != "limit" or value not in self._ignored}
        return {**(before or {}), **changes}


class Memory(CgroupLimits):
    """The memory limits. With `limit`, `swap` may change to the same number, for runtimes set it to that."""

    def _member(self, adjusted: Any, key: str, old: Spec, new: Spec, place: str) -> None:
        limit = new.get("limit")
        swap_follows = key == "swap" and old.get("limit") != limit == new.get("swap")
        if key != "limit" and not swap_follows:
            raise NotAdjustable(inside(place, key), ONLY_THE_LIMIT)
        super()._member(adjusted, key, old, new, place)
