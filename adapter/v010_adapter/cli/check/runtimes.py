"""Checks what depends on the runtime, for each runtime on the node."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress

from nri.address import address
from nri.runtimes import Version, numbers
from v010_adapter.cli import systems
from v010_adapter.cli.check import nri
from v010_adapter.cli.check.report import NOTE, OK, PROBLEM, Item
from v010_adapter.cli.systems import CONTAINERD, CRIO, System
from v010_adapter.daemon import guard
from v010_adapter.errors import PluginError
from v010_adapter.host.mount_namespace import programs_namespace
from v010_adapter.host.paths import in_root
from v010_adapter.host.trust import off
from v010_adapter.legacy.config import Config, read
from v010_adapter.legacy.find import SYSTEM_PATH, Programs
from v010_adapter.legacy.sandboxes import is_runtimes_own, names_conf_json
from v010_adapter.settings import DEFAULT_CONF_JSON, Settings

DOCKER = (
    "Docker: it reports only the creation of containers, and refuses hooks: legacy plugins run at CreateContainer or"
    """ not at all; NRI is off by default, to switch it on: "nri-opts": {"enable": true} in /etc/docker/daemon.json"""
)
POD_UPDATES = {"UpdatePodSandbox", "PostUpdatePodSandbox"}
LEAKING: dict[Version, Version] = {(2, 0): (3,), (2, 1): (3,), (2, 2): (2, 2, 6), (2, 3): (2, 3, 3)}
"""The versions of containerd that leak a pod whose create fails, each with the first one that does not.

Sources: containerd issues 13355 and 13609; the release notes of 2.2.6 and 2.3.3. 2.0 and 2.1 have ended without it.
"""
LEAK = (
    "2.0 to 2.2.5 and 2.3.0 to 2.3.2 keep what they have made of a pod whose create fails, and may not start again"
    " after the pod's next try (failed to reserve sandbox name): upgrade to 2.2.6, 2.3.3 or 2.4, or set"
    " onFailure: ignore for plugins that run for pods"
)
EXECUTABLE = "/proc/{}/exe"
"""The program of a process."""
CONNECT_TIMEOUT = 2.0
"""Seconds within which a runtime accepts a connection."""
NOT_HELD = (
    "containers cannot be held while plugins take long: the runtime is in another PID namespace; a container needs"
    " hostPID (legacy.holdAfter)"
)
DEPRECATED = (
    f"2.2 to 2.4 warn io.containerd.deprecation/nri-v010-plugin, because they read {DEFAULT_CONF_JSON}, too: a list"
    " of the adapter's own silences it (legacy.config); nri-plugin-interface, since 2.3.4, is about other NRI plugins"
)
UNREADABLE = "all pods fail with containerd 2.0 to 2.4, which read it, too (unable to create nri client)"
FAIL_REQUEST = (
    "runtime.failRequest has no effect with an NRI older than 0.12.4:"
    " containerd 2.4 has 0.12.3, CRI-O 1.36 0.11, Docker 29 0.12.3"
)


def check(config: Settings, conf_json: Config, *, hooks: bool) -> Iterator[Item]:
    """Yields the results for the runtimes. `hooks` is whether any hooks are in force."""
    found = systems.present(config.host_root)
    exists = os.path.exists(config.socket)
    serves = exists and not _is_left_over(config.socket)
    if serves:
        yield Item(OK, "a runtime serves NRI here", config.socket)
    elif exists:
        yield Item(NOTE, "no process listens: no runtime serves NRI here", config.socket)
    elif systems.may_exist(config.socket):
        yield Item(PROBLEM, os.strerror(errno.EACCES), config.socket)
    else:
        yield Item(NOTE, "does not exist: no runtime serves NRI here", config.socket)
    if not found:
        sockets = ", ".join(dict.fromkeys(system.socket for system in systems.SYSTEMS))
        # A pod that does not see the node's root directory finds the NRI socket alone.
        yield Item(NOTE if serves else PROBLEM, f"no runtime is here, and no configuration of one: none of {sockets}")
    for system in found:
        yield from nri.check(system, config.host_root)
    own = in_root(config.host_root, DEFAULT_CONF_JSON)
    if any(system.runtime == CONTAINERD for system in found) and (error := read(own, off).error):
        yield Item(PROBLEM, f"{error}; {UNREADABLE}")
    for system in found:
        caveats = (
            text for runtime, text in _caveats(config, conf_json, system, hooks=hooks) if runtime == system.runtime
        )
        yield from (Item(NOTE, f"{system.name}: {text}") for text in caveats)
    if config.fail_request:
        yield Item(NOTE, FAIL_REQUEST)
    if conf_json.entries or hooks:
        for system in found:
            yield from nri.check_validator(system, config.host_root, hooks=hooks)
    if os.path.exists(in_root(config.host_root, systems.DOCKER_SOCKET)):
        yield Item(NOTE, DOCKER)


def _is_left_over(path: str) -> bool:
    """Whether the process that has made a socket has ended. Connects no stream: the runtime would wait for a plugin."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client, address(path) as short:
            client.connect(short)
    except OSError as error:
        return error.errno == errno.ECONNREFUSED  # EPROTOTYPE: somebody listens for streams (unix(7))
    return False


