"""The parts of a specification: a class for each kind of value that NRI can report or change.

A part does three things: it writes a container's field as OCI value, it turns a difference into an adjustment, and it
applies an adjustment. The form of a change follows from upstream: pkg/adaptation/result.go collects the changes of all
plugins, and pkg/runtime-tools/generate/generate.go applies them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from nri.needs import NOT_REMOVABLE
from v010_adapter.base.gojson import encode, quote
from v010_adapter.errors import NotAdjustable
from v010_adapter.oci import limits
from v010_adapter.oci.limits import inside
from v010_adapter.oci.shapes import Shape, to_json, write
from v010_adapter.oci.values import Spec, is_empty, members, read, read_list, texts

Texts: TypeAlias = dict[str, str]
"""The JSON of a container's fields as OCI values, by the name of the field, without those that are not set."""

Fields: TypeAlias = Sequence[tuple[FieldDescriptor, Any]]
"""The fields of a message that are set, from ListFields, with their values."""


class Part:
    """A value in the specification, and the field that holds it in NRI's container and in an adjustment.

    This class itself is for values without a field: they cannot be changed. Its subclasses are for values with a field.
    """

    def __init__(self, field: str = "", shape: Shape | None = None, irremovable: str = "") -> None:
        """Takes the field's name in the container and in the adjustment, and the shape of its objects, if it has any.

        A field of `linux` is `linux.NAME`. `irremovable` is why NRI cannot remove the value, if it cannot.
        """
        self.field = field
        parents, _, self.name = field.rpartition(".")
        self.holder: Callable[[Any], Any] = attrgetter(parents) if parents else _itself
        """Returns the message in a container or an adjustment that has the field."""
        self.shape: Any = shape
        self._irremovable = irremovable

    def to_json(self, value: Any) -> str:
        """Returns the JSON of a container's field that is set; empty if its value means none."""
        written = self._value(value)
        return "" if _is_unset(written) else encode(written)

    def to_oci(self, container: Any) -> Any:
        """Returns the OCI value of a container's field; None, or an empty value, if the field is not set."""
        holder = self.holder(container)
        value = getattr(holder, self.name, None)  # a container has no memory policy, an adjustment has no user
        return (
            None
            if value is None or (isinstance(value, Message) and not holder.HasField(self.name))
            else self._value(value)
        )

    def _value(self, value: Any) -> Any:
        """Returns the OCI value of a field's value."""
        if isinstance(value, Message):
            return self._written(value)
        if isinstance(value, str):
            return value
        return [write(self.shape, element) for element in value] if self.shape else list(value)

    def _written(self, value: Any) -> Any:
        """Returns the OCI value of a message, or of a wrapper."""
        return write(self.shape, value) if self.shape else value.value

    def adjust(self, adjusted: Any, before: Any, after: Any, place: str) -> None:
        """Adds the change from `before` to `after` to an adjustment. The two differ. Raises NotAdjustable."""
        if not is_same(before, after):
            raise NotAdjustable(_further(before, after, place), limits.NOWHERE)

    def apply(self, adjustment: Any, before: Any) -> Any:
        """Returns the value with the adjustment: `before` itself if nothing is adjusted, None if it is removed."""
        value = self.to_oci(adjustment)
        return before if _is_unset(value) else value


def _itself(message: Any) -> Any:
    return message


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
        self.parts = parts
        self._unknown = Part()

    def to_oci(self, container: Any) -> Spec:
        values = {key: part.to_oci(container) for key, part in self.parts.items()}
        return {key: value for key, value in values.items() if value or isinstance(value, int)}

    def read(self, container: Any, names: Any, before: Spec, edited: Spec) -> None:
        """Adds the parts that a patch names to the specifications `before` and `edited`.

        Plugins edit `edited`; `before` stays as the runtime has it. A patch that is no object names all parts.
        """
        for key in names if isinstance(names, dict) else self.parts:
            part = self.parts.get(key)
            if type(part) is Group:
                members = names.get(key) if isinstance(names, dict) else None
                part.read(container, members, before.setdefault(key, {}), edited.setdefault(key, {}))
            elif part is not None and key not in before and not _is_unset(value := part.to_oci(container)):
                before[key] = edited[key] = value

    def edited_json(self, texts: Texts, before: Spec, edited: Spec) -> str:
        """Returns the object as JSON, empty if nothing is set. Parts that were read are written as they were edited."""
        members = []
        for key, part in self.parts.items():
            if type(part) is Group:
                text = part.edited_json(texts, before.get(key, {}), edited.get(key, {}))
            elif key in edited:
                text = encode(edited[key])
            else:
                text = "" if key in before else texts.get(part.field, "")
            if text:
                members.append(f'"{key}":{text}')
        members += [f"{quote(key)}:{encode(edited[key])}" for key in edited if key not in self.parts]
        return f"{{{','.join(members)}}}" if members else ""

    def by_field(self) -> dict[str, Part]:
        """Returns all parts with a field, by its name."""
        found: dict[str, Part] = {}
        for part in self.parts.values():
            found |= part.by_field() if type(part) is Group else {part.field: part}
        return found

    def adjust(self, adjusted: Any, before: Any, after: Any, place: str) -> None:
        old, new = members(before, place), members(after, place)
        for key in {**old, **new}:
            was, becomes = old.get(key), new.get(key)
            if was != becomes:
                self.parts.get(key, self._unknown).adjust(adjusted, was, becomes, inside(place, key))

    def apply(self, adjustment: Any, before: Any) -> Spec:
        """See Part. Members that are not adjusted are shared with `before`."""
        result = dict(before or {})
        for key, part in self.parts.items():
            value = part.apply(adjustment, result.get(key))
            if value is None:
                result.pop(key, None)
            elif key in result or not _is_unset(value):
                result[key] = value
        return result


