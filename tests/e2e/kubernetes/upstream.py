"""Upstream's two plugins on the node, made of what upstream's are made of: their own modules are not published."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.e2e.runtimes import PATH
from tests.peers.build import peer
from tests.peers.hook_cases import PACKAGE as PODMANS_HOOKS

from .node import CONF, install, shell

HOOKS = "/etc/containers/oci/hooks.d"
PROGRAMS = {"00-v010-adapter": ("reference",), "10-hook-injector": ("hookplugin", PODMANS_HOOKS)}
"""What peers they are, by their names in the plugin directory."""


def programs() -> list[Path]:
    """Returns their executables."""
    return [peer(*names) for names in PROGRAMS.values()]


def launch(settings: Mapping[str, dict[str, Any]]) -> None:
    """Has containerd launch some of them. Their settings stand for what is constant in upstream's."""
    files = {name: f"/etc/nri/conf.d/{name}.conf" for name in settings}
    for name, file in files.items():
        install(file, json.dumps(settings[name]), "644")
        shell(f"ln -s {peer(*PROGRAMS[name])} /opt/nri/plugins/{name}")
    shell(f"systemctl restart containerd; rm {' '.join(files.values())}")


def remove(*names: str) -> None:
    """Removes some of them."""
    shell(f"cd /opt/nri/plugins; rm {' '.join(names)}; systemctl restart containerd")


def conf(path: str = "/etc/nri/conf.json") -> dict[str, str]:
    """Returns the settings of the adapter."""
    return {"config": path, "path": f"/opt/nri/bin:{PATH}"}


def conf_elsewhere() -> dict[str, str]:
    """Returns the settings of the adapter for a list that containerd does not see: it would run the plugins, too."""
    path = "/etc/nri/legacy.json"
    install(path, json.dumps(CONF), "644")
    return conf(path)
