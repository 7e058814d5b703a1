"""Checks the runtimes' configuration of NRI, with drop-ins: whether NRI is on, which adapters may join, the validator.

NRI's default validator decides whether a runtime creates containers without the adapter.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Collection, Iterator
from glob import glob
from typing import Any, NamedTuple

from adapter.cli.check import configuration
from adapter.cli.check.report import NOTE, OK, PROBLEM, Item
from adapter.errors import ConfigError
from adapter.host import paths
from adapter.host.paths import in_root

NRI = "io.containerd.nri.v1.nri"
ON_BY_DEFAULT = 3
"""The version of configuration files that only containerd 2 reads. In containerd 2, NRI is on by default."""
_TIMEOUTS = ("plugin_registration_timeout", "plugin_request_timeout")


class Runtime(NamedTuple):
    """A runtime of nodes: where its parts are, and the names of its settings of NRI."""

    socket: str
    service: str
    """Its unit of systemd."""
    places: tuple[str, ...]
    """Its main configuration file, and its drop-ins. At least one exists, unless the runtime uses all defaults."""
    table: tuple[str, str]
    switch: str
    on: bool
    connections: str
    plugins: str
    timeouts: tuple[str, ...]
    default: str
    """Whether NRI is on if the setting is absent."""
    hint: str
    """How to switch NRI on."""
    since: str
    """The first version with the default validator."""
    validator: tuple[str, str, str]
    """The keys of the default validator that decide."""


RUNTIMES = {
    "containerd": Runtime(
        "/run/containerd/containerd.sock",
        "containerd",
        ("/etc/containerd/config.toml",),
        ("plugins", NRI),
        *("disable", False, "disable_connections", "plugin_path", _TIMEOUTS),
        "on since containerd 2.0, off in 1.7",
        f"disable = false under [plugins.'{NRI}']",
        "2.2",
        ("required_plugins", "enable", "reject_oci_hook_adjustment"),
    ),
    "CRI-O": Runtime(
        "/run/crio/crio.sock",
        "crio",
        ("/etc/crio/crio.conf", "/etc/crio/crio.conf.d"),
        ("crio", "nri"),
        *("enable_nri", True, "nri_disable_connections", "nri_plugin_dir", tuple(f"nri_{name}" for name in _TIMEOUTS)),
        "on since CRI-O 1.30, off before",
        "enable_nri = true under [crio.nri], for example in /etc/crio/crio.conf.d/10-nri.conf",
        "1.36",
        ("nri_validator_required_plugins", "nri_enable_default_validator", "nri_validator_reject_oci_hook_adjustment"),
    ),
}


def present(host_root: str) -> Collection[str]:
    """Returns the names of a node's runtimes: those whose sockets exist, else those that have a configuration."""

    def exists(place: str) -> bool:
        return os.path.exists(in_root(host_root, place))

    running = [name for name, runtime in RUNTIMES.items() if exists(runtime.socket)]
    return running or [name for name, runtime in RUNTIMES.items() if any(map(exists, runtime.places))]


def check(name: str, host_root: str) -> Iterator[Item]:
    """Yields whether NRI is on in a runtime, how to switch it on, and what prevents adapters from joining."""
    runtime, file = RUNTIMES[name], RUNTIMES[name].places[0]
    try:
        settings = read(name, host_root)
        misplaced = [(path, key) for path, config in _files(name, host_root) for key in _misplaced(config, runtime)]
    except ConfigError as error:
        yield Item(PROBLEM, f"{error.reason}: {name} may not start", error.place)
        return
    switch, directory = settings.get(runtime.switch), settings.get(runtime.plugins) or configuration.PLUGINS
    if switch is None:
        yield Item(NOTE, f"{name}: NRI is {runtime.default}; to switch it on: {runtime.hint}", file)
    elif switch is runtime.on:
        yield Item(OK, f"{name}: NRI is on", file)
    else:
        yield Item(PROBLEM, f"{name}: NRI is off; to switch it on: {runtime.hint}", file)
    if settings.get(runtime.connections) is True:
        text = "only a launched adapter can join, and it cannot join again"
        yield Item(NOTE, f"{name}: {runtime.connections} is set: {text}", file)
    if directory != configuration.PLUGINS:
        yield Item(NOTE, f"{name}: it launches the plugins in {directory}, not in {configuration.PLUGINS}", file)
    for path, key in misplaced:
        right = next(own for own in runtime.timeouts if own.endswith(key.rpartition(".")[2].removeprefix("nri_")))
        yield Item(PROBLEM, f"{name}: it ignores {key}; it reads {right} in [{_table(runtime.table)}]", path)


