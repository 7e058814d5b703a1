"""Whether containerd creates containers while the adapter is missing: its settings of NRI's default validator."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from adapter.check import nri
from adapter.check.report import NOTE, OK, Entry
from adapter.errors import ConfigError


def check(host_root: str, names: Collection[str]) -> Iterator[Entry]:
    """Yields the entry on containerd's configuration, none if that cannot be read.

    `names` are those by which a validator knows the adapter.
    """
    try:
        settings = nri.read("containerd", host_root)["default_validator"]
    except ConfigError:  # nri.check tells
        return
    required, also_created = (
        settings.get("required_plugins"),
        "containers are also created while the adapter is missing",
    )
    if not isinstance(required, list) or not any(name in required for name in names):
        yield Entry(NOTE, f"{also_created}: default_validator.required_plugins does not list it", nri.CONTAINERD)
    elif settings.get("enable") is not True:
        yield Entry(NOTE, f"{also_created}: default_validator.enable is not true", nri.CONTAINERD)
    else:
        text = "containerd >= 2.2 creates no container while the adapter is missing"
        yield Entry(OK, text, nri.CONTAINERD)
