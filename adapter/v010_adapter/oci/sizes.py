"""Sizes of a container that neither Kubernetes nor the kernel accepts. Pure.

The time that an event takes grows linearly with the fields that plugins and hooks read. The sizes of these fields are
checked first, so that a container that cannot run costs no time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from typing import TypeAlias

from nri.proto import nri_pb2 as api
from v010_adapter.errors import Oversized

MAX_PATH = 4095
"""Bytes of a path (PATH_MAX, without the NUL)."""
_SURELY_SHORT = MAX_PATH // 4
"""A path of at most so many characters is not too long, even if each has four bytes."""
MAX_STRING = (128 << 10) - 1
"""Bytes of an argument or of a variable (MAX_ARG_STRLEN, without the NUL)."""
MAX_STRINGS = 6 << 20
"""Bytes of all arguments and variables, with a NUL and a pointer for each (fs/exec.c, bprm_stack_limits)."""
_PER_STRING = 9
"""Bytes of a NUL and a pointer."""
MAX_ANNOTATIONS = (256 + 16) << 10
"""Bytes of all keys and values of a pod's annotations (Kubernetes: TotalAnnotationSizeLimitB, 256 KiB).

16 KiB are for the annotations that the kubelet and the runtime add.
"""

MAX_ELEMENTS = 100_000
"""Elements of a list or map (the kernel's fs.mount-max; 256 KiB hold fewer annotations)."""

Size: TypeAlias = tuple[str, int, int, str]
"""A field's name, its size, the maximum, and the unit."""


def _many(name: str, elements: Sized) -> Size:
    return name, len(elements), MAX_ELEMENTS, "elements"


def _annotations(pod: api.PodSandbox, container: api.Container) -> Iterator[Size]:
    yield _many("annotations", container.annotations)
    if pod.ByteSize() > MAX_ANNOTATIONS:  # of a smaller pod, the annotations are smaller, too
        texts = [*pod.annotations, *pod.annotations.values()]
        yield "the pod's annotations", sum(len(text.encode()) for text in texts), MAX_ANNOTATIONS, "bytes"


def _command(_: api.PodSandbox, container: api.Container) -> Iterator[Size]:
    for command in container.args[:1]:
        yield "args[0]", len(command.encode()), MAX_PATH, "bytes"


def _strings(_: api.PodSandbox, container: api.Container) -> Iterator[Size]:
    if container.ByteSize() <= MAX_STRING:
        return
    total = 0
    for name, texts in {"args": container.args, "env": container.env}.items():
        sizes = [len(text.encode()) for text in texts]
        longest = max(sizes, default=0)
        yield f"{name}[{sizes.index(longest) if sizes else 0}]", longest, MAX_STRING, "bytes"
        total += sum(sizes) + len(sizes) * _PER_STRING
    yield "args and env", total, MAX_STRINGS, "bytes"


def _mounts(_: api.PodSandbox, container: api.Container) -> Iterator[Size]:
    yield _many("mounts", container.mounts)
    for number, mount in enumerate(container.mounts):
        for name, path in ("destination", mount.destination), ("source", mount.source):
            if len(path) > _SURELY_SHORT:
                yield f"mounts[{number}].{name}", len(path.encode()), MAX_PATH, "bytes"


def _lists(_: api.PodSandbox, container: api.Container) -> Iterator[Size]:
    """Yields the lists that the node's root and the runtime decide on."""
    linux, resources = container.linux, container.linux.resources
    yield _many("rlimits", container.rlimits)
    yield _many("linux.seccomp_policy.syscalls", linux.seccomp_policy.syscalls)
    for name in ("devices", "namespaces", "sysctl"):
        yield _many(f"linux.{name}", getattr(linux, name))
    for name in ("devices", "hugepage_limits", "unified"):
        yield _many(f"linux.resources.{name}", getattr(resources, name))
    for stage, hooks in container.hooks.ListFields():
        yield _many(f"hooks.{stage.name}", hooks)


_FIELDS: Mapping[str, Callable[[api.PodSandbox, api.Container], Iterator[Size]]] = {
    "annotations": _annotations,
    "command": _command,
    "strings": _strings,
    "mounts": _mounts,
    "lists": _lists,
}


EDITED = ("annotations", "strings", "mounts", "lists")
"""What programs that edit a container read. Not the command: they may replace one that cannot be executed."""
EDITED_OF_SMALL = ("mounts",)
"""What can be too large in an event that is not large (`programs.apart.LARGE`): all other maxima are larger."""


def refuse_oversized(pod: api.PodSandbox, container: api.Container, fields: Iterable[str] = EDITED) -> None:
    """Raises Oversized for the first of these fields that is larger than Kubernetes or the kernel accepts."""
    for field in fields:
        for name, size, most, unit in _FIELDS[field](pod, container):
            if size > most:
                raise Oversized(name, f"{size} {unit}, at most {most}")
