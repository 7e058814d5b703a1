"""The parts of a specification: a class for each kind of value that NRI can report or change.

A part does three things: it writes a container's field as OCI value, it turns a difference into an adjustment, and it
applies an adjustment. The form of a change follows from upstream: pkg/adaptation/result.go collects the changes of all
plugins, and pkg/runtime-tools/generate/generate.go applies them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adapter.oci import limits
from adapter.oci.limits import Limit, inside
from adapter.oci.shapes import Shape, shape, write
from adapter.oci.values import Spec, is_empty, members, read, read_list, texts
from adapter.proto import nri_pb2 as api

RDT = shape(api.LinuxRdt)


class Part:
    """A value in the specification, and the field that holds it in NRI's container and in an adjustment.

    This class itself is for values without a field: they cannot be changed. Subclasses are for the others.
    """

    def __init__(self, field: str = "") -> None:
        """Takes the field's name in the container and in the adjustment. A field of `linux` is `linux.NAME`."""
        *self._parents, self.name = field.split(".")

    def holder(self, message: Any) -> Any:
        """Returns the message in a container or an adjustment that has the field."""
        for name in self._parents:
            message = getattr(message, name)
        return message

    def to_oci(self, container: Any) -> Any:
        """Returns the OCI value of a container's field; None, or an empty value, if the field is not set."""
        return None

    def adjust(self, adjusted: Any, before: Any, after: Any, place: str) -> None:
        """Adds to an adjustment the change from `before` to `after`, which differ. Raises NotAdjustable."""
        if not is_same(before, after):
            raise limits.NOWHERE.at(_further(before, after, place))

    def apply(self, adjustment: Any, before: Any) -> Any:
        """Returns the value with the adjustment: `before` itself if nothing is adjusted, None if it is removed."""
        return before


def is_same(before: object, after: object) -> bool:
    """Whether two values are the same if empty members are ignored."""
    if before == after:
        return True
    if isinstance(before, dict) and isinstance(after, dict):
        return all(is_same(before.get(key), after.get(key)) for key in {**before, **after})
    return is_empty(before) and is_empty(after)


def _further(before: object, after: object, place: str) -> str:
    """Returns the place of the change one level below a top-level object: `root.readonly` instead of `root`."""
    if "." in place or not isinstance(after, dict):
        return place
    old = before if isinstance(before, dict) else {}
    return next(inside(place, key) for key in {**old, **after} if not is_same(old.get(key), after.get(key)))


class Group(Part):
    """An object whose members are parts."""

    def __init__(self, **parts: Part) -> None:
        """Takes the parts by their OCI keys, in the order in which they are written."""
        self._parts = parts
        self._unknown = Part()

    def to_oci(self, container: Any) -> Spec:
        values = {key: part.to_oci(container) for key, part in self._parts.items()}
        return {key: value for key, value in values.items() if not _is_unset(value)}

    def adjust(self, adjusted: Any, before: Any, after: Any, place: str) -> None:
        old, new = members(before, place), members(after, place)
        for key in {**old, **new}:
            was, becomes = old.get(key), new.get(key)
            if was != becomes:
                self._parts.get(key, self._unknown).adjust(adjusted, was, becomes, inside(place, key))

    def apply(self, adjustment: Any, before: Any) -> Spec:
        """See Part. Members that are not adjusted are shared with `before`."""
        result = dict(before or {})
        for key, part in self._parts.items():
            value = part.apply(adjustment, result.get(key))
            if value is None:
                result.pop(key, None)
            elif key in result or not _is_unset(value):
                result[key] = value
        return result


def _is_unset(value: object) -> bool:
    return value in (None, "", [], {})


USER = shape(api.User, always=("uid", "gid"))


class User(Part):
    """The user, which NRI can report but not change."""

    def to_oci(self, container: Any) -> Spec | None:
        return write(USER, container.user) if container.HasField("user") else None

    def adjust(self, adjusted: Any, before: Any, after: Any, place: str) -> None:
        """See Part. Older runtimes report no user; a tool in Go then writes a user of zeros, which is no change."""
        if before is not None or not is_same({"uid": 0, "gid": 0}, after):
            super().adjust(adjusted, before, after, place)


