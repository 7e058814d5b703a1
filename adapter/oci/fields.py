"""Tables of the OCI specification's objects and NRI's messages for them, used for reading and for writing.

What is absent, null, or empty is the same where Go's `omitempty` makes it so; where a pointer tells them apart (an
optional field), 0 and absent differ. Source: runtime-spec specs-go/config.go, containerd/nri pkg/api.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from google.protobuf.message import Message

from adapter.oci.limits import ILL_TYPED, NOWHERE
from adapter.proto import nri_pb2 as api

_KINDS = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}


def _instead_of(wanted: str, value: object, place: str) -> Exception:
    return ILL_TYPED.at(place, f"{_KINDS.get(type(value), 'a number')} instead of {wanted}")


def empty(value: object) -> bool:
    """Whether a value says nothing: null, an empty string, array or object, or an object of nothing else.

    Numbers and booleans say something, for what NRI does not tell may not be 0 or false.
    """
    if isinstance(value, dict):
        return all(empty(member) for member in value.values())
    return value is None or value in ("", [])


def members(value: object, place: str) -> dict[str, Any]:
    """Returns an object's members; null and absence have none. Raises NotAdjustable."""
    return {} if value is None else is_object(value, place)


def is_object(value: object, place: str) -> dict[str, Any]:
    """Returns a value that has to be an object. Raises NotAdjustable."""
    if not isinstance(value, dict):
        raise _instead_of("an object", value, place)
    return value


def is_list(value: object, place: str) -> list[Any]:
    """Returns a value that has to be an array; null and absence are an empty one. Raises NotAdjustable."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise _instead_of("an array", value, place)
    return value


def text(value: object, place: str) -> str:
    """Returns a string that can be sent and used. Raises NotAdjustable."""
    if not isinstance(value, str):
        raise _instead_of("a string", value, place)
    if "\0" in value:
        raise ILL_TYPED.at(place, "a NUL character")
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise ILL_TYPED.at(place, "a lone surrogate")
    return value


def texts(value: object, place: str) -> list[str]:
    """Returns an array of strings. Raises NotAdjustable."""
    return [text(element, f"{place}[{number}]") for number, element in enumerate(is_list(value, place))]


def _number(low: int, high: int) -> Callable[[object, str], int]:
    def read(value: object, place: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            fraction = isinstance(value, float)
            raise ILL_TYPED.at(place, "not an integer") if fraction else _instead_of("a number", value, place)
        if not low <= value <= high:
            raise ILL_TYPED.at(place, f"out of the range {low} to {high}")
        return value

    return read


int32 = _number(-(1 << 31), (1 << 31) - 1)
int64 = _number(-(1 << 63), (1 << 63) - 1)
uint32 = _number(0, (1 << 32) - 1)
uint64 = _number(0, (1 << 64) - 1)


def boolean(value: object, place: str) -> bool:
    """Returns a boolean. Raises NotAdjustable."""
    if not isinstance(value, bool):
        raise _instead_of("a boolean", value, place)
    return value


class Field(NamedTuple):
    """One member of an object. `read` returns what the message's field is set to; `write` is the way back.

    `optional`: the message wraps it, so that absent and 0 differ. `always`: it is written even if it is 0.
    """

    key: str
    name: str
    read: Callable[[Any, str], Any] = text
    write: Callable[[Any], Any] | None = None
    optional: bool = False
    repeated: bool = False
    always: bool = False


class Shape(NamedTuple):
    """An object of the specification and NRI's message for it."""

    message: Callable[[], Any]
    fields: Mapping[str, Field]


def _shape(message: Callable[[], Any], *fields: Field) -> Shape:
    return Shape(message, {field.key: field for field in fields})


