"""conf.json: the list of legacy plugins, in order, each with its configuration.

`read` is the only reader. Installers rewrite the file while the node runs: `ConfigFile` looks at it for every event.
Source of the format: containerd/nri types/v1/types.go (ConfigList) and client.go (loadConfig).
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from v010_adapter.base import gojson
from v010_adapter.errors import ConfigError, reason_of
from v010_adapter.host import paths
from v010_adapter.host.trust import Trust, strict

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


class ConfJson(NamedTuple):
    """A conf.json as it was read. A file that does not exist has no plugins. With an `error`, no plugin can run."""

    config: Config = Config()
    error: ConfigError | None = None
    text: bytes = b""
    status: os.stat_result | None = None
    """The status of the file before it was read, None if the file was not read."""


def read(path: str, trust: Trust) -> ConfJson:
    """Reads a conf.json if it may be trusted. Logs nothing. Without a path, the list is unknown."""
    if not path:
        return ConfJson(error=ConfigError("legacy.config", "has an error: the list of legacy plugins is unknown"))
    try:
        text, status = paths.read(path, MAX_SIZE)
    except FileNotFoundError:
        return ConfJson()
    except (OSError, ValueError) as error:
        return ConfJson(error=ConfigError(path, reason_of(error)))
    if reason := trust(path, "/"):  # perhaps a directory's mode: the status of the file does not show that
        return ConfJson(error=ConfigError(path, reason))
    try:
        return ConfJson(parse(text, path), None, text, status)
    except ConfigError as error:
        return ConfJson(Config(), error, text, status)


def parse(text: bytes, path: str) -> Config:
    """Returns the configuration in the text of a conf.json. As in the original client, the first JSON value counts.

    Raises ConfigError with file, line, column and key.
    """
    try:
        whole, end = gojson.value(text)
    except gojson.JSONError as error:
        reason = error.reason if text.strip() else "the file is empty"
        raise ConfigError(f"{path}:{error.line}:{error.column}", reason) from None
    version = ""
    plugins: list[tuple[str, bytes | None]] = []
    config = _Value(path, text, whole, end - len(whole), "")
    for key, member in config.members() if whole != b"null" else ():
        if key == "version":
            version = member.string(version)
        elif key == "plugins":
            plugins = list(map(_plugin, member.elements()))
    counts: Counter[str] = Counter()
    entries = []
    for type_, conf in plugins:
        entries.append(Entry(type_, counts[type_], version, conf))
        counts[type_] += 1
    return Config(version, tuple(entries))


class _Value(NamedTuple):
    """A JSON value in a file: its text, the offset of the text in the file, and its name for errors."""

    path: str
    file: bytes
    text: bytes
    offset: int
    name: str

    def error(self, reason: str) -> ConfigError:
        line, column = gojson.position(self.file, self.offset)
        return ConfigError(f"{self.path}:{line}:{column}", f"{self.name}: {reason}" if self.name else reason)

    def members(self) -> Iterator[tuple[str, _Value]]:
        """Yields the members of an object with their folded keys."""
        self._expect(b"{", "an object")
        for key, text, offset in gojson.members(self.text):
            name = f"{self.name}.{key}" if self.name else key
            yield gojson.fold(key), self._replace(text=text, offset=self.offset + offset, name=name)

    def elements(self) -> Iterator[_Value]:
        if self.text != b"null":
            self._expect(b"[", "an array")
            for index, text, offset in gojson.elements(self.text):
                yield self._replace(text=text, offset=self.offset + offset, name=f"{self.name}[{index}]")

    def string(self, unset: str) -> str:
        if self.text == b"null":
            return unset
        self._expect(b'"', "a string")
        return gojson.string(self.text)

    def _expect(self, first: bytes, kind: str) -> None:
        if self.text[:1] != first:
            raise self.error(f"must be {kind}, not {gojson.kind(self.text)}")


def _plugin(value: _Value) -> tuple[str, bytes | None]:
    type_ = ""
    conf: bytes | None = None
    for key, member in value.members():
        if key == "type":
            type_ = member.string(type_)
        elif key == "conf":
            conf = gojson.compact(member.text)
    reason = _fault(type_)
    if reason:
        raise value._replace(name=f"{value.name}.type").error(reason)
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
        """Takes the path, a clock for file times in nanoseconds, and what decides whether the file may be used."""
        self.path = path
        self._trust = trust
        self._now = now
        self._good: Config | None = None
        self._seen: tuple[int, ...] = ()
        """The version of the file at the last reading, empty if the file must be read again."""
        self.error: ConfigError | None = None
        """The error of the last reading, None if there was none."""

    @property
    def fault(self) -> str:
        """What is wrong with the file, and what becomes of its plugins; empty if nothing is."""
        result = "the last good version stays in force" if self._good else "no plugin can run"
        return f"{self.error}; {result}" if self.error else ""

    def current(self) -> Config:
        """Returns the configuration in force now.

        Raises ConfigError when the file is broken and there is no good version.
        """
        if self._seen and paths.version_at(self.path) == self._seen:
            return self._in_force()
        read_at = self._now()
        found = read(self.path, self._trust)
        self._seen = ()
        if status := found.status:
            # A file that was just written may change within the same tick of its clock: stat would not show that.
            age = read_at - max(status.st_mtime_ns, status.st_ctime_ns)
            self._seen = paths.version(status) if age > paths.TIMESTAMP_STEP else ()
        return self._accept(found.config) if found.error is None else self._reject(found.error)

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
