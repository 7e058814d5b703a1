"""conf.json: which legacy plugins run, in which order, with which configuration of their own.

Installers rewrite it while the node runs, so it is looked at for every event. Source of the format: containerd/nri
types/v1/types.go (ConfigList) and client.go (loadConfig).
"""

from __future__ import annotations

import logging
import os
import stat
import time
from collections.abc import Callable
from typing import NamedTuple

from adapter import gojson
from adapter.errors import ConfigError

log = logging.getLogger(__name__)

MAX_SIZE = 1 << 20
"""Bytes of a conf.json; a larger one would take longer to read than an event may."""
SETTLED = 50_000_000
"""Nanoseconds: a file written less long ago may change again within the same tick of its clock."""


class Entry(NamedTuple):
    """One plugin of the list. `conf` is compact JSON, None where the entry has none; `version` is the list's.

    `number` tells entries of the same type apart: 0 for the first.
    """

    type: str
    number: int
    version: str
    conf: bytes | None

    @property
    def key(self) -> tuple[str, int]:
        """What the plugin is known by when its configuration changes."""
        return self.type, self.number


class Config(NamedTuple):
    """A conf.json. `version` is passed to every plugin."""

    version: str = "0.1"
    entries: tuple[Entry, ...] = ()


def parse(text: bytes, path: str) -> Config:
    """Returns the configuration in a conf.json's text: its first JSON value, as the original client took it.

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
    """Where in a file a value stands: `base` is the offset of the text that members' offsets count from."""

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
    if not type_ or "\0" in type_:
        raise place.error(f"{name}.type", "missing or empty" if not type_ else "contains a NUL character")
    return type_, conf


class ConfigFile:
    """A conf.json on disk. A broken one leaves the last good version in force until it parses or is gone."""

    def __init__(self, path: str, now: Callable[[], int] = time.time_ns) -> None:
        """Takes the path, and the clock of the file's times, in nanoseconds."""
        self.path = path
        self._now = now
        self._good: Config | None = None
        self._seen: tuple[int, ...] | None = None
        self.error: ConfigError | None = None
        """What is wrong with the file as it was last read, None if nothing."""

    def current(self) -> Config:
        """Returns the configuration in force now.

        Raises ConfigError when the file cannot be used and no version before it could.
        """
        try:
            status = os.stat(self.path)
            if self._seen is not None and _identity(status) == self._seen:
                return self._in_force()
            text, status = read(self.path)
            # What was written just now may change within the same tick of the clock, unseen by the next stat.
            settled = self._now() - max(status.st_mtime_ns, status.st_ctime_ns) > SETTLED
            self._seen = _identity(status) if settled else None
            return self._accept(parse(text, self.path))
        except FileNotFoundError:
            self._seen = None
            return self._accept(Config())
        except OSError as error:
            return self._reject(ConfigError(self.path, error.strerror or str(error)))
        except ConfigError as error:
            return self._reject(error)

    def _in_force(self) -> Config:
        if self._good is not None:
            return self._good
        assert self.error is not None  # noqa: S101 - a file that was seen is good or not
        raise self.error.with_traceback(None)  # without it, the traceback would grow with every event

    def _accept(self, config: Config) -> Config:
        if self.error is not None:
            log.info("%s is in order again", self.path)
        if self._good is not None and config != self._good:
            log.info("%s changed: %s", self.path, ", ".join(entry.type for entry in config.entries) or "no plugins")
        self._good, self.error = config, None
        return config

    def _reject(self, error: ConfigError) -> Config:
        if str(error) != str(self.error):
            log.error("%s%s", error, "; the last good version stays in force" if self._good else "")
        self.error = error
        return self._in_force()


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def read(path: str) -> tuple[bytes, os.stat_result]:
    """Returns a configuration file's bytes and its status as it was when they were read.

    Raises OSError, and ConfigError for anything that is no file of a bearable size.
    """
    # Not to block: somebody may have put a FIFO there.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(path, "not a regular file")
        text = os.read(fd, MAX_SIZE + 1)
    finally:
        os.close(fd)
    if len(text) > MAX_SIZE:
        raise ConfigError(path, f"{max(status.st_size, len(text))} bytes, at most {MAX_SIZE}")
    return text, status