class Args(Part):
    """The command, which is replaced as a whole. An empty first argument means that."""

    def to_oci(self, container: Any) -> list[str]:
        return list(container.args)

    def adjust(self, adjusted: Any, before: Any, after: Any, place: str) -> None:
        arguments = texts(after, place)
        if arguments:
            adjusted.args.extend(["", *arguments])
        elif not is_empty(before):
            raise limits.ARGS_EMPTIED.at(place)

    def apply(self, adjustment: Any, before: Any) -> Any:
        """See Part. Here an empty first argument is an argument."""
        return list(adjustment.args) or before


class Scalar(Part):
    """A string, or a number in a wrapper, that cannot be removed."""

    def __init__(self, field: str, reader: Callable[[object, str], Any]) -> None:
        super().__init__(field)
        self._reader = reader

    def to_oci(self, container: Any) -> Any:
        holder = self.holder(container)
        value = getattr(holder, self.name)
        if isinstance(value, str):
            return value
        return value.value if holder.HasField(self.name) else None

    def adjust(self, adjusted: Any, before: Any, after: Any, place: str) -> None:
        value = None if after is None else self._reader(after, place)
        holder = self.holder(adjusted)
        if value in (None, ""):
            if not is_empty(before):
                raise limits.KEPT.at(place)
        elif isinstance(value, str):
            setattr(holder, self.name, value)
        else:
            getattr(holder, self.name).value = value

    def apply(self, adjustment: Any, before: Any) -> Any:
        value = self.to_oci(adjustment)
        return before if value in (None, "") else value


class WholeObject(Part):
    """An object that is replaced as a whole."""

    def __init__(self, field: str, shape: Shape, *, removable: bool) -> None:
        """Takes the shape. The required member of a removable object is an enum with a word for an absent object."""
        super().__init__(field)
        self._shape = shape
        self._removable = removable

    def to_oci(self, container: Any) -> Spec | None:
        holder = self.holder(container)
        # A container has no field for the memory policy.
        if self.name not in holder.DESCRIPTOR.fields_by_name or not holder.HasField(self.name):
            return None
        return self._object(getattr(holder, self.name))

    def _object(self, message: Any) -> Spec | None:
        absent = self._removable and not getattr(message, self._shape.fields[self._shape.required].name)
        return None if absent else write(self._shape, message)

    def adjust(self, adjusted: Any, before: Any, after: Any, place: str) -> None:
        """See Part. A message with the word for an absent object removes the object."""
        message = self._read(after, place)
        if message is None and not self._removable and not is_empty(before):
            raise limits.KEPT.at(place)
        if message != self._read(before, place):
            getattr(self.holder(adjusted), self.name).CopyFrom(message or self._shape.message())

    def _read(self, value: object, place: str) -> Any:
        return None if is_empty(members(value, place)) else read(self._shape, value, place)

    def apply(self, adjustment: Any, before: Any) -> Any:
        holder = self.holder(adjustment)
        return self._object(getattr(holder, self.name)) if holder.HasField(self.name) else before


class Seccomp(WholeObject):
    """The seccomp policy."""

    def adjust(self, adjusted: Any, before: Any, after: Any, place: str) -> None:
        super().adjust(adjusted, before, after, place)
        policy = adjusted.linux.seccomp_policy
        if policy.HasField("default_errno") and policy.default_errno.value != 1:
            raise limits.SECCOMP_ERRNO.at(f"{place}.defaultErrnoRet")


