"""What depends on the runtime. None is asked: what is said is about those that run here, or else about all."""

from __future__ import annotations

import os
from collections.abc import Iterator

from adapter.check.program import under
from adapter.check.report import NOTE, OK, Entry
from adapter.legacy.config import Config
from adapter.settings import DEFAULT_CONF_JSON, Settings

NRI_SOCKET = "/var/run/nri/nri.sock"
SOCKETS = {"containerd": "/run/containerd/containerd.sock", "CRI-O": "/run/crio/crio.sock"}


def check(own: Settings, conf: Config, *, hooks: bool) -> Iterator[Entry]:
    """Yields what is to be expected; `conf` is what legacy plugins there are, `hooks` whether there are any."""
    present = [name for name, socket in SOCKETS.items() if os.path.exists(under(own.host_root, socket))]
    if os.path.exists(under(own.host_root, NRI_SOCKET)):
        yield Entry(OK, "a runtime serves NRI here", NRI_SOCKET)
    else:
        yield Entry(NOTE, "not there: no runtime serves NRI here (containerd 1.7 has it off by default)", NRI_SOCKET)
    for runtime, caveat in _caveats(own, conf, hooks=hooks):
        if runtime in (present or SOCKETS):
            yield Entry(NOTE, f"{runtime}: {caveat}")
    if hooks:
        yield Entry(NOTE, "a runtime whose reject_oci_hook_adjustment is set fails every container that gets a hook")


def _caveats(own: Settings, conf: Config, *, hooks: bool) -> Iterator[tuple[str, str]]:
    legacy = own.legacy
    does = f"from 2.0 on it runs the plugins of {DEFAULT_CONF_JSON} for pods itself"
    if conf.entries and _is_runtimes_own(own):
        if legacy.sandboxes == "auto":
            yield "containerd", f"{does}, so the adapter leaves pods to it"
        elif legacy.sandboxes == "always":
            yield "containerd", f"{does}; with legacy.sandboxes: always they are run twice"
    fails = [legacy.plugins[entry.type].fail_create for entry in conf.entries if entry.type in legacy.plugins]
    if conf.entries and (legacy.fail_create or True in fails):
        yield "CRI-O", "a failed create fails a pod, but a container starts all the same, with a warning in its log"
    if hooks and own.hooks.enabled is None:
        yield "CRI-O", "it injects hooks itself, so the adapter does not there (hooks.enabled: auto)"
    elif hooks:
        yield "CRI-O", "it injects the hooks of its own hooks_dir itself; what is in both is injected twice"


def _is_runtimes_own(own: Settings) -> bool:
    try:
        return os.path.samefile(own.legacy.config, under(own.host_root, DEFAULT_CONF_JSON))
    except OSError:
        return False
