"""Checks the runtimes' configuration of NRI, with drop-ins: whether NRI is on, which adapters may join, the validator.

NRI's default validator decides whether a runtime creates containers without the adapter.
"""

from __future__ import annotations

import errno
import os
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from glob import glob
from typing import Any, NamedTuple

from v010_adapter.cli import systems
from v010_adapter.cli.check import configuration
from v010_adapter.cli.check.report import NOTE, OK, PROBLEM, Item
from v010_adapter.cli.systems import System
from v010_adapter.errors import ConfigError
from v010_adapter.host import paths
from v010_adapter.host.paths import in_root

NRI = "io.containerd.nri.v1.nri"
ON_BY_DEFAULT = 3
"""The version of configuration files that only containerd 2 reads. In containerd 2, NRI is on by default."""
_WRONG_TYPE = "a value has the wrong type"
_TIMEOUTS = ("plugin_registration_timeout", "plugin_request_timeout")


class Settings(NamedTuple):
    """The names of a runtime's settings of NRI."""

    table: tuple[str, str]
    switch: str
    on: bool
    connections: str
    plugins: str
    timeouts: tuple[str, ...]
    default: str
    """Whether NRI is on if the setting is absent."""
    hint: str
    """What switches NRI on."""
    drop_in: str
    """The name of a drop-in."""
    text: str
    """The text of a drop-in. It names no version: so all versions of containerd read it, and k0s from 1.36 on, too."""
    since: str
    """The first version with the default validator."""
    validator: tuple[str, str, str]
    """The keys of the default validator that decide."""


SETTINGS = {
    systems.CONTAINERD: Settings(
        ("plugins", NRI),
        *("disable", False, "disable_connections", "plugin_path", _TIMEOUTS),
        "on since containerd 2.0, off in 1.7",
        f"disable = false under [plugins.'{NRI}']",
        "99-nri.toml",
        f"[plugins.'{NRI}']\n  disable = false\n",
        "2.2",
        ("required_plugins", "enable", "reject_oci_hook_adjustment"),
    ),
    systems.CRIO: Settings(
        ("crio", "nri"),
        *("enable_nri", True, "nri_disable_connections", "nri_plugin_dir", tuple(f"nri_{name}" for name in _TIMEOUTS)),
        "on since CRI-O 1.30, off before",
        "enable_nri = true under [crio.nri]",
        "99-nri.conf",
        "[crio.nri]\n  enable_nri = true\n",
        "1.36",
        ("nri_validator_required_plugins", "nri_enable_default_validator", "nri_validator_reject_oci_hook_adjustment"),
    ),
}


def main_file(system: System, host_root: str) -> str:
    """Returns a runtime's configuration: the first file that exists, else the usual one."""
    return next((file for file in system.config if systems.exists(host_root, file)), system.config[0])


def drop_in(system: System, host_root: str) -> str:
    """Returns the drop-in that switches NRI on, empty if the runtime reads none. Raises ConfigError.

    containerd reads drop-ins in the directories that its configuration imports. In containerd 1.7, the table in a
    drop-in replaces the whole table of NRI. So there must be no drop-in if that table has other keys.
    """
    main, directories = main_file(system, host_root), system.drop_ins
    if system.runtime == systems.CONTAINERD:
        config = _load(main, host_root) if systems.exists(host_root, main) else {}
        imports = _imports(system, host_root, main, config)
        others = _nri(main, config, SETTINGS[system.runtime])[0].keys() - {"disable"}
        if others and _version(main, config) < ON_BY_DEFAULT:
            return ""
        directories = tuple(one for one in directories if any(fnmatch(f"{one}/x.toml", each) for each in imports))
    return "".join(f"{directory}/{SETTINGS[system.runtime].drop_in}" for directory in directories[:1])


def hint(system: System, host_root: str) -> str:
    """Returns what switches NRI on, and where an administrator sets it. Raises ConfigError."""
    text, file = SETTINGS[system.runtime].hint, drop_in(system, host_root)
    if file:
        return f"{text} in {file}"
    return text if main_file(system, host_root) == system.editable else f"{text}, {system.by_hand}"