class Rdt(Part):
    """The RDT class."""

    def to_oci(self, container: Any) -> Spec:
        return {key: value for key, value in write(RDT, container.linux.rdt).items() if value}

    def adjust(self, adjusted: Any, before: Any, after: Any, place: str) -> None:
        """See Part. Sets all members, old and new, and clears what earlier plugins have set.

        A removal alone does not suffice: pkg/adaptation/result.go, adjustRdt, forgets it if any member is set.
        """
        was, becomes = self._read(before, place), self._read(after, place)
        if was == becomes:
            return
        rdt = adjusted.linux.rdt
        rdt.remove = True
        for name in {**was, **becomes} if becomes else ():
            getattr(rdt, name).SetInParent()
            if name in becomes:
                getattr(rdt, name).CopyFrom(becomes[name])

    def _read(self, value: object, place: str) -> dict[str, Any]:
        """Returns NRI's wrapped values of the members that are not empty."""
        message = read(RDT, members(value, place), place)
        return {field.name: wrapper for field, wrapper in message.ListFields() if wrapper.value}

    def apply(self, adjustment: Any, before: Any) -> Any:
        rdt = adjustment.linux.rdt
        kept = {} if rdt.remove else before or {}
        return {**kept, **write(RDT, rdt)} if adjustment.linux.HasField("rdt") else before


class Appended(Part):
    """An array to which NRI can only append: hooks or device rules."""

    def __init__(self, field: str, shape: Shape, kept: Limit) -> None:
        """Takes the shape of an element. `kept` refuses all other changes."""
        super().__init__(field)
        self._shape = shape
        self._kept = kept

    def to_oci(self, container: Any) -> list[Spec]:
        return [write(self._shape, element) for element in getattr(self.holder(container), self.name)]

    def adjust(self, adjusted: Any, before: Any, after: Any, place: str) -> None:
        old, new = (read_list(self._shape, elements, place) for elements in (before, after))
        if new[: len(old)] != old:
            raise self._kept.at(place)
        if new != old:
            getattr(self.holder(adjusted), self.name).extend(new[len(old) :])

    def apply(self, adjustment: Any, before: Any) -> Any:
        added = self.to_oci(adjustment)
        return [*(before or []), *added] if added else before


class CgroupLimits(Part):
    """An object of cgroup limits. A limit can be set but not removed."""

    def __init__(
        self, field: str, shape: Shape, *, no_change: Callable[[int], bool] | None = None, why: Limit = limits.ZERO
    ) -> None:
        """Takes the shape. Runtimes ignore a `limit` for which `no_change` is true; `why` refuses such a limit."""
        super().__init__(field)
        self._shape = shape
        self._no_change = no_change
        self._why = why

    def adjust(self, adjusted: Any, before: Any, after: Any, place: str) -> None:
        old, new = members(before, place), members(after, place)
        for key in {**old, **new}:
            if old.get(key) != new.get(key):
                self._member(adjusted, key, old, new, place)

    def _member(self, adjusted: Any, key: str, old: Spec, new: Spec, place: str) -> None:
        was, becomes, where = old.get(key), new.get(key), inside(place, key)
        if key not in self._shape.fields:
            super().adjust(adjusted, was, becomes, where)
        elif becomes is None or (becomes == "" and key in ("cpus", "mems")):
            if not is_empty(was):
                raise limits.KEPT.at(where)
        else:
            message = read(self._shape, {key: becomes}, place)
            if key == "limit" and self._no_change and self._no_change(becomes):
                raise self._why.at(where)
            target = getattr(self.holder(adjusted), self.name)
            target.SetInParent()
            target.MergeFrom(message)

    def apply(self, adjustment: Any, before: Any) -> Any:
        holder = self.holder(adjustment)
        if not holder.HasField(self.name):
            return before
        changes = write(self._shape, getattr(holder, self.name))
        if self._no_change and self._no_change(changes.get("limit", 0)):
            changes.pop("limit", None)
        return {**(before or {}), **changes}


class Memory(CgroupLimits):
    """The memory limits. Runtimes change only `limit`, and set `swap` to the same number."""

    def _member(self, adjusted: Any, key: str, old: Spec, new: Spec, place: str) -> None:
        limit = new.get("limit")
        swap_follows = key == "swap" and old.get("limit") != limit == new.get("swap")
        if key != "limit" and not swap_follows:
            raise limits.MEMORY.at(inside(place, key))
        super()._member(adjusted, key, old, new, place)
