"""The adapter's own configuration: YAML whose keys are all optional, and whose mistakes are named with their line."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from adapter.errors import ConfigError

if TYPE_CHECKING:
    import yaml

log = logging.getLogger(__name__)

DEFAULT_PATH = "/etc/nri/v010-adapter.yaml"
DEFAULT_CONF_JSON = "/etc/nri/conf.json"


class PluginSettings(NamedTuple):
    """What is configured for one legacy plugin; None where the general setting holds. Times in seconds."""

    fail_create: bool | None = None
    fail_delete: bool | None = None
    timeout: float | None = None
    kill_on_timeout: bool | None = None
    events: frozenset[str] | None = None


class LegacySettings(NamedTuple):
    """`legacy:`. Times in seconds."""

    config: str = DEFAULT_CONF_JSON
    path: tuple[str, ...] = ("/opt/nri/bin",)
    sandboxes: str = "auto"
    fail_create: bool = True
    fail_delete: bool = False
    timeout: float = 0
    kill_on_timeout: bool = False
    late_limit: float = 30
    environment: Mapping[str, str] = {}
    metadata_prefix: str = ""
    plugins: Mapping[str, PluginSettings] = {}


class HooksSettings(NamedTuple):
    """`hooks:`. `enabled` is None where it depends on the runtime; not to `watch` can be said on the command line.

    `precreate` is whether hooks of that stage run, `fail` whether a container fails with one of them.
    """

    enabled: bool | None = None
    directories: tuple[str, ...] = ("/usr/share/containers/oci/hooks.d", "/etc/containers/oci/hooks.d")
    watch: bool = True
    precreate: bool = False
    fail: bool = True

    @property
    def extension_stages(self) -> tuple[str, ...]:
        """The stages that files may have besides the runtimes' own."""
        return ("precreate",) if self.precreate else ()


class LogSettings(NamedTuple):
    """`log:`."""

    level: str = "info"
    format: str = "text"
    target: str = "auto"


class Settings(NamedTuple):
    """Everything that can be configured."""

    host_root: str = "/"
    legacy: LegacySettings = LegacySettings()
    hooks: HooksSettings = HooksSettings()
    log: LogSettings = LogSettings()
    fail_request: bool = False


def read(path: str = "") -> tuple[Settings, list[ConfigError]]:
    """Returns the settings in a file and what is wrong with it; the default file need not exist."""
    try:
        with open(path or DEFAULT_PATH, encoding="utf-8") as file:
            return parse(file.read(), path or DEFAULT_PATH)
    except FileNotFoundError as error:
        return Settings(), [ConfigError(path, str(error.strerror))] if path else []
    except (OSError, UnicodeDecodeError) as error:
        return Settings(), [ConfigError(path or DEFAULT_PATH, getattr(error, "strerror", None) or str(error))]


def parse(text: str, place: str) -> tuple[Settings, list[ConfigError]]:
    """Returns the settings that a text gives, the defaults for what it gets wrong, and those errors.

    `place` is what the errors call the text.
    """
    import yaml  # 20 ms and a megabyte that a node without a configuration does not pay  # noqa: PLC0415

    errors: list[ConfigError] = []
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
    except (yaml.YAMLError, RecursionError) as error:
        return Settings(), [ConfigError(place + _line(error, text), _reason(error))]
    if node is None:
        return Settings(), []
    values = _Reader(loader, place, errors).mapping(node, _SCHEMA, "")
    return _settings(values), errors


def report(errors: Sequence[ConfigError]) -> None:
    """Logs what is wrong with a configuration of which the rest is used."""
    for error in errors:
        log.error("%s (ignored)", error)


def _settings(values: dict[str, Any]) -> Settings:
    legacy = _renamed(values.get("legacy", {}), _LEGACY_FIELDS)
    if "plugins" in legacy:
        legacy["plugins"] = {
            type_: PluginSettings(**_renamed(of_plugin, _LEGACY_FIELDS))
            for type_, of_plugin in legacy["plugins"].items()
        }
    return Settings(
        host_root=values.get("hostRoot", "/"),
        legacy=LegacySettings(**legacy),
        hooks=HooksSettings(**_renamed(values.get("hooks", {}), {"onFailure": "fail"})),
        log=LogSettings(**values.get("log", {})),
        fail_request=values.get("runtime", {}).get("failRequest", False),
    )


def _renamed(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in values.items()}


Check: TypeAlias = Callable[[Any], Any]


def _choice(*words: str) -> Check:
    def check(value: Any) -> Any:
        if value not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return value

    return check


def _absolute(value: Any) -> str:
    if not isinstance(value, str) or not value.startswith("/"):
        raise ValueError("must be an absolute path")
    return _plain(value)


def _plain(text: str) -> str:
    """Returns a text that the system can be given."""
    if b"\0" in os.fsencode(text):
        raise ValueError("contains a NUL character")
    return text