def obstacle(system: System, host_root: str) -> str:
    """Returns which setting keeps the adapter out whatever a drop-in or the configuration says. Raises ConfigError."""
    own, main, settings = SETTINGS[system.runtime], main_file(system, host_root), read(system, host_root)
    if settings.get(own.connections) is True:
        return f"{own.connections} keeps the adapter from joining"
    is_writable = main == system.editable or drop_in(system, host_root)
    for file, config in _files(system, host_root) if is_writable and not is_on(system, settings) else ():
        its, is_disabled = _nri(file, config, own)
        if is_disabled:
            return f"disabled_plugins in {file} switches NRI off"
        if file != main and its.get(own.switch, own.on) is not own.on:
            return f"{own.switch} in {file} switches NRI off"
    return ""


def is_on(system: System, settings: dict[str, Any]) -> bool | None:
    """Whether these settings switch NRI on; None if the runtime's version decides."""
    own = SETTINGS[system.runtime]
    value = settings.get(own.switch)
    return None if value is None else value is own.on


def check(system: System, host_root: str) -> Iterator[Item]:
    """Yields whether NRI is on in a runtime, how to switch it on, and what keeps adapters from joining."""
    name, own, file = system.name, SETTINGS[system.runtime], main_file(system, host_root)
    try:
        settings, how, reason = read(system, host_root), hint(system, host_root), obstacle(system, host_root)
        misplaced = [(path, key) for path, config in _files(system, host_root) for key in _misplaced(config, own)]
    except ConfigError as error:
        denied = error.reason == os.strerror(errno.EACCES)
        yield Item(
            PROBLEM, f"{name}: {error.reason}" if denied else f"{error.reason}: {name} may not start", error.place
        )
        return
    on, directory = is_on(system, settings), settings.get(own.plugins) or configuration.PLUGINS
    if on is None:
        absent = "" if systems.exists(host_root, file) else " there is no such file;"
        yield Item(NOTE, f"{name}:{absent} NRI is {own.default}; to switch it on: {how}", file)
    elif on:
        yield Item(OK, f"{name}: NRI is on", file)
    else:
        yield Item(PROBLEM, f"{name}: " + (reason or f"NRI is off; to switch it on: {how}"), file)
    if settings.get(own.connections) is True:
        text = "only a launched adapter can join, and it cannot join again"
        yield Item(NOTE, f"{name}: {own.connections} is set: {text}", file)
    if directory != configuration.PLUGINS:
        text = f"{name}: it launches the plugins in {directory}, not in {configuration.PLUGINS}"
        if configuration.launched(host_root):
            yield Item(PROBLEM, f"{text}, where the adapter is", file)
        else:
            yield Item(NOTE, text, file)
    for path, key in misplaced:
        right = next(one for one in own.timeouts if one.endswith(key.rpartition(".")[2].removeprefix("nri_")))
        yield Item(PROBLEM, f"{name}: it ignores {key}; it reads {right} in [{_table(own.table)}]", path)


def check_validator(system: System, host_root: str, *, hooks: bool) -> Iterator[Item]:
    """Yields the results on the validator, none if the files cannot be read. `hooks`: whether hooks are in force."""
    try:
        settings = read(system, host_root)["default_validator"]
    except ConfigError:  # `check` reports it
        return
    own, runtime = SETTINGS[system.runtime], system.name
    file, (required, enable, reject) = main_file(system, host_root), own.validator
    if hooks and settings.get(enable) is True and settings.get(reject) is True:
        yield Item(PROBLEM, f"{runtime}: default_validator.{reject} fails every container that gets a hook", file)
    also_created = f"{runtime}: containers are also created while the adapter is missing: default_validator"
    listed = settings.get(required)
    if not isinstance(listed, list) or not any(name in listed for name in configuration.names(host_root)):
        yield Item(NOTE, f"{also_created}.{required} does not list it", file)
    elif settings.get(enable) is not True:
        yield Item(NOTE, f"{also_created}.{enable} is not true", file)
    else:
        its = "" if runtime == system.runtime else f"{runtime}: "
        text = f"{its}{system.runtime} >= {own.since} creates no container while the adapter is missing"
        yield Item(OK, text, file)


