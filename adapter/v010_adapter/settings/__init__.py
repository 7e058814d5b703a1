"""The adapter's configuration: YAML, in which every key is optional. Errors name the file, the line and the key."""

from __future__ import annotations

import errno
import logging
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from nri import DEFAULT_SOCKET
from v010_adapter.errors import ConfigError, reason_of, unknown, yaml_error
from v010_adapter.host import paths
from v010_adapter.host.mount_namespace import OWN
from v010_adapter.host.trust import Trust, judge, strict
from v010_adapter.settings.schema import DEFAULT_CONF_JSON as DEFAULT_CONF_JSON
from v010_adapter.settings.schema import FIELDS
from v010_adapter.settings.schema import MAX_TIMEOUT as MAX_TIMEOUT
from v010_adapter.settings.schema import RELOADED as RELOADED
from v010_adapter.settings.schema import SCHEMA as SCHEMA

if TYPE_CHECKING:
    import yaml

log = logging.getLogger(__name__)

DEFAULT_PATH = "/etc/nri/v010-adapter.yaml"
MAX_SIZE = 64 << 10
"""Maximum bytes of a configuration: the daemon reads it at its start, while a runtime waits, and PyYAML is slow."""
MAX_LEVELS = 20
"""Maximum levels of mappings and lists: PyYAML's time for each token grows with them."""


class PluginSettings(NamedTuple):
    """The settings of one legacy plugin. None means that the setting in `legacy:` counts. Times are in seconds."""

    fail_create: bool | None = None
    fail_delete: bool | None = None
    timeout: float | None = None
    kill_on_timeout: bool | None = None
    events: frozenset[str] | None = None
    standby: int | None = None


class LegacySettings(NamedTuple):
    """The settings in `legacy:`, and `trust`, which decides whether a file may be used. Times are in seconds.

    `config` is empty if the key has an error: the default list must not run in place of the configured one.
    `hold_after` is None if no container is held, and infinite if one is held when the time of its event is up.
    """

    config: str = DEFAULT_CONF_JSON
    path: tuple[str, ...] = ("/opt/nri/bin",)
    sandboxes: str = "auto"
    fail_create: bool = True
    fail_delete: bool = False
    timeout: float = 0
    kill_on_timeout: bool = False
    late_limit: float = 30
    hold_after: float | None = math.inf
    hold_limit: float = 30
    hold_at_once: int = 32
    exempt: frozenset[str] = frozenset()
    environment: Mapping[str, str] = {}
    metadata_prefix: str = ""
    standby: int = 0
    standby_max_age: float = 300
    plugins: Mapping[str, PluginSettings] = {}
    trust: Trust = strict

    def of(self, type_: str, name: str) -> Any:
        """Returns the setting `name` of a plugin: its own, else the one for all plugins."""
        own = getattr(self.plugins.get(type_), name, None)
        return getattr(self, name) if own is None else own


class HookFileSettings(NamedTuple):
    """The settings of one hook file. None means that the setting in `hooks:` counts."""

    not_in: frozenset[str] | None = None


class HooksSettings(NamedTuple):
    """The settings in `hooks:`, `trust`, which decides whether a file may be used, and `watch` of the command line.

    `enabled` is None if the runtime decides. `precreate`: whether precreate hooks run. `fail_create`: whether a
    container fails when a precreate hook fails. `standby`: how many processes of each precreate hook stand by.
    `timeout`: the seconds of a hook whose file has no timeout, 0 for no limit. `output`: where what hooks print goes.
    `not_in`: the namespaces whose containers get no hooks. `files`: the settings of hook files, by their names.
    `pod_annotations`: whether a container gets the pod's annotations for which it gets hooks.
    """

    enabled: bool | None = None
    directories: tuple[str, ...] = ("/usr/share/containers/oci/hooks.d", "/etc/containers/oci/hooks.d")
    watch: bool = True
    precreate: bool = False
    fail_create: bool = True
    standby: int = 0
    timeout: int = 0
    output: str = "runtime"
    not_in: frozenset[str] = frozenset()
    files: Mapping[str, HookFileSettings] = {}
    pod_annotations: bool = False
    trust: Trust = strict

    def not_in_of(self, file: str) -> frozenset[str]:
        """Returns the namespaces without the hook of a file: the file's own setting, else the one for all files."""
        own = self.files[file].not_in if file in self.files else None
        return self.not_in if own is None else own


class LogSettings(NamedTuple):
    """The settings in `log:`. `secrets`: whether values of containers' variables are logged at level debug.

    `runs`: whether each run of a program has a line at level info.
    """

    level: str = "info"
    format: str = "text"
    target: str = "auto"
    secrets: bool = False
    runs: bool = False


class Settings(NamedTuple):
    """The whole configuration. `file` is the path of the file that it comes from, empty without one."""

    file: str = ""
    host_root: str = "/"
    mount_namespace: str = OWN
    legacy: LegacySettings = LegacySettings()
    hooks: HooksSettings = HooksSettings()
    log: LogSettings = LogSettings()
    fail_request: bool = False
    socket: str = DEFAULT_SOCKET
    reserve: float | None = None
    state_directory: str = ""
    state_owner: str = ""
    metrics_listen: tuple[str, ...] = ()


Read: TypeAlias = Callable[[], tuple[Settings, list[ConfigError]]]
"""Reads a configuration; returns the settings and the errors."""

