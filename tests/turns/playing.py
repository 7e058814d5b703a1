"""Plays one history: puts its world in place of processes, settings, and the steps at which faults come."""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from math import inf
from typing import Any

import pytest

from nri import api
from v010_adapter.errors import PluginError
from v010_adapter.legacy.config import Config, Entry
from v010_adapter.legacy.request import Target
from v010_adapter.state.ledger import Ledger
from v010_adapter.state.runtime_directory import RuntimeDirectory
from v010_adapter.state.turns_file import TurnsFile

from ..rig.holder import PlayedHolder
from .judge import Judge
from .life import Program
from .world import World

HOLDS = None, None, 0.0, 0.5, inf
"""When containers are held, by the seed: in three of five histories. Whether they start then is not looked at."""


class Holder(PlayedHolder):
    """Holds containers. What its adapter does not let go is refused."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._held_by_number, self._numbers = world.held, dict[str, int]()

    def hold(self, target: Target, what: str, plugin: str, **options: Any) -> bool:
        is_held = super().hold(target, what, plugin, **options)
        if is_held:
            self._numbers[target.id] = int(json.loads(target.labels)["call"])
            self._held_by_number.add(self._numbers[target.id])
        return is_held

    def end(self, id_: str, error: Exception | None) -> None:
        super().end(id_, error)
        if error is None:
            self._held_by_number.discard(self._numbers[id_])


class HookBridge:
    """In place of the hooks: each container gets one change."""

    faults: tuple[str, ...] = ()
    accounts: dict[str, Any] = {}  # noqa: RUF012
    containers: dict[str, int] = {}  # noqa: RUF012

    def __init__(self, *_: object) -> None:
        pass

    def start(self, _: object) -> None:
        pass

    def on_creation(self, _: object, response: api.CreateContainerResponse, *__: object) -> Generator[None, None, Any]:
        response.adjust.annotations["h"] = "1"
        yield None
        return response


class ConfFile:
    """In place of conf.json."""

    error, fault = None, ""

    def __init__(self, world: World, *_: object, **__: object) -> None:
        self._world = world

    def current(self) -> Config:
        return Config("0.1", self._world.entries)


class _Bugs(logging.Handler):
    """Bugs of the adapter, which it logs and survives."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    def emit(self, record: logging.LogRecord) -> None:
        life = self.world.current
        self.world.say(f"  [{life}] {record.getMessage()[:300]}")
        if record.exc_info:
            self.world.bugs.append(record.exc_info[1] or AssertionError(record.getMessage()))


@contextmanager
def playing(world: World) -> Iterator[None]:
    """Puts a history's world in place of processes, files of settings, and the steps at which faults come."""
    log = logging.getLogger("v010_adapter")
    handler = _Bugs(world)
    level, propagates = log.level, log.propagate
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("v010_adapter.legacy.plugins.ConfigFile", partial(ConfFile, world))
        patch.setattr("v010_adapter.programs.process.Process", partial(Program, world))
        patch.setattr("v010_adapter.legacy.find.find", partial(_find, world))
        patch.setattr("v010_adapter.events.hooks.HookBridge", HookBridge)
        patch.setattr("v010_adapter.events.holder.Holder", lambda *_: Holder(world))
        patch.setattr("nri.cgroup.start_time", lambda pid: pid)
        patch.setattr("v010_adapter.base.collector.gc.freeze", lambda: None)
        if "one place" in world.kinds:
            patch.setattr("v010_adapter.events.turns.PLACES", 1)
        if "one byte" in world.kinds:
            patch.setattr("v010_adapter.events.turns._span", _span)
        for name in ("write", "append", "lock", "unlock"):
            patch.setattr(TurnsFile, name, _pointed(world, getattr(TurnsFile, name)))
        for name in ("read", "replace"):
            patch.setattr(RuntimeDirectory, name, _pointed(world, getattr(RuntimeDirectory, name)))
        patch.setattr(Ledger, "add", _noting(world, Ledger.add))
        patch.setattr(RuntimeDirectory, "_write_new", _pointed(world, RuntimeDirectory._write_new, fills=True))
        log.addHandler(handler)
        log.propagate = False
        log.setLevel(logging.INFO)
        try:
            yield
        finally:
            log.removeHandler(handler)
            log.setLevel(level)
            log.propagate = propagates
            for peer in world.peers:
                peer.die()


def _find(world: World, type_: str, *_: object) -> str:
    if type_ in world.missing:
        raise PluginError(type_, "not found")
    return type_


def _span(pod: str, id_: str) -> tuple[int, int]:
    """Returns the bytes of an id where all pods have the same bytes, and all containers one of two."""
    start = 1 << 24
    return (start, start) if pod == id_ else (start + 1 + zlib.crc32(id_.encode()) % 2, 1)


def _noting(world: World, add: Any) -> Any:
    def noting(self: Ledger, target: Target, entry: Entry) -> None:
        number = json.loads(target.labels or b"{}").get("call", -1)
        if world.current is not None and int(number) >= 0:
            world.current.noting = int(number), entry.type
        add(self, target, entry)

    return noting


def _pointed(world: World, function: Any, *, fills: bool = False) -> Any:
    def pointed(self: Any, *of: Any, **how: Any) -> Any:
        world.point(f"before {function.__name__}")
        if fills and world.is_full:
            function(self, of[0][: len(of[0]) // 2], **how)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done = function(self, *of, **how)
        world.point(f"after {function.__name__}")
        return done

    return pointed


def play(seed: int, directory: str) -> tuple[World, list[str]]:
    """Plays one history; returns it, and what is wrong."""
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory, mode=0o700)
    world = World(seed, directory)
    world.settings = world.settings._replace(hold_after=HOLDS[seed % len(HOLDS)])
    try:
        with playing(world):
            world.play()
    except Exception as error:
        return world, [f"crash: {error!r}", *map(repr, world.bugs)]
    return world, [*map(repr, world.bugs), *dict.fromkeys(Judge(world).judge())]