def _is_unset(value: object) -> bool:
    return not value and not isinstance(value, int)


class User(Part):
    """The user, which NRI can report but not change."""

    def adjust(self, adjusted: Any, before: Any, after: Any, place: str) -> None:
        """See Part. Older runtimes report no user; a tool in Go then writes a user of zeros, which is no change."""
        if before is not None or not is_same({"uid": 0, "gid": 0}, after):
            super().adjust(adjusted, before, after, place)


class Args(Part):
    """The command. It is replaced as a whole, which an empty first argument says in an adjustment.

    `apply` takes that for an argument: see `spec.apply`.
    """

    def adjust(self, adjusted: Any, before: Any, after: Any, place: str) -> None:
        arguments = texts(after, place)
        if arguments:
            adjusted.args.extend(["", *arguments])
        elif not is_empty(before):
            raise NotAdjustable(place, "runtimes take no arguments as no change")


class Scalar(Part):
    """A string, or a number in a wrapper, that cannot be removed."""

    def __init__(self, field: str, reader: Callable[[object, str], Any]) -> None:
        super().__init__(field)
        self._reader = reader

    def adjust(self, adjusted: Any, before: Any, after: Any, place: str) -> None:
        value = None if after is None else self._reader(after, place)
        holder = self.holder(adjusted)
        if value in (None, ""):
            if not is_empty(before):
                raise NotAdjustable(place, NOT_REMOVABLE)
        elif isinstance(value, str):
            setattr(holder, self.name, value)
        else:
            getattr(holder, self.name).value = value


class WholeObject(Part):
    """An object that is replaced as a whole."""

    def __init__(self, field: str, shape: Shape, *, removable: bool) -> None:
        """Takes the shape. The required member of a removable object is an enum with a word for an absent object."""
        super().__init__(field, shape)
        self._removable = removable

    def _written(self, value: Any) -> Spec | None:
        return None if self._is_absent(value) else write(self.shape, value)

    def _is_absent(self, value: Any) -> bool:
        return self._removable and not getattr(value, self.shape.fields[self.shape.required].name)

    def to_json(self, value: Any) -> str:
        return "" if self._is_absent(value) else to_json(self.shape, value)

    def adjust(self, adjusted: Any, before: Any, after: Any, place: str) -> None:
        """See Part. A message with the word for an absent object removes the object."""
        message = self._read(after, place)
        if message is None and not self._removable and not is_empty(before):
            raise NotAdjustable(place, NOT_REMOVABLE)
        if message != self._read(before, place):
            getattr(self.holder(adjusted), self.name).CopyFrom(message or self.shape.message())

    def _read(self, value: object, place: str) -> Any:
        return None if is_empty(members(value, place)) else read(self.shape, value, place)

    def apply(self, adjustment: Any, before: Any) -> Any:
        holder = self.holder(adjustment)
        return self._written(getattr(holder, self.name)) if holder.HasField(self.name) else before


class Rdt(Part):
    """The RDT class."""

    def _written(self, value: Any) -> Spec:
        return {key: member for key, member in write(self.shape, value).items() if member}

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
        message = read(self.shape, members(value, place), place)
        return {field.name: wrapper for field, wrapper in message.ListFields() if wrapper.value}

    def apply(self, adjustment: Any, before: Any) -> Any:
        rdt = adjustment.linux.rdt
        kept = {} if rdt.remove else before or {}
        return {**kept, **write(self.shape, rdt)} if adjustment.linux.HasField("rdt") else before


class Appended(Part):
    """An array to which NRI can only append: hooks or device rules. All other changes are refused."""

    def adjust(self, adjusted: Any, before: Any, after: Any, place: str) -> None:
        old, new = (read_list(self.shape, elements, place) for elements in (before, after))
        if new[: len(old)] != old:
            raise NotAdjustable(place, self._irremovable)
        if new != old:
            getattr(self.holder(adjusted), self.name).extend(new[len(old) :])

    def apply(self, adjustment: Any, before: Any) -> Any:
        added = self.to_oci(adjustment)
        return [*(before or []), *added] if added else before