def _paths(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError("must be a list of absolute paths")
    return tuple(_absolute(path) for path in value)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def _auto(value: Any) -> bool | None:
    if value != "auto" and not isinstance(value, bool):
        raise ValueError("must be auto, true or false")
    return None if value == "auto" else bool(value)


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ValueError("must be a number of seconds, 0 or more")
    return float(value)


def _fails(value: Any) -> bool:
    return bool(_choice("fail", "ignore")(value) == "fail")


def _strings(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for pair in value.items() for text in pair):
        raise ValueError("must map names to texts (put numbers in quotes)")
    for name, text in value.items():
        if not name or "=" in name or name.startswith("NRI_PLUGIN_"):
            raise ValueError(f"{name!r} cannot be set")
        _plain(name + text)
    return value


def _events(value: Any) -> frozenset[str]:
    """Returns the events a plugin is run for: all that NRI has but the validation of what plugins have asked for."""
    from adapter.nri.events import BY_EVENT  # noqa: PLC0415 - only where there is such a list

    known = {call.method for call in BY_EVENT.values()} - {"ValidateContainerAdjustment"}
    if not isinstance(value, list) or not all(isinstance(event, str) for event in value):
        raise ValueError("must be a list of events")
    for event in value:
        if event not in known:
            raise ValueError(f"{event!r} is no event; there are {', '.join(sorted(known))}")
    return frozenset(value)


def _prefix(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a text")
    return _plain(value)


_PLUGIN: dict[str, Any] = {
    "onFailure": _fails,
    "onDeleteFailure": _fails,
    "timeout": _seconds,
    "killOnTimeout": _boolean,
}
_LEGACY_FIELDS = {
    "onFailure": "fail_create",
    "onDeleteFailure": "fail_delete",
    "killOnTimeout": "kill_on_timeout",
    "lateLimit": "late_limit",
    "metadataPrefix": "metadata_prefix",
}
_SCHEMA: dict[str, Any] = {
    "hostRoot": _absolute,
    "legacy": {
        **_PLUGIN,
        "config": _absolute,
        "path": _paths,
        "sandboxes": _choice("auto", "always", "never"),
        "lateLimit": _seconds,
        "environment": _strings,
        "metadataPrefix": _prefix,
        "plugins": {"*": {**_PLUGIN, "events": _events}},
    },
    "hooks": {"enabled": _auto, "directories": _paths, "precreate": _boolean, "onFailure": _fails},
    "runtime": {"failRequest": _boolean},
    "log": {
        "level": _choice("debug", "info", "warning", "error"),
        "format": _choice("text", "json"),
        "target": _choice("auto", "stderr", "syslog"),
    },
}
"""What may be configured: a mapping by key (`*` for any), or the check that a value must pass."""


def _line(error: Exception, text: str) -> str:
    """Returns where in the text PyYAML's error is, as `:LINE`, empty if it does not say."""
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        return f":{mark.line + 1}"
    position = getattr(error, "position", None)  # of a character that YAML does not allow
    return "" if position is None else f":{text.count(chr(10), 0, position) + 1}"


def _reason(error: Exception) -> str:
    """Returns what PyYAML or a check says, without its own lines about the place."""
    return str(getattr(error, "problem", None) or getattr(error, "reason", None) or error)


class _Reader:
    """Reads YAML nodes by the schema and gathers what is wrong with them."""

    def __init__(self, loader: yaml.SafeLoader, place: str, errors: list[ConfigError]) -> None:
        self._loader = loader
        self._place = place
        self._errors = errors

    def mapping(self, node: yaml.Node, schema: Mapping[str, Any], path: str) -> dict[str, Any]:
        """Returns the valid part of a mapping."""
        values: dict[str, Any] = {}
        for key, of_key in self._items(node, path):
            name = f"{path}.{key}" if path else key
            expected = schema.get(key, schema.get("*"))
            if expected is None:
                self._error(of_key, name, f"unknown key; known here: {', '.join(sorted(schema))}")
            elif key in values:
                self._error(of_key, name, "given twice")
            elif isinstance(expected, dict):
                values[key] = self.mapping(of_key, expected, name)
            else:
                self._check(values, key, of_key, expected, name)
        return values

    def _items(self, node: yaml.Node, path: str) -> Iterator[tuple[str, yaml.Node]]:
        if node.tag == "tag:yaml.org,2002:null":
            return
        if getattr(node, "id", "") != "mapping":
            self._error(node, path, "must be a mapping")
            return
        for key, value in node.value:
            yield str(key.value), value

    def _check(self, values: dict[str, Any], key: str, node: yaml.Node, check: Check, name: str) -> None:
        try:
            values[key] = check(self._loader.construct_object(node, deep=True))
        except Exception as error:
            self._error(node, name, _reason(error))

    def _error(self, node: yaml.Node, name: str, reason: str) -> None:
        place = f"{self._place}:{node.start_mark.line + 1}"
        self._errors.append(ConfigError(place, f"{name}: {reason}" if name else reason))
