"""Generated edits: what a plugin that knows the specification may do to one, and anything at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from adapter.oci.values import Spec

from .cases import ABSENT, FULL, NAMED, POINTERS, copied

NAMES = ["a", "-a", "", "A", "é", "/data", "/data/sub", "/", "FOO", "RLIMIT_NOFILE", "pid", "time", "2MB", "eth0"]
SCALARS = st.one_of(
    st.sampled_from([None, True, False, 0, 1, -1, 5.0, 1 << 31, 1 << 32, 1 << 63, -(1 << 63), 1 << 64, float("nan")]),
    st.integers(),
    st.sampled_from([*NAMES, "\0", "\ud800", "A=1", "=x", "SCHED_FIFO", "SCHED_NONE", "MPOL_BIND", "x" * 200, "\n"]),
    st.text(max_size=5),
)
KEYS = st.one_of(
    st.sampled_from(
        sorted(
            POINTERS
            | set(NAMED)
            | set(NAMED.values())
            | {"process", "linux", "hooks", "annotations", "env", "args", "options", "source", "hard", "soft", "name"}
            | {"user", "root", "readonly", "seccomp", "intelRdt", "memoryPolicy", "mode", "nodes", "flags", "resources"}
            | {"memory", "cpu", "pids", "unified", "sysctl", "netDevices", "poststop", "uidMappings", "class", "policy"}
            | {"priority", "closID", "schemata", "allow", "access", "prestart", "ioPriority", "scheduler", "cpus"}
        )
    ),
    st.sampled_from(NAMES),
)
ANY = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=5
)

Edit = Callable[[Spec], None]
WORDS = st.sampled_from(["", "a", "b=c", "é", "x y", "1", "-"])
ADDABLE = st.sampled_from(["a", "b", "example.com/b", "é", "net.core.somaxconn"])
UINT64 = st.sampled_from([0, 1, 1024, (1 << 64) - 1])
INT64 = st.sampled_from([-1, 0, 1, 1 << 40, -(1 << 63), (1 << 63) - 1])
POSITIVE = st.sampled_from([1, 100, 1 << 30, (1 << 63) - 1])
MOUNTS = st.fixed_dictionaries(
    {"destination": st.sampled_from(["/data", "/data/sub", "/new", "/new/a", "/etc/x", "/"])},
    optional={
        "type": st.sampled_from(["bind", "tmpfs", ""]),
        "source": WORDS,
        "options": st.lists(st.sampled_from(["ro", "rbind", "rprivate"]), max_size=2),
    },
)
RLIMITS = st.fixed_dictionaries(
    {"type": st.sampled_from(["RLIMIT_NOFILE", "RLIMIT_CORE", "RLIMIT_AS"]), "hard": UINT64, "soft": UINT64}
)
DEVICES = st.fixed_dictionaries(
    {
        "path": st.sampled_from(["/dev/a", "/dev/b"]),
        "type": st.sampled_from(["c", "b"]),
        "major": INT64,
        "minor": INT64,
    },
    optional={name: st.sampled_from([0, 438]) for name in ("fileMode", "uid", "gid")},
)
NAMESPACES = st.fixed_dictionaries(
    {"type": st.sampled_from(["pid", "network", "ipc", "user"])}, optional={"path": st.sampled_from(["", "/a"])}
)
HOOKS = st.fixed_dictionaries(
    {"path": st.sampled_from(["/bin/a", "/bin/b"])},
    optional={"args": st.lists(WORDS, max_size=2), "env": st.lists(WORDS, max_size=2), "timeout": st.integers(0, 9)},
)
RULES = st.fixed_dictionaries(
    {"allow": st.booleans()},
    optional={"type": st.sampled_from(["a", "c"]), "major": INT64, "minor": INT64, "access": st.just("rw")},
)
SCHEDULERS = st.fixed_dictionaries(
    {"policy": st.sampled_from(["SCHED_OTHER", "SCHED_FIFO", "SCHED_DEADLINE"])},
    optional={
        "nice": st.integers(-20, 19),
        "priority": st.integers(0, 99),
        "flags": st.lists(st.sampled_from(["SCHED_FLAG_RESET_ON_FORK", "SCHED_FLAG_RECLAIM"]), max_size=2),
        "runtime": UINT64,
        "deadline": UINT64,
        "period": UINT64,
    },
)
IO_PRIORITIES = st.fixed_dictionaries(
    {"class": st.sampled_from(["IOPRIO_CLASS_RT", "IOPRIO_CLASS_IDLE"]), "priority": st.integers(0, 7)}
)
SECCOMPS = st.fixed_dictionaries(
    {"defaultAction": st.sampled_from(["SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO"])},
    optional={
        "architectures": st.lists(st.just("SCMP_ARCH_X86"), max_size=1),
        "flags": st.lists(st.just("SECCOMP_FILTER_FLAG_LOG"), max_size=1),
        "listenerPath": st.just("/a"),
        "listenerMetadata": WORDS,
        "syscalls": st.lists(
            st.fixed_dictionaries(
                {"names": st.lists(st.just("read"), min_size=1), "action": st.just("SCMP_ACT_LOG")},
                optional={
                    "errnoRet": st.integers(0, 9),
                    "args": st.lists(
                        st.fixed_dictionaries(
                            {"index": st.integers(0, 5), "value": UINT64, "op": st.just("SCMP_CMP_EQ")},
                            optional={"valueTwo": UINT64},
                        ),
                        max_size=2,
                    ),
                },
            ),
            max_size=2,
        ),
    },
)
MEMORY_POLICIES = st.fixed_dictionaries(
    {"mode": st.sampled_from(["MPOL_BIND", "MPOL_DEFAULT"]), "nodes": st.sampled_from(["", "0-1"])},
    optional={"flags": st.lists(st.just("MPOL_F_STATIC_NODES"), max_size=1)},
)
RDT = st.fixed_dictionaries(
    {},
    optional={
        "closID": st.sampled_from(["", "b"]),
        "schemata": st.lists(WORDS, max_size=2),
        "enableMonitoring": st.booleans(),
    },
)


def _set(*path: str, to: st.SearchStrategy[Any]) -> st.SearchStrategy[Edit]:
    def edit(value: Any) -> Edit:
        def change(spec: Spec) -> None:
            target = spec
            for key in path[:-1]:
                target = target.setdefault(key, {})
            if value is ABSENT:
                target.pop(path[-1], None)
            else:
                target[path[-1]] = copied(value)

        return change

    return to.map(edit)


def _member(*path: str, names: st.SearchStrategy[str], to: st.SearchStrategy[Any]) -> st.SearchStrategy[Edit]:
    return names.flatmap(lambda name: _set(*path, name, to=to))


def _named(*path: str, key: str, to: st.SearchStrategy[Spec], front: bool = False) -> st.SearchStrategy[Edit]:
    def edit(element: Spec) -> Edit:
        def change(spec: Spec) -> None:
            target: Any = spec
            for name in path[:-1]:
                target = target.setdefault(name, {})
            values = target.setdefault(path[-1], [])
            found = [index for index, value in enumerate(values) if value.get(key) == element[key]]
            if found:
                values[found[0]] = copied(element)
            else:
                values.append(copied(element))

        return change

    return to.map(edit)


def _append(*path: str, to: st.SearchStrategy[Any]) -> st.SearchStrategy[Edit]:
    def edit(element: Any) -> Edit:
        def change(spec: Spec) -> None:
            target: Any = spec
            for name in path[:-1]:
                target = target.setdefault(name, {})
            target[path[-1]] = [*target.get(path[-1], []), copied(element)]

        return change

    return to.map(edit)


def _variable(entry: str) -> Edit:
    def change(spec: Spec) -> None:
        name = entry.partition("=")[0] + "="
        env = spec["process"]["env"]
        found = [index for index, value in enumerate(env) if value.startswith(name)]
        spec["process"]["env"] = [*env[: found[0]], entry, *env[found[0] + 1 :]] if found else [*env, entry]

    return change


def _limit(limit: int, swap: bool) -> Edit:
    def change(spec: Spec) -> None:
        spec["linux"]["resources"].setdefault("memory", {})["limit"] = limit
        if swap:
            spec["linux"]["resources"]["memory"]["swap"] = limit

    return change


def _unmount(number: int) -> Edit:
    def change(spec: Spec) -> None:
        if spec.get("mounts"):
            del spec["mounts"][number % len(spec["mounts"])]

    return change


MAYBE = st.just(ABSENT)
CPU = ("linux", "resources", "cpu")
GOOD_EDITS: st.SearchStrategy[Edit] = st.one_of(
    _member("annotations", names=ADDABLE, to=WORDS | MAYBE),
    _member("annotations", names=st.just("-marked"), to=MAYBE),
    _set("annotations", to=MAYBE),
    _set("process", "args", to=st.lists(WORDS, min_size=1, max_size=3)),
    st.builds("{}={}".format, st.sampled_from(["PATH", "NEW", "é", "EMPTY"]), WORDS).map(_variable),
    _named("process", "rlimits", key="type", to=RLIMITS),
    _set("process", "oomScoreAdj", to=st.integers(-1000, 1000)),
    _set("process", "scheduler", to=SCHEDULERS | MAYBE),
    _set("process", "ioPriority", to=IO_PRIORITIES | MAYBE),
    _named("mounts", key="destination", to=MOUNTS),
    st.integers(0, 9).map(_unmount),
    _append("hooks", "createRuntime", to=HOOKS),
    _append("hooks", "poststop", to=HOOKS),
    _named("linux", "devices", key="path", to=DEVICES),
    _named("linux", "namespaces", key="type", to=NAMESPACES),
    _set("linux", "namespaces", to=MAYBE),
    _member("linux", "sysctl", names=ADDABLE, to=WORDS | MAYBE),
    _member(
        "linux", "netDevices", names=st.sampled_from(["eth0", "eth2", "eth3"]), to=st.sampled_from([{}, {"name": "a"}])
    ),
    _member("linux", "netDevices", names=st.just("eth0"), to=MAYBE),
    _set("linux", "cgroupsPath", to=st.sampled_from(["/a", "s:p:n"])),
    _set("linux", "seccomp", to=SECCOMPS),
    _set("linux", "memoryPolicy", to=MEMORY_POLICIES),
    _set("linux", "intelRdt", to=RDT | MAYBE),
    st.builds(_limit, POSITIVE, st.booleans()),
    *(_set(*CPU, name, to=UINT64) for name in ("shares", "period", "realtimePeriod")),
    *(_set(*CPU, name, to=INT64) for name in ("quota", "realtimeRuntime")),
    *(_set(*CPU, name, to=st.just("0-3")) for name in ("cpus", "mems")),
    _set("linux", "resources", "pids", "limit", to=st.integers(0, 9)),
    _append("linux", "resources", "devices", to=RULES),
    _named(
        *("linux", "resources", "hugepageLimits"),
        key="pageSize",
        to=st.fixed_dictionaries({"pageSize": st.sampled_from(["2MB", "1GB"]), "limit": UINT64}),
    ),
    _member("linux", "resources", "unified", names=ADDABLE, to=WORDS),
)
"""What can be expressed, mostly: two of them together need not be."""


def _anywhere(draw_from: list[int], value: Any, how: str) -> Edit:
    """Goes down by the numbers, and there sets, removes, inserts, or doubles."""

    def change(spec: Spec) -> None:
        target: Any = spec
        for number in draw_from:
            inner = _within(target)
            if not inner:
                break
            child = target[inner[number % len(inner)]]
            if not isinstance(child, dict | list):
                break
            target = child
        _touch(target, draw_from, value, how)

    return change


def _within(value: Any) -> list[Any]:
    return sorted(value) if isinstance(value, dict) else list(range(len(value)))


def _touch(target: Any, numbers: list[int], value: Any, how: str) -> None:
    inner = _within(target)
    key = inner[numbers[0] % len(inner)] if inner else None
    if how == "insert" or key is None:
        if isinstance(target, dict):
            target[value if isinstance(value, str) else "a"] = 1
        else:
            target.insert(numbers[0] % (len(target) + 1), copied(value))
    elif how == "remove":
        del target[key]
    elif how == "double" and isinstance(target, list):
        target.append(copied(target[key]))
    else:
        target[key] = copied(value)


BAD_EDITS: st.SearchStrategy[Edit] = st.builds(
    _anywhere,
    st.lists(st.integers(0, 20), min_size=1, max_size=5),
    ANY,
    st.sampled_from(["set", "insert", "remove", "double"]),
)


def after(before: Spec, edits: list[Edit]) -> Spec:
    """Returns a copy with all the edits; one that finds no place for itself any more is left out."""
    result = copied(before)
    for edit in edits:
        try:
            edit(result)
        except (TypeError, AttributeError, KeyError, IndexError):
            continue
    return dict(result)


SPECS = st.one_of(
    st.just(FULL),
    st.just({"process": {"args": ["a"], "env": []}, "linux": {"resources": {}}}),
    st.lists(GOOD_EDITS, max_size=8).map(lambda edits: after(FULL, edits)),
)
