"""conf.json: the list of legacy plugins, in order, each with its configuration.

Installers rewrite the file while the node runs: `ConfigFile` looks at it for every event. Source of the format:
containerd/nri types/v1/types.go (ConfigList) and client.go (loadConfig).
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from typing import NamedTuple

from adapter.base import gojson
from adapter.errors import ConfigError
from adapter.host import paths
from adapter.host.trust import Trust, strict

log = logging.getLogger(__name__)

MAX_SIZE = 1 << 20
"""Maximum bytes of a conf.json: reading a larger file would take too long for an event."""


class Entry(NamedTuple):
    """A plugin in the list. `conf` is compact JSON, or None; `version` is the list's.

    `number` distinguishes entries of the same type: 0 is the first.
    """

    type: str
    number: int
    version: str
    conf: bytes | None

    @property
    def key(self) -> tuple[str, int]:
        """Identifies the plugin while its configuration changes."""
        return self.type, self.number


class Config(NamedTuple):
    """The contents of conf.json. Every plugin gets `version`."""

    version: str = "0.1"
    entries: tuple[Entry, ...] = ()


def parse(text: bytes, path: str) -> Config:
    """Returns the configuration in the text of a conf.json. As in the original client, the first JSON value counts.

    Raises ConfigError with file, line and key.
    """
    try:
        whole, _ = gojson.value(text)
    except gojson.JSONError as error:
        raise ConfigError(f"{path}:{error.line}", error.reason if text.strip() else "the file is empty") from None
    place = _Place(path, text, len(text) - len(text.lstrip(b" \t\r\n")))
    if whole == b"null":
        return Config(version="")
    version = ""
    plugins: tuple[tuple[str, bytes | None], ...] = ()
    for member in _members(whole, place, ""):
        key = gojson.fold(member.key)
        if key == "version":
            version = _string(member, version, place, member.key)
        elif key == "plugins":
            plugins = _plugins(member, place)
    counts: dict[str, int] = {}
    entries = []
    for type_, conf in plugins:
        number = counts.get(type_, 0)
        counts[type_] = number + 1
        entries.append(Entry(type_, number, version, conf))
    return Config(version, tuple(entries))


class _Place(NamedTuple):
    """The place of a value in a file. Offsets of members are relative to `base`."""

    path: str
    text: bytes
    base: int

    def at(self, offset: int) -> _Place:
        return self._replace(base=self.base + offset)

    def error(self, key: str, reason: str) -> ConfigError:
        line = self.text.count(b"\n", 0, self.base) + 1
        return ConfigError(f"{self.path}:{line}", f"{key}: {reason}" if key else reason)


def _members(value: bytes, place: _Place, key: str) -> list[gojson.Member]:
    if value[:1] != b"{":
        raise place.error(key, f"must be an object, not {gojson.kind(value)}")
    return gojson.members(value)


def _string(member: gojson.Member, unset: str, place: _Place, key: str) -> str:
    if member.value == b"null":
        return unset
    if member.value[:1] != b'"':
        raise place.at(member.offset).error(key, f"must be a string, not {gojson.kind(member.value)}")
    return gojson.string(member.value)


def _plugins(member: gojson.Member, place: _Place) -> tuple[tuple[str, bytes | None], ...]:
    if member.value == b"null":
        return ()
    place = place.at(member.offset)
    if member.value[:1] != b"[":
        raise place.error(member.key, f"must be an array, not {gojson.kind(member.value)}")
    return tuple(
        _plugin(element.value, place.at(element.offset), f"{member.key}[{element.key}]")
        for element in gojson.elements(member.value)
    )


def _plugin(value: bytes, place: _Place, name: str) -> tuple[str, bytes | None]:
    type_ = ""
    conf: bytes | None = None
    for member in _members(value, place, name):
        key = gojson.fold(member.key)
        if key == "type":
            type_ = _string(member, type_, place, f"{name}.{member.key}")
        elif key == "conf":
            conf = gojson.compact(member.value)
    reason = _fault(type_)
    if reason:
        raise place.error(f"{name}.type", reason)
    return type_, conf


def _fault(type_: str) -> str:
    if not type_:
        return "missing or empty"
    if "\0" in type_:
        return "contains a NUL character"
    return "must be a name or an absolute path" if "/" in type_ and type_[0] != "/" else ""


class ConfigFile:
    """A conf.json on disk. While the file is broken, its last good version stays in force."""

    def __init__(self, path: str, now: Callable[[], int] = time.time_ns, trust: Trust = strict) -> None:
        """Takes the path, a clock for file times in nanoseconds, and what decides whether the file may be used.

        Without a path, the list is unknown.
        """
        self.path = path
        self._trust = trust
        self._now = now
        self._good: Config | None = None
        self._seen: tuple[int, ...] | None = None
        self.error: ConfigError | None = None
        """The error of the last read, None if there was none."""

    @property
    def fault(self) -> str:
        """What is wrong with the file, and what becomes of its plugins; empty if nothing is."""
        result = "the last good version stays in force" if self._good else "no plugin can run"
        return f"{self.error}; {result}" if self.error else ""

    def current(self) -> Config:
        """Returns the configuration in force now.

        Raises ConfigError when the file is broken and there is no good version.
        """
        try:
            status = os.stat(self.path)
            if self._seen is not None and paths.version(status) == self._seen:
                return self._in_force()
            text, status = read(self.path)
            reason = self._trust(self.path, "/")
            if reason:
                self._seen = None  # the reason may be a directory's mode: the file shows no change of that
                raise ConfigError(self.path, reason)
            # A file that was just written may change within the same tick of its clock: stat would not show that.
            is_stable = self._now() - max(status.st_mtime_ns, status.st_ctime_ns) > paths.TIMESTAMP_STEP
            self._seen = paths.version(status) if is_stable else None
            return self._accept(parse(text, self.path))
        except FileNotFoundError:
            if not self.path:
                return self._reject(ConfigError("legacy.config", "has an error: the list of legacy plugins is unknown"))
            self._seen = None
            return self._accept(Config())
        except OSError as error:
            return self._reject(ConfigError(self.path, error.strerror or str(error)))
        except ConfigError as error:
            return self._reject(error)

    def _in_force(self) -> Config:
        if self._good is not None:
            return self._good
        assert self.error is not None  # noqa: S101 - a read gives a version or an error
        raise self.error.with_traceback(None)  # the traceback would grow with every event

    def _accept(self, config: Config) -> Config:
        if self.error is not None:
            log.info("%s is in order again", self.path)
        if config != self._good:
            names = ", ".join(entry.type for entry in config.entries) or "no plugins"
            log.info("%s%s: %s", self.path, " changed" if self._good else "", names)
        self._good, self.error = config, None
        return config

    def _reject(self, error: ConfigError) -> Config:
        before, self.error = self.error, error
        if str(error) != str(before):
            log.error("%s", self.fault)
        return self._in_force()


def read(path: str) -> tuple[bytes, os.stat_result]:
    """Returns a configuration file's bytes and its status before they were read.

    Raises OSError, and ConfigError for a file that is too large or not a regular file.
    """
    try:
        return paths.read(path, MAX_SIZE)
    except ValueError as error:
        raise ConfigError(path, str(error)) from None
