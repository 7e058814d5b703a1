"""Readers of OCI values: a reader returns the value for NRI's message, or refuses a wrong value with its place.

Where Go has `omitempty`, an absent, a null, and an empty value are the same. In an optional field, which
is a pointer in Go, 0 and an absent value differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from google.protobuf.descriptor import FieldDescriptor

from v010_adapter.base.gojson import kind
from v010_adapter.errors import NotAdjustable
from v010_adapter.oci.limits import NOWHERE, ill_typed, inside
from v010_adapter.oci.shapes import Field, Shape

Spec: TypeAlias = dict[str, Any]
"""An OCI runtime specification, or an object in it, as `gojson.plain` returns it."""

_NO_WORDS = {"IOPRIO_CLASS_NONE", "SCHED_NONE"}
"""NRI's words for an absent object. OCI does not have these words."""


def _instead_of(wanted: str, value: object, place: str) -> Exception:
    return ill_typed(place, f"{kind(value)} instead of {wanted}")


def is_empty(value: object) -> bool:
    """Whether a value is null, an empty string, array or object, or has only such values in it.

    Numbers and booleans are never empty, because a value that NRI does not report need not be 0 or false.
    """
    if isinstance(value, dict):
        return all(is_empty(member) for member in value.values())
    if isinstance(value, list):
        return all(member is None for member in value)
    return value is None or value == ""


def members(value: object, place: str) -> Spec:
    """Returns an object's members; none for null and absence. Raises NotAdjustable."""
    return {} if value is None else as_object(value, place)


def as_object(value: object, place: str) -> Spec:
    """Returns the value, which must be an object. Raises NotAdjustable."""
    if not isinstance(value, dict):
        raise _instead_of("an object", value, place)
    return value


def as_list(value: object, place: str) -> list[Any]:
    """Returns the value, which must be an array; an empty array for null and absence. Raises NotAdjustable."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise _instead_of("an array", value, place)
    return value


def text(value: object, place: str) -> str:
    """Returns the value, which must be a string without NUL characters and lone surrogates. Raises NotAdjustable."""
    if not isinstance(value, str):
        raise _instead_of("a string", value, place)
    if "\0" in value:
        raise ill_typed(place, "a NUL character")
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise ill_typed(place, "a lone surrogate")
    return value


def texts(value: object, place: str) -> list[str]:
    """Returns an array of strings. Raises NotAdjustable."""
    return [text(element, f"{place}[{number}]") for number, element in enumerate(as_list(value, place))]


def boolean(value: object, place: str) -> bool:
    """Returns a boolean. Raises NotAdjustable."""
    if not isinstance(value, bool):
        raise _instead_of("a boolean", value, place)
    return value


def _integer(low: int, high: int) -> Callable[[object, str], int]:
    def integer(value: object, place: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            fraction = isinstance(value, float)
            raise ill_typed(place, "not an integer") if fraction else _instead_of("a number", value, place)
        if not low <= value <= high:
            raise ill_typed(place, f"out of the range {low} to {high}")
        return value

    return integer


_LARGEST = (1 << 64) - 1
_ROUNDED = range(1 << 64, (1 << 64) + (1 << 11) + 1)
"""The larger numbers that are the same float as the largest one."""
_UINT64 = _integer(0, _LARGEST)


def _uint64(value: object, place: str) -> int:
    """Returns a number of 64 bits. Restores the largest one, which means no limit, if a tool has rounded it up."""
    return _LARGEST if isinstance(value, int) and value in _ROUNDED else _UINT64(value, place)


int64 = _integer(-(1 << 63), (1 << 63) - 1)
_READERS: Mapping[int, Callable[[object, str], Any]] = {
    FieldDescriptor.TYPE_STRING: text,
    FieldDescriptor.TYPE_BOOL: boolean,
    FieldDescriptor.TYPE_INT32: _integer(-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.TYPE_UINT32: _integer(0, (1 << 32) - 1),
    FieldDescriptor.TYPE_INT64: int64,
    FieldDescriptor.TYPE_UINT64: _uint64,
}


def read(shape: Shape, value: object, place: str) -> Any:
    """Returns the message for an object. Raises NotAdjustable for a member that is wrong, unknown, or missing."""
    message = shape.message()
    oci = as_object(value, place)
    if shape.required:
        text(oci.get(shape.required), f"{place}.{shape.required}")
    for key, member in oci.items():
        field = shape.fields.get(key)
        if field is None:
            if not is_empty(member):
                raise NotAdjustable(inside(place, key), NOWHERE)
        elif member is not None:
            _set(message, field, member, f"{place}.{key}")
    return message


def _set(message: Any, field: Field, member: object, place: str) -> None:
    holder, name = (getattr(message, field.name), "value") if field.optional else (message, field.name)
    if field.is_repeated:
        elements = enumerate(as_list(member, place))
        getattr(holder, name).extend([_element(field, element, f"{place}[{number}]") for number, element in elements])
    else:
        setattr(holder, name, _element(field, member, place))


def _element(field: Field, value: object, place: str) -> Any:
    if field.shape:
        return read(field.shape, value, place)
    if field.words is None:
        return _READERS[field.value.type](value, place)
    word = text(value, place)
    number = field.words.values_by_name.get(word)
    if number is None or word in _NO_WORDS:
        raise ill_typed(place, "an unknown word")
    return number.number


def read_list(shape: Shape, value: object, place: str) -> list[Any]:
    """Returns the messages for an array of objects. Raises NotAdjustable."""
    return [read(shape, element, f"{place}[{number}]") for number, element in enumerate(as_list(value, place))]