def read(shape: Shape, value: object, place: str) -> Any:
    """Returns the message for an object. Raises NotAdjustable where something is not what it has to be."""
    message = shape.message()
    for key, member in is_object(value, place).items():
        field = shape.fields.get(key)
        if field is None:
            if not empty(member):
                raise NOWHERE.at(f"{place}.{key}")
        elif member is not None:
            _set(message, field, field.read(member, f"{place}.{key}"))
    return message


def _set(message: Message, field: Field, value: Any) -> None:
    if field.optional:
        getattr(message, field.name).value = value
    elif field.repeated:
        getattr(message, field.name).extend(value)
    else:
        setattr(message, field.name, value)


def write(shape: Shape, message: Any) -> dict[str, Any]:
    """Returns the object for a message, as Go's encoder writes it."""
    written: dict[str, Any] = {}
    for key, name, _, convert, optional, repeated, always in shape.fields.values():
        if optional and not message.HasField(name):
            continue
        value = getattr(message, name)
        if optional:
            value = value.value
        elif repeated:
            value = [convert(element) for element in value] if convert else list(value)
        elif convert:
            value = convert(value)
        if value or always or optional:
            written[key] = value
    return written


def objects(shape: Shape) -> Callable[[object, str], list[Any]]:
    """Returns a reader of arrays of objects."""
    return lambda value, place: [
        read(shape, element, f"{place}[{number}]") for number, element in enumerate(is_list(value, place))
    ]


def written(shape: Shape) -> Callable[[Any], dict[str, Any]]:
    """Returns a writer of one such object."""
    return lambda message: write(shape, message)


def _word(enum: Any, without: str = "") -> Callable[[object, str], int]:
    def read(value: object, place: str) -> int:
        word = text(value, place)
        if word not in enum.keys() or word == without:  # noqa: SIM118 - an enum's wrapper is no mapping
            raise ILL_TYPED.at(place, "an unknown word")
        return int(enum.Value(word))

    return read


def _words(enum: Any) -> Callable[[object, str], list[int]]:
    word = _word(enum)
    return lambda value, place: [
        word(element, f"{place}[{number}]") for number, element in enumerate(is_list(value, place))
    ]


def _name(enum: Any) -> Callable[[int], str]:
    """Returns a writer of an enum's word; a number that this version of NRI does not know is its digits."""
    return lambda number: enum.Name(number) if number in enum.values() else str(number)


MOUNT = _shape(
    api.Mount,
    Field("destination", "destination", always=True),
    Field("type", "type"),
    Field("source", "source"),
    Field("options", "options", texts, repeated=True),
)
HOOK = _shape(
    api.Hook,
    Field("path", "path", always=True),
    Field("args", "args", texts, repeated=True),
    Field("env", "env", texts, repeated=True),
    Field("timeout", "timeout", int64, optional=True),
)
HOOKS = {
    "prestart": "prestart",
    "createRuntime": "create_runtime",
    "createContainer": "create_container",
    "startContainer": "start_container",
    "poststart": "poststart",
    "poststop": "poststop",
}


def _limit(value: object, place: str) -> int:
    """Returns a resource limit; no limit is the largest number, which tools that have only floats make larger still."""
    if isinstance(value, int) and _INFINITY < value < 2 * _INFINITY and float(value) == float(_INFINITY):
        return _INFINITY
    return uint64(value, place)


