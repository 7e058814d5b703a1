"""Whether containerd creates containers while the adapter is missing: its settings of NRI's default validator."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Collection
from glob import glob
from typing import Any

from adapter.check.program import under
from adapter.check.report import NOTE, OK, Entry
from adapter.errors import ConfigError

CONFIG = "/etc/containerd/config.toml"
NRI = "io.containerd.nri.v1.nri"


def check(host_root: str, names: Collection[str]) -> Entry:
    """Returns the entry on containerd's configuration; `names` are those by which a validator knows the adapter."""
    try:
        settings = _read(host_root)
    except ConfigError as error:
        return Entry(NOTE, error.reason, error.place)
    required = settings.get("required_plugins")
    if not isinstance(required, list) or not any(name in required for name in names):
        missing = "required_plugins does not list it"
    elif settings.get("enable") is not True:
        missing = "enable is not true"
    else:
        return Entry(OK, "containerd >= 2.2 creates no container while the adapter is missing", CONFIG)
    return Entry(NOTE, f"containers are also created while the adapter is missing: default_validator.{missing}", CONFIG)


def _read(host_root: str) -> dict[str, Any]:
    """Returns the validator's table, empty without a file. Raises ConfigError.

    Files that are imported come later and override (containerd, cmd/containerd/server/config, LoadConfigWithPlugins).
    """
    settings: dict[str, Any] = {}
    files = [CONFIG] if os.path.exists(under(host_root, CONFIG)) else []
    for file in files:  # the list grows
        try:
            with open(under(host_root, file), "rb") as opened:
                table = tomllib.load(opened)
            settings.update(**table.get("plugins", {}).get(NRI, {}).get("default_validator", {}))
            patterns = [os.path.join(os.path.dirname(file), path).lstrip("/") for path in table.get("imports", [])]
        except (OSError, ValueError) as error:
            raise ConfigError(file, getattr(error, "strerror", None) or str(error)) from None
        except (AttributeError, TypeError):
            raise ConfigError(file, "a value has the wrong type") from None
        found = [f"/{name}" for path in patterns for name in glob(path, root_dir=host_root, include_hidden=True)]
        files += [name for name in sorted(found) if name not in files]
    return settings