_KEYS = {
    "host_root": "hostRoot",
    "mount_namespace": "mountNamespace",
    "fail_request": "runtime.failRequest",
    "socket": "runtime.socket",
    "reserve": "runtime.reserve",
    "state_directory": "state.directory",
    "state_owner": "state.owner",
    "metrics_listen": "metrics.listen",
}


def changed_keys(old: Settings, new: Settings) -> list[str]:
    """Returns the keys, or the sections, in which two configurations differ."""
    pairs = zip(Settings._fields, old, new, strict=True)
    return [_KEYS.get(name, name) for name, before, after in pairs if before != after]


def read(path: str = "") -> tuple[Settings, list[ConfigError]]:
    """Returns the settings in a file, and its errors. The default file may be absent."""
    place = path or DEFAULT_PATH
    try:
        text = paths.read_text(place, MAX_SIZE)
    except ConfigError as error:
        return Settings(), [error]
    if text is None:
        return Settings(), [ConfigError(path, os.strerror(errno.ENOENT))] if path else []
    reason = judge(place).error  # even if the file has `trust: off`, which its writer could have added
    if reason:
        return Settings(paths.absolute(place)), [ConfigError(place, reason)]
    settings, errors = parse(text, place)
    return settings._replace(file=paths.absolute(place)), errors


def parse(text: str, place: str) -> tuple[Settings, list[ConfigError]]:
    """Returns the settings in a YAML text, and errors, which name `place`. A key with an error keeps its default."""
    import yaml  # 20 ms and a megabyte, only if there is a configuration  # noqa: PLC0415

    if (size := len(text.encode(errors="replace"))) > MAX_SIZE:
        return Settings(), [ConfigError(place, f"{size} bytes, at most {MAX_SIZE}")]
    try:
        loader = yaml.SafeLoader(text)  # raises an error, too
        _limit_levels(loader)
        node = loader.get_single_node()
    except (yaml.YAMLError, RecursionError) as error:
        return Settings(), [yaml_error(place, text, error)]
    if node is None:
        return Settings(), []
    faults: list[tuple[yaml.Node, str]] = []
    own = _settings(_values(loader, node, SCHEMA, "", faults))
    errors = [ConfigError(f"{place}:{at.start_mark.line + 1}", reason) for at, reason in faults]
    if any(error.reason.startswith(("legacy.config:", "legacy:")) for error in errors):
        own = own._replace(legacy=own.legacy._replace(config=""))
    return own, errors


def _limit_levels(loader: yaml.SafeLoader) -> None:
    """Makes a loader raise RecursionError for a text that is nested too deeply, before it reads the rest."""
    compose, levels = loader.compose_node, 0

    def composed(parent: yaml.Node | None, index: int) -> yaml.Node | None:
        nonlocal levels
        levels += 1
        if levels > MAX_LEVELS:
            raise RecursionError
        node = compose(parent, index)
        levels -= 1
        return node

    loader.compose_node = composed  # type: ignore[method-assign]


def _values(
    loader: yaml.SafeLoader, node: yaml.Node, schema: Mapping[str, Any], path: str, faults: list[tuple[yaml.Node, str]]
) -> dict[str, Any]:
    """Returns the valid values of the mapping with the key `path`, by their keys. Adds each fault with its node."""
    if node.tag == "tag:yaml.org,2002:null":
        return {}
    if getattr(node, "id", "") != "mapping":
        faults.append((node, f"{path}: must be a mapping" if path else "must be a mapping"))
        return {}
    values: dict[str, Any] = {}
    for key_node, value in node.value:
        key = str(key_node.value)
        name = f"{path}.{key}" if path else key
        expected = schema.get(key, schema.get("*"))
        if expected is None:
            faults.append((value, f"{name}: {unknown('key', key, sorted(schema))}"))
        elif key in values:
            faults.append((value, f"{name}: given twice"))
        elif isinstance(expected, dict):
            values[key] = _values(loader, value, expected, name, faults)
        else:
            try:
                values[key] = expected.check(loader.construct_object(value, deep=True))
            except Exception as error:
                faults.append((value, f"{name}: {reason_of(error)}"))
    return values


def state_directory(own: Settings, name: str) -> str:
    """Returns the state directory of the adapter that registers with this name."""
    return own.state_directory or f"/run/nri-{name.replace('/', '_')}"


def report(errors: Sequence[ConfigError]) -> None:
    """Logs the errors of a configuration. The keys without an error are used."""
    for error in errors:
        log.error("%s (ignored)", error)


def _settings(values: dict[str, Any]) -> Settings:
    trust = values.get("trust", strict)
    legacy = _fields(values.get("legacy", {}))
    plugins = legacy.pop("plugins", {}).items()
    legacy["plugins"] = {type_: PluginSettings(**_fields(plugin)) for type_, plugin in plugins}
    hooks = _fields(values.get("hooks", {}))
    hooks["files"] = {name: HookFileSettings(**_fields(file)) for name, file in hooks.pop("files", {}).items()}
    own = Settings(
        legacy=LegacySettings(**legacy, trust=trust),
        hooks=HooksSettings(**hooks, trust=trust),
        log=LogSettings(**values.get("log", {})),
    )
    for field, key in _KEYS.items():
        section, _, name = key.rpartition(".")
        of_section = values.get(section, {}) if section else values
        own = own._replace(**{field: of_section[name]}) if name in of_section else own
    return own


def _fields(values: Mapping[str, Any]) -> dict[str, Any]:
    return {FIELDS.get(key) or re.sub("([A-Z])", r"_\1", key).lower(): value for key, value in values.items()}
