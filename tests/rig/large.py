"""Containers with one field as large as a message allows: each field of a pod's author, in several forms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from nri import api

Large = Callable[[api.PodSandbox, api.Container, int], object]
"""Fills one field with about so many bytes."""


def _repeated(target: str, text: str) -> Large:
    return lambda pod, container, size: getattr(container, target).extend([text] * (size // (len(text) + 2)))


def _numbered(target: str, text: str, around: int = 0) -> Large:
    """Fills a list with different texts."""

    def fill(pod: api.PodSandbox, container: api.Container, size: int) -> None:
        getattr(container, target).extend(text % number for number in range(size // (len(text) + 8 + around)))

    return fill


def _mounts(texts: Callable[[int], Iterable[tuple[str, str]]]) -> Large:
    def fill(pod: api.PodSandbox, container: api.Container, size: int) -> None:
        for destination, source in texts(size):
            container.mounts.add(destination=destination, source=source, type="bind", options=["rbind", "rprivate"])

    return fill


def _map(of: Callable[[api.PodSandbox, api.Container], object], *, many: bool, text: str = "x") -> Large:
    def fill(pod: api.PodSandbox, container: api.Container, size: int) -> None:
        number, length = (size // 24, 4) if many else (1, size)
        of(pod, container).update(  # type: ignore[attr-defined]
            {f"a{each}": (text * (length // len(text) + 1))[:length] for each in range(number)}
        )

    return fill


def _devices(pod: api.PodSandbox, container: api.Container, size: int) -> None:
    container.linux.devices.extend(
        api.LinuxDevice(path=f"/dev/{number}", type="c", major=1, minor=number) for number in range(size // 25)
    )


def _rlimits(pod: api.PodSandbox, container: api.Container, size: int) -> None:
    container.rlimits.extend(api.POSIXRlimit(type=f"R{number}", hard=1, soft=1) for number in range(size // 15))


def _rules(pod: api.PodSandbox, container: api.Container, size: int) -> None:
    rule = api.LinuxDeviceCgroup(allow=True, type="c", access="rwm", major=api.OptionalInt64(value=1))
    container.linux.resources.devices.extend([rule] * (size // 20))


def _pages(pod: api.PodSandbox, container: api.Container, size: int) -> None:
    limits = container.linux.resources.hugepage_limits
    limits.extend(api.HugepageLimit(page_size=f"{number}B", limit=1) for number in range(size // 13))


def _namespaces(pod: api.PodSandbox, container: api.Container, size: int) -> None:
    container.linux.namespaces.extend(api.LinuxNamespace(type=f"{number}", path="/a") for number in range(size // 14))


def _syscalls(pod: api.PodSandbox, container: api.Container, size: int) -> None:
    policy = container.linux.seccomp_policy
    policy.default_action = "SCMP_ACT_ERRNO"
    policy.syscalls.extend([api.LinuxSyscall(names=["read"], action="SCMP_ACT_ALLOW")] * (size // 24))


FIELDS: Mapping[str, Large] = {
    "pod's annotations: one": _map(lambda pod, _: pod.annotations, many=False, text="ab"),
    "pod's annotations: one of JSON": _map(lambda pod, _: pod.annotations, many=False, text='"\n'),
    "pod's annotations: many": _map(lambda pod, _: pod.annotations, many=True),
    "container's annotations: one": _map(lambda _, container: container.annotations, many=False, text="é"),
    "container's annotations: many": _map(lambda _, container: container.annotations, many=True),
    "pod's labels: one": _map(lambda pod, _: pod.labels, many=False, text="<"),
    "pod's labels: many": _map(lambda pod, _: pod.labels, many=True),
    "args[0]": lambda pod, container, size: container.args.insert(0, "ab" * (size // 2)),
    "args: many": _repeated("args", "a"),
    "args: empty": _repeated("args", ""),
    "env: one": lambda pod, container, size: container.env.append("A=" + "\x01" * size),
    "env: many": _numbered("env", "A%06d=x"),
    "env: short": _numbered("env", "%x=", -5),
    "env: duplicates": _repeated("env", "A=1"),
    "env: without =": _repeated("env", "A"),
    "mounts: pods in the destination": _mounts(lambda size: [("/" + " /pods/" * (size // 7), "/a")]),
    "mounts: one of slashes": _mounts(lambda size: [("/a" * (size // 4), "/b" * (size // 4))]),
    "mounts: many": _mounts(lambda size: ((f"/data/{number}", f"/srv/{number}") for number in range(size // 55))),
    "mounts: nested": _mounts(lambda size: (("/a" * (number % 2000), "/srv") for number in range(size // 2030))),
    "mounts: duplicates": _mounts(lambda size: [("/data", "/srv")] * (size // 40)),
    "mounts: options": lambda pod, container, size: container.mounts.add(options=["ro"] * (size // 4)),
    "devices": _devices,
    "rlimits": _rlimits,
    "device rules": _rules,
    "huge pages": _pages,
    "unified": _map(lambda _, container: container.linux.resources.unified, many=True),
    "sysctl": _map(lambda _, container: container.linux.sysctl, many=True),
    "namespaces": _namespaces,
    "syscalls": _syscalls,
    "names": lambda pod, container, size: setattr(container, "name", "\x1b" * size),
}
"""The fields of a creation, by what is in them."""


def creation(field: str, size: int) -> api.CreateContainerRequest:
    """Return a creation with a large field, and something in each of the others."""
    pod = api.PodSandbox(id="p", name="web", uid="u", namespace="default", annotations={"note": "x"})
    container = api.Container(id="c", pod_sandbox_id="p", name="web", args=["/bin/sh"], env=["PATH=/bin", "HOME=/"])
    container.mounts.add(destination="/proc", type="proc", source="proc")
    if field:
        FIELDS[field](pod, container, size)
    return api.CreateContainerRequest(pod=pod, container=container)