_INFINITY = (1 << 64) - 1
RLIMIT = _shape(
    api.POSIXRlimit,
    Field("type", "type", always=True),
    Field("hard", "hard", _limit, always=True),
    Field("soft", "soft", _limit, always=True),
)
DEVICE = _shape(
    api.LinuxDevice,
    Field("path", "path", always=True),
    Field("type", "type", always=True),
    Field("major", "major", int64, always=True),
    Field("minor", "minor", int64, always=True),
    Field("fileMode", "file_mode", uint32, optional=True),
    Field("uid", "uid", uint32, optional=True),
    Field("gid", "gid", uint32, optional=True),
)
RULE = _shape(
    api.LinuxDeviceCgroup,
    Field("allow", "allow", boolean, always=True),
    Field("type", "type"),
    Field("major", "major", int64, optional=True),
    Field("minor", "minor", int64, optional=True),
    Field("access", "access"),
)
HUGEPAGE = _shape(
    api.HugepageLimit, Field("pageSize", "page_size", always=True), Field("limit", "limit", uint64, always=True)
)
CPU = _shape(
    api.LinuxCPU,
    Field("shares", "shares", uint64, optional=True),
    Field("quota", "quota", int64, optional=True),
    Field("period", "period", uint64, optional=True),
    Field("realtimeRuntime", "realtime_runtime", int64, optional=True),
    Field("realtimePeriod", "realtime_period", uint64, optional=True),
    Field("cpus", "cpus"),
    Field("mems", "mems"),
)
NAMESPACE = _shape(api.LinuxNamespace, Field("type", "type", always=True), Field("path", "path"))
NET_DEVICE = _shape(api.LinuxNetDevice, Field("name", "name"))
USER = _shape(
    api.User,
    Field("uid", "uid", uint32, always=True),
    Field("gid", "gid", uint32, always=True),
    Field("additionalGids", "additional_gids", repeated=True),
)
IO_PRIORITY = _shape(
    api.LinuxIOPriority,
    Field("class", "class", _word(api.IOPrioClass, "IOPRIO_CLASS_NONE"), _name(api.IOPrioClass), always=True),
    Field("priority", "priority", int32, always=True),
)
SCHEDULER = _shape(
    api.LinuxScheduler,
    Field(
        "policy", "policy", _word(api.LinuxSchedulerPolicy, "SCHED_NONE"), _name(api.LinuxSchedulerPolicy), always=True
    ),
    Field("nice", "nice", int32),
    Field("priority", "priority", int32),
    Field("flags", "flags", _words(api.LinuxSchedulerFlag), _name(api.LinuxSchedulerFlag), repeated=True),
    Field("runtime", "runtime", uint64),
    Field("deadline", "deadline", uint64),
    Field("period", "period", uint64),
)
MEMORY_POLICY = _shape(
    api.LinuxMemoryPolicy,
    Field("mode", "mode", _word(api.MpolMode), _name(api.MpolMode), always=True),
    Field("nodes", "nodes", always=True),
    Field("flags", "flags", _words(api.MpolFlag), _name(api.MpolFlag), repeated=True),
)
RDT: Mapping[str, tuple[str, Callable[[object, str], Any], Any]] = {
    "closID": ("clos_id", text, ""),
    "schemata": ("schemata", texts, []),
    "enableMonitoring": ("enable_monitoring", boolean, False),
}
"""NRI's name for each part of `intelRdt` that it has, how it is read, and what it is in OCI where it is absent."""
_SECCOMP_ARG = _shape(
    api.LinuxSeccompArg,
    Field("index", "index", uint32, always=True),
    Field("value", "value", uint64, always=True),
    Field("valueTwo", "value_two", uint64),
    Field("op", "op", always=True),
)
_SYSCALL = _shape(
    api.LinuxSyscall,
    Field("names", "names", texts, repeated=True, always=True),
    Field("action", "action", always=True),
    Field("errnoRet", "errno_ret", uint32, optional=True),
    Field("args", "args", objects(_SECCOMP_ARG), written(_SECCOMP_ARG), repeated=True),
)
SECCOMP = _shape(
    api.LinuxSeccomp,
    Field("defaultAction", "default_action", always=True),
    Field("defaultErrnoRet", "default_errno", uint32, optional=True),
    Field("architectures", "architectures", texts, repeated=True),
    Field("flags", "flags", texts, repeated=True),
    Field("listenerPath", "listener_path"),
    Field("listenerMetadata", "listener_metadata"),
    Field("syscalls", "syscalls", objects(_SYSCALL), written(_SYSCALL), repeated=True),
)
