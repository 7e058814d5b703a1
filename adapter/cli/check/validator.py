"""Checks the settings of NRI's default validator: whether a runtime creates containers without the adapter."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from adapter.cli.check import nri
from adapter.cli.check.report import NOTE, OK, PROBLEM, Item
from adapter.errors import ConfigError

_KEYS = {
    "containerd": ("2.2", "required_plugins", "enable", "reject_oci_hook_adjustment"),
    "CRI-O": (
        "1.36",
        "nri_validator_required_plugins",
        "nri_enable_default_validator",
        "nri_validator_reject_oci_hook_adjustment",
    ),
}
"""For each runtime: its first version with the validator, and the keys of default_validator that decide."""


def check(runtime: str, host_root: str, names: Collection[str], *, hooks: bool) -> Iterator[Item]:
    """Yields the results for a runtime's configuration, none if it cannot be read.

    `names` are the adapter's names in a validator. `hooks` is whether any hooks are in force.
    """
    try:
        settings = nri.read(runtime, host_root)["default_validator"]
    except ConfigError:  # nri.check reports it
        return
    (since, required, enable, reject), file = _KEYS[runtime], nri.main_file(runtime)
    if hooks and settings.get(enable) is True and settings.get(reject) is True:
        yield Item(PROBLEM, f"{runtime}: default_validator.{reject} fails every container that gets a hook", file)
    also_created = f"{runtime}: containers are also created while the adapter is missing: default_validator"
    listed = settings.get(required)
    if not isinstance(listed, list) or not any(name in listed for name in names):
        yield Item(NOTE, f"{also_created}.{required} does not list it", file)
    elif settings.get(enable) is not True:
        yield Item(NOTE, f"{also_created}.{enable} is not true", file)
    else:
        yield Item(OK, f"{runtime} >= {since} creates no container while the adapter is missing", file)