def check_validator(runtime: str, host_root: str, *, hooks: bool) -> Iterator[Item]:
    """Yields the results on the validator, none if the files cannot be read. `hooks`: whether hooks are in force."""
    try:
        settings = read(runtime, host_root)["default_validator"]
    except ConfigError:  # `check` reports it
        return
    own = RUNTIMES[runtime]
    file, (required, enable, reject) = own.places[0], own.validator
    if hooks and settings.get(enable) is True and settings.get(reject) is True:
        yield Item(PROBLEM, f"{runtime}: default_validator.{reject} fails every container that gets a hook", file)
    also_created = f"{runtime}: containers are also created while the adapter is missing: default_validator"
    listed = settings.get(required)
    if not isinstance(listed, list) or not any(name in listed for name in configuration.names(host_root)):
        yield Item(NOTE, f"{also_created}.{required} does not list it", file)
    elif settings.get(enable) is not True:
        yield Item(NOTE, f"{also_created}.{enable} is not true", file)
    else:
        yield Item(OK, f"{runtime} >= {own.since} creates no container while the adapter is missing", file)


def _table(keys: tuple[str, ...]) -> str:
    """Returns the name of a table in TOML's syntax."""
    return ".".join(f"'{key}'" if "." in key else key for key in keys)


def _misplaced(table: dict[str, Any], runtime: Runtime, *at: str) -> Iterator[str]:
    """Yields the keys that look like NRI's timeouts, but are where the runtime does not read them."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _misplaced(value, runtime, *at, key)
        elif key.endswith(_TIMEOUTS) and (at != runtime.table or key not in runtime.timeouts):
            yield _table((*at, key))


def read(name: str, host_root: str) -> dict[str, Any]:
    """Returns a runtime's table of NRI, with containerd's table `default_validator`. Raises ConfigError.

    In containerd, `disabled_plugins` accumulates (containerd, cmd/containerd/server/config, mergeConfig).
    """
    settings: dict[str, Any] = {"default_validator": {}}
    is_disabled, version = False, 0
    for file, config in _files(name, host_root):
        try:
            is_disabled = is_disabled or NRI in config.get("disabled_plugins", [])
            version = max(version, config.get("version", 0))
            first, second = RUNTIMES[name].table
            settings = _merged(settings, config.get(first, {}).get(second, {}))
        except (AttributeError, TypeError):
            raise ConfigError(file, "a value has the wrong type") from None
    if is_disabled:
        settings["disable"] = True
    elif version >= ON_BY_DEFAULT:
        settings.setdefault("disable", False)
    return settings


def _files(name: str, host_root: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields a runtime's files and what is in them: a later file overrides.

    CRI-O reads all files below its drop-in directory (cri-o, pkg/config, UpdateFromPath). containerd reads imported
    files last (containerd, cmd/containerd/server/config, LoadConfigWithPlugins). `containerd config default` prints an
    import of `conf.d`. It counts only if an administrator has written it to the file.
    """
    main, *drop_ins = RUNTIMES[name].places
    files = [main] if os.path.exists(in_root(host_root, main)) else []
    for directory in drop_ins:
        below = sorted(glob("**", root_dir=in_root(host_root, directory), recursive=True, include_hidden=True))
        paths_below = (f"{directory}/{one}" for one in below)
        files += [file for file in paths_below if os.path.isfile(in_root(host_root, file))]
    for file in files:  # the list grows
        config = _load(file, host_root)
        try:
            imports = config.get("imports", []) if name == "containerd" else []
            patterns = [os.path.join(os.path.dirname(file), path).lstrip("/") for path in imports]
        except TypeError:
            raise ConfigError(file, "a value has the wrong type") from None
        yield file, config
        found = [f"/{one}" for path in patterns for one in glob(path, root_dir=host_root, include_hidden=True)]
        files += [one for one in sorted(found) if one not in files]


def _load(file: str, host_root: str) -> dict[str, Any]:
    try:
        return tomllib.loads(paths.text(paths.read(in_root(host_root, file), paths.MAX_INPUT)[0], file))
    except RecursionError:
        raise ConfigError(file, "nested too deeply") from None
    except (OSError, ValueError) as error:
        raise ConfigError(file, getattr(error, "strerror", None) or str(error)) from None


def _merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Returns a table with the values of a later one. Raises TypeError if a value is a table in only one of them."""
    merged = dict(old)
    for name, value in new.items():
        before = old.get(name, value)
        if isinstance(before, dict) != isinstance(value, dict):
            raise TypeError(name)
        merged[name] = _merged(before, value) if isinstance(value, dict) else value
    return merged