def _table(keys: tuple[str, ...]) -> str:
    """Returns the name of a table in TOML's syntax."""
    return ".".join(f"'{key}'" if "." in key else key for key in keys)


def _misplaced(table: dict[str, Any], runtime: Settings, *at: str) -> Iterator[str]:
    """Yields the keys that look like NRI's timeouts, but are where the runtime does not read them."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _misplaced(value, runtime, *at, key)
        elif key.endswith(_TIMEOUTS) and (at != runtime.table or key not in runtime.timeouts):
            yield _table((*at, key))


def read(system: System, host_root: str) -> dict[str, Any]:
    """Returns a runtime's table of NRI, with containerd's table `default_validator`. Raises ConfigError.

    In containerd, `disabled_plugins` accumulates (containerd, cmd/containerd/server/config, mergeConfig).
    """
    settings: dict[str, Any] = {"default_validator": {}}
    is_disabled, version = False, 0
    for file, config in _files(system, host_root):
        its, disables = _nri(file, config, SETTINGS[system.runtime])
        is_disabled, version = is_disabled or disables, max(version, _version(file, config))
        try:
            settings = _merged(settings, its)
        except TypeError:
            raise ConfigError(file, _WRONG_TYPE) from None
    if is_disabled:
        settings["disable"] = True
    elif version >= ON_BY_DEFAULT:
        settings.setdefault("disable", False)
    return settings


def _nri(file: str, config: dict[str, Any], own: Settings) -> tuple[dict[str, Any], bool]:
    """Returns the table of NRI in one file, and whether `disabled_plugins` disables it there. Raises ConfigError."""
    try:
        first, second = own.table
        return dict(config.get(first, {}).get(second, {}).items()), NRI in config.get("disabled_plugins", [])
    except (AttributeError, TypeError):
        raise ConfigError(file, _WRONG_TYPE) from None


def _version(file: str, config: dict[str, Any]) -> int:
    version = config.get("version", 0)
    if not isinstance(version, int):
        raise ConfigError(file, _WRONG_TYPE)
    return version


def _files(system: System, host_root: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields a runtime's files and what is in them: a later file overrides.

    CRI-O reads all files below its drop-in directory (cri-o, pkg/config, UpdateFromPath). containerd reads imported
    files last (containerd, cmd/containerd/server/config, LoadConfigWithPlugins). `containerd config default` prints an
    import of `conf.d`. It counts only if an administrator has written it to the file.
    """
    main = main_file(system, host_root)
    files = [main] if systems.exists(host_root, main) else []
    is_containerd = system.runtime == systems.CONTAINERD
    for directory in () if is_containerd else system.drop_ins:
        below = sorted(glob("**", root_dir=in_root(host_root, directory), recursive=True, include_hidden=True))
        paths_below = (f"{directory}/{one}" for one in below)
        files += [file for file in paths_below if os.path.isfile(in_root(host_root, file))]
    for file in files:  # the list grows
        config = _load(file, host_root)
        patterns = [path.lstrip("/") for path in _imports(system, host_root, file, config)] if is_containerd else []
        yield file, config
        found = [f"/{one}" for path in patterns for one in glob(path, root_dir=host_root, include_hidden=True)]
        files += [one for one in sorted(found) if one not in files]


def _imports(system: System, host_root: str, file: str, config: dict[str, Any]) -> list[str]:
    """Returns the patterns of files that a configuration of containerd imports. Raises ConfigError."""
    try:
        imports = [os.path.join(os.path.dirname(file), path) for path in config.get("imports", [])]
    except TypeError:
        raise ConfigError(file, _WRONG_TYPE) from None
    is_marked = system.marker and (paths.read_text(in_root(host_root, file)) or "").startswith(system.marker)
    return [*imports, *(f"{directory}/*.toml" for directory in system.drop_ins if is_marked)]


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
