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


def keys_in(value: Any) -> set[str]:
    """The names of all members of an object, and of the objects in it."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return set(value if isinstance(value, dict) else ()).union(*map(keys_in, inside))


OTHER_KEYS = {
    *("root", "readonly", "memoryPolicy", "mode", "nodes", "flags", "poststop", "prestart", "uidMappings", "source"),
}
KEYS = st.sampled_from(sorted(OTHER_KEYS | POINTERS | set(NAMED.values()) | keys_in(FULL))) | st.sampled_from(NAMES)
ANY = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=5
)

Edit = Callable[[Spec], None]
WORDS = st.sampled_from(["", "a", "b=c", "é", "x y", "1", "-"])
ADDABLE = st.sampled_from(["a", "b", "example.com/b", "é", "net.core.somaxconn"])
UINT64 = st.sampled_from([0, 1, 1024, (1 << 64) - 1])
INT64 = st.sampled_from([-1, 0, 1, 1 << 40, -(1 << 63), (1 << 63) - 1])
POSITIVE = st.sampled_from([1, 100, 1 << 30, (1 << 63) - 1])
MARK = "?"


def objects(members: dict[str, Any]) -> st.SearchStrategy[Spec]:
    """Objects with these members, of a list one of its values; one whose name ends in `?` may be missing."""
    made = {name: st.sampled_from(of) if isinstance(of, list) else of for name, of in members.items()}
    required = {name: of for name, of in made.items() if not name.endswith(MARK)}
    optional = {name.removesuffix(MARK): of for name, of in made.items() if name.endswith(MARK)}
    return st.fixed_dictionaries(required, optional=optional)


def few(of: Any, least: int = 0) -> st.SearchStrategy[Any]:
    return st.lists(st.sampled_from(of) if isinstance(of, list) else of, min_size=least, max_size=2)


# fmt: off
MOUNTS = objects({
    "destination": ["/data", "/data/sub", "/new", "/new/a", "/etc/x", "/"], "type?": ["bind", "tmpfs", ""],
    "source?": WORDS, "options?": few(["ro", "rbind", "rprivate"]),
})
RLIMITS = objects({"type": ["RLIMIT_NOFILE", "RLIMIT_CORE", "RLIMIT_AS"], "hard": UINT64, "soft": UINT64})
DEVICES = objects({
    "path": ["/dev/a", "/dev/b"], "type": ["c", "b"], "major": INT64, "minor": INT64,
    "fileMode?": [0, 438], "uid?": [0, 438], "gid?": [0, 438],
})
NAMESPACES = objects({"type": ["pid", "network", "ipc", "user"], "path?": ["", "/a"]})
HOOKS = objects({
    "path": ["/bin/a", "/bin/b"], "args?": few(WORDS), "env?": few(WORDS), "timeout?": st.integers(0, 9),
})
RULES = objects({"allow": [False, True], "type?": ["a", "c"], "major?": INT64, "minor?": INT64, "access?": ["rw"]})
SCHEDULERS = objects({
    "policy": ["SCHED_OTHER", "SCHED_FIFO", "SCHED_DEADLINE"], "nice?": st.integers(-20, 19),
    "priority?": st.integers(0, 99), "flags?": few(["SCHED_FLAG_RESET_ON_FORK", "SCHED_FLAG_RECLAIM"]),
    "runtime?": UINT64, "deadline?": UINT64, "period?": UINT64,
})
IO_PRIORITIES = objects({"class": ["IOPRIO_CLASS_RT", "IOPRIO_CLASS_IDLE"], "priority": st.integers(0, 7)})
ARGUMENTS = objects({"index": st.integers(0, 5), "value": UINT64, "op": ["SCMP_CMP_EQ"], "valueTwo?": UINT64})
SYSCALLS = objects({
    "names": few(["read"], 1), "action": ["SCMP_ACT_LOG"], "errnoRet?": st.integers(0, 9), "args?": few(ARGUMENTS),
})
SECCOMPS = objects({
    "defaultAction": ["SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO"], "architectures?": few(["SCMP_ARCH_X86"]),
    "flags?": few(["SECCOMP_FILTER_FLAG_LOG"]), "listenerPath?": ["/a"], "listenerMetadata?": WORDS,
    "syscalls?": few(SYSCALLS),
})
MEMORY_POLICIES = objects({
    "mode": ["MPOL_BIND", "MPOL_DEFAULT"], "nodes": ["", "0-1"], "flags?": few(["MPOL_F_STATIC_NODES"]),
})
RDT = objects({"closID?": ["", "b"], "schemata?": few(WORDS), "enableMonitoring?": [False, True]})
HUGE_PAGES = objects({"pageSize": ["2MB", "1GB"], "limit": UINT64})
# fmt: on


def _placed(path: tuple[str, ...], value: Any, key: str | None) -> Edit:
    """Sets the value at a path; in an array if `key` is not None: in place of the element with the same, or behind."""

    def change(spec: Spec) -> None:
        *parents, last = path
        target: Any = spec
        for name in parents:
            target = target.setdefault(name, {})
        if value is ABSENT:
            target.pop(last, None)
        elif key is None:
            target[last] = copied(value)
        else:
            values = target.setdefault(last, [])
            same = [index for index, one in enumerate(values) if key and one.get(key) == value[key]]
            place = same[0] if same else len(values)
            values[place : place + 1] = [copied(value)]

    return change


def _set(
    *path: str | st.SearchStrategy[str], to: st.SearchStrategy[Any], key: str | None = None
) -> st.SearchStrategy[Edit]:
    """Edits of what is at a path, whose names may be drawn; see _placed."""
    names = st.tuples(*(st.just(name) if isinstance(name, str) else name for name in path))
    return st.builds(_placed, names, to, st.just(key))


def _variable(entry: str) -> Edit:
    def change(spec: Spec) -> None:
        name = entry.partition("=")[0] + "="
        env = spec["process"]["env"]
        found = [index for index, value in enumerate(env) if value.startswith(name)]
        spec["process"]["env"] = [*env[: found[0]], entry, *env[found[0] + 1 :]] if found else [*env, entry]

    return change


def _memory(limit: int, swap: bool) -> Spec:
    return {"limit": limit, **({"swap": limit} if swap else {}), "disableOOMKiller": False}


def _unmount(number: int) -> Edit:
    def change(spec: Spec) -> None:
        if spec.get("mounts"):
            del spec["mounts"][number % len(spec["mounts"])]

    return change


MAYBE = st.just(ABSENT)
RESOURCES = ("linux", "resources")
CPU = (*RESOURCES, "cpu")
GOOD_EDITS: st.SearchStrategy[Edit] = st.one_of(
    _set("annotations", ADDABLE, to=WORDS | MAYBE),
    _set("annotations", "-marked", to=MAYBE),
    _set("annotations", to=MAYBE),
    _set("process", "args", to=st.lists(WORDS, min_size=1, max_size=3)),
    st.builds("{}={}".format, st.sampled_from(["PATH", "NEW", "é", "EMPTY"]), WORDS).map(_variable),
    _set("process", "rlimits", key="type", to=RLIMITS),
    _set("process", "oomScoreAdj", to=st.integers(-1000, 1000)),
    _set("process", "scheduler", to=SCHEDULERS | MAYBE),
    _set("process", "ioPriority", to=IO_PRIORITIES | MAYBE),
    _set("mounts", key="destination", to=MOUNTS),
    st.integers(0, 9).map(_unmount),
    _set("hooks", st.sampled_from(["createRuntime", "poststop"]), key="", to=HOOKS),
    _set("linux", "devices", key="path", to=DEVICES),
    _set("linux", "namespaces", key="type", to=NAMESPACES),
    _set("linux", "namespaces", to=MAYBE),
    _set("linux", "sysctl", ADDABLE, to=WORDS | MAYBE),
    _set("linux", "netDevices", st.sampled_from(["eth0", "eth2", "eth3"]), to=st.sampled_from([{}, {"name": "a"}])),
    _set("linux", "netDevices", "eth0", to=MAYBE),
    _set("linux", "cgroupsPath", to=st.sampled_from(["/a", "s:p:n"])),
    _set("linux", "seccomp", to=SECCOMPS),
    _set("linux", "memoryPolicy", to=MEMORY_POLICIES),
    _set("linux", "intelRdt", to=RDT | MAYBE),
    _set(*RESOURCES, "memory", to=st.builds(_memory, POSITIVE, st.booleans())),
    _set(*CPU, st.sampled_from(["shares", "period", "realtimePeriod"]), to=UINT64),
    _set(*CPU, st.sampled_from(["quota", "realtimeRuntime"]), to=INT64),
    _set(*CPU, st.sampled_from(["cpus", "mems"]), to=st.just("0-3")),
    _set(*RESOURCES, "pids", "limit", to=st.integers(0, 9)),
    _set(*RESOURCES, "devices", key="", to=RULES),
    _set(*RESOURCES, "hugepageLimits", key="pageSize", to=HUGE_PAGES),
    _set(*RESOURCES, "unified", ADDABLE, to=WORDS),
)
"""What can be expressed, mostly: two of them together need not be."""


def _within(value: Any) -> list[Any]:
    return sorted(value) if isinstance(value, dict) else list(range(len(value)))


def _anywhere(numbers: list[int], value: Any, how: str) -> Edit:
    """Goes down by the numbers, and there sets, removes, inserts, or doubles."""

    def change(spec: Spec) -> None:
        target: Any = spec
        for number in numbers:
            inner = _within(target)
            child = target[inner[number % len(inner)]] if inner else None
            if not isinstance(child, dict | list):
                break
            target = child
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

    return change


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