def _others(config: Settings, conf_json: Config) -> Iterator[str]:
    """Yields the plugins for which containerd runs another program than the adapter: it searches PATH first."""
    finder = Programs(config.legacy.path, config.legacy.environment, config.legacy.trust)
    for type_ in dict.fromkeys(entry.type for entry in conf_json.entries):
        path = programs_namespace.call(shutil.which, type_, os.X_OK, SYSTEM_PATH)
        try:
            own = finder.program(type_).path
        except PluginError:
            continue  # another part reports it
        if path and path != own:
            yield f"for pods it runs {path} as {type_}, not {own}: write the whole path into {config.legacy.config}"


def _pods(config: Settings, conf_json: Config, system: System) -> Iterator[str]:
    """Yields who runs the plugins in containerd's own conf.json for pods, as far as known without the version."""
    auto, always = "so the adapter leaves pods to it", "so with legacy.sandboxes: always they are run twice"
    result = auto if config.legacy.sandboxes == "auto" else always
    runs = f"from 2.0 on it runs the plugins there for pods itself, {result}"
    try:
        is_named = names_conf_json(_pid(config, system))
    except OSError as error:
        doubt = f"if its executable contains {DEFAULT_CONF_JSON} (here it cannot be read: {error.strerror or error})"
        yield f"{doubt}, {runs}"
        return
    if is_named:
        yield f"its executable contains {DEFAULT_CONF_JSON}: {runs}"
        yield from _others(config, conf_json)
    else:
        yield f"its executable does not contain {DEFAULT_CONF_JSON}: it runs no plugins for pods, the adapter does"


def _leak(config: Settings, system: System) -> str:
    """Returns what a failed create of a pod does to containerd, empty if it does no harm."""
    version = _version(config, system)
    found = numbers(version)
    if found and found >= LEAKING.get(found[:2], ()):
        return ""
    return f"{version and f'it is {version}: '}{LEAK}"


def _pid(config: Settings, system: System) -> int:
    """Returns the pid of the runtime that runs, 0 if it is in another PID namespace. Raises OSError."""
    path = in_root(config.host_root, system.socket)
    with socket.socket(socket.AF_UNIX) as client, address(path) as short:
        client.settimeout(CONNECT_TIMEOUT)
        client.connect(short)
        return guard.peer(client.fileno())


def _cannot_hold(config: Settings, system: System) -> bool:
    """Whether the adapter would not see the processes of containers, if it runs where this command runs."""
    with suppress(OSError):
        return config.legacy.hold_after is not None and _pid(config, system) == 0
    return False


def _version(config: Settings, system: System) -> str:
    """Returns the version of the runtime that runs, as its program prints it; empty if it cannot be asked."""
    try:
        line = [EXECUTABLE.format(_pid(config, system)), "--version"]
        done = subprocess.run(line, capture_output=True, text=True, timeout=CONNECT_TIMEOUT, check=False)  # noqa: S603
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""
    return next((word for word in done.stdout.split() if numbers(word)), "")


def _caveats(config: Settings, conf_json: Config, system: System, *, hooks: bool) -> Iterator[tuple[str, str]]:
    """Yields what to expect of runtimes: the runtime, and the text."""
    legacy = config.legacy
    if conf_json.entries and legacy.sandboxes != "never" and is_runtimes_own(legacy.config, config.host_root):
        yield from ((CONTAINERD, text) for text in _pods(config, conf_json, system))
        yield CONTAINERD, DEPRECATED
    if conf_json.entries and _cannot_hold(config, system):
        yield system.runtime, NOT_HELD
    fails = [legacy.plugins[entry.type].fail_create for entry in conf_json.entries if entry.type in legacy.plugins]
    if conf_json.entries and (legacy.fail_create or True in fails):
        if leak := _leak(config, system):
            yield CONTAINERD, leak
        yield CRIO, "a failed create fails a pod, but a container starts all the same, with a warning in its log"
    for name, plugin in legacy.plugins.items():
        for event in sorted(POD_UPDATES.intersection(plugin.events or ())):
            needs = f"the plugin {name} needs a newer one for its events"
            yield CONTAINERD, f"before 2.3 it tells the adapter no {event}: {needs}"
            yield CRIO, f"up to 1.36 it tells the adapter no {event}: {needs}"
    if hooks and config.hooks.enabled is None:
        yield CRIO, "it injects hooks itself, so the adapter does not (hooks.enabled: auto)"
    elif hooks:
        yield CRIO, "it injects the hooks of its own hooks_dir, too; hooks that are in both are injected twice"
