"""Patterns for keys that runtimes and the kubelet add to containers, and that other runtimes do not add."""

from __future__ import annotations

from collections.abc import Collection

from v010_adapter.hooks.keys import ALL, CONTAINERD, CRIO, PREFIXES, SAME
from v010_adapter.hooks.patterns import compiled


def may_be_added(pattern: str) -> bool:
    """Whether a valid pattern matches a key that runtimes or the kubelet add."""
    return any(map(compiled(pattern).search, ALL))


def runtimes_of(annotations: Collection[str]) -> list[str]:
    """Returns the runtimes that may have added one of these keys. If none has, it may be any runtime."""
    found = [name for name, prefix in PREFIXES.items() if any(key.startswith(prefix) for key in annotations)]
    return found or list(PREFIXES)


def foreign(pattern: str, runtimes: Collection[str]) -> str:
    """Returns a sentence if a valid pattern matches keys of one runtime only, and one of `runtimes` is another one."""
    search = compiled(pattern).search
    of_containerd, of_crio = ([pair for pair in SAME if search(pair[column])] for column in (0, 1))
    if of_containerd and not of_crio and CRIO in runtimes:
        return f"{of_containerd[0][0]} is a key of {CONTAINERD}; {CRIO} has {of_containerd[0][1]}"
    if of_crio and not of_containerd and CONTAINERD in runtimes:
        return f"{of_crio[0][1]} is a key of {CRIO}; {CONTAINERD} has {of_crio[0][0]}"
    return ""
