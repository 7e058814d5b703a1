"""Plays one history: puts its world in place of processes, settings, and the steps at which faults come."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from nri import HoldEnd, api
from v010_adapter.errors import ConfigError, PluginError
from v010_adapter.events.work import PluginWork, Queue
from v010_adapter.legacy.config import Config, Entry
from v010_adapter.legacy.plan import PluginStep
from v010_adapter.legacy.request import Target
from v010_adapter.monitoring.trace import UNTRACED, Trace
from v010_adapter.programs.process import Program
from v010_adapter.state.ledger import Ledger
from v010_adapter.state.runtime_directory import ROOM, RuntimeDirectory
from v010_adapter.state.turns_file import TurnsFile

from ..rig.holder import PlayedHolder
from .clock import Life
from .event import Hold
from .judge import Judge
from .run import Run
from .story import Story
from .world import World


class Holder(PlayedHolder):
    """Holds containers, of a rough history if the dice say so. What its adapter does not let go is refused."""

    def __init__(self, world: World, life: Life) -> None:
        super().__init__()
        self._world, self.life, self._holds = world, life, dict[str, Hold]()
        world.holders.append(self)

    def _perhaps(self) -> bool:
        return not self._world.is_rough or self._world.dice.random() < 0.9

    def can_hold(self, target: Target, trace: Trace = UNTRACED) -> bool:
        return self._perhaps()

    def hold(self, target: Target, what: str, plugin: str, **how: Any) -> bool:
        self.can, self.is_ready = self._perhaps(), self._perhaps()
        is_held = super().hold(target, what, plugin, **how)
        if is_held:
            call = self._world.call_of[how["on_end"].__self__]
            self._holds[target.id] = call.hold = hold = Hold(
                call, self._world.clock.now, must_finish=how["must_finish"]
            )
            self._world.holds.append(hold)
        return is_held

    def end(self, id_: str, error: Exception | None) -> None:
        if id_ in self.held:
            self._over(id_, starts=error is None, is_ours=True)
        super().end(id_, error)

    def end_any(self) -> None:
        """The keeper, or somebody else, ends a hold."""
        if not self.held:
            return
        id_ = self._world.dice.choice([*self.held])
        end = self._world.dice.choice((HoldEnd.GONE, HoldEnd.REFUSED if self.at_end[id_] else HoldEnd.LET_GO))
        self._over(id_, starts=end is HoldEnd.LET_GO, is_ours=False)
        self.end_by(id_, end)

    def _over(self, id_: str, *, starts: bool, is_ours: bool) -> None:
        hold = self._holds[id_]
        hold.ended, hold.starts, hold.is_ours = self._world.clock.now, starts, is_ours
        hold.before = len(self._world.calls)


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

    fault = ""

    def __init__(self, world: World, *_: object, **__: object) -> None:
        self._world = world

    @property
    def error(self) -> ConfigError | None:
        return ConfigError("conf.json", "broken") if self._world.entries is None else None

    def current(self) -> Config:
        if self._world.entries is None:
            raise ConfigError("conf.json", "broken")
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
        patch.setattr("v010_adapter.programs.process.Process", partial(_spawned, world))
        patch.setattr(PluginWork, "_program", _started(world, PluginWork._program))
        patch.setattr(Queue, "submit", _submitted(world, Queue.submit))
        patch.setattr("v010_adapter.legacy.find.find", partial(_find, world))
        patch.setattr("v010_adapter.events.hooks.HookBridge", HookBridge)
        patch.setattr("v010_adapter.events.holder.Holder", lambda life, *_: Holder(world, life))
        patch.setattr("nri.cgroup.start_time", lambda pid: pid)
        patch.setattr("v010_adapter.base.collector.begin", lambda: None)
        if "one place" in world.kinds:
            patch.setattr("v010_adapter.events.turns.PLACES", 1)
        if "one byte" in world.kinds:
            patch.setattr("v010_adapter.events.turns._span", _span)
        for name in ("write", "append", "lock", "unlock"):
            patch.setattr(TurnsFile, name, _pointed(world, getattr(TurnsFile, name)))
        for name in ("read", "replace"):
            patch.setattr(RuntimeDirectory, name, _pointed(world, getattr(RuntimeDirectory, name)))
        patch.setattr(Ledger, "add", _noting(world, Ledger.add))
        patch.setattr("v010_adapter.state.runtime_directory.RESERVED", 2 * ROOM)
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
    run = world.current.starting if world.current is not None else None
    if type_ in world.missing or (run is not None and not run.is_fed and world.is_refused()):
        raise PluginError(type_, "not found")
    return type_


def _submitted(world: World, submit: Any) -> Any:
    def submitted(queue: Queue, work: PluginWork) -> None:
        assert world.current is not None
        call = world.current.call if work.turn is not None else world.unasked(work)
        assert call is not None
        call.work, world.call_of[work] = work, call
        submit(queue, work)

    return submitted


def _started(world: World, program: Any) -> Any:
    def started(work: PluginWork, step: PluginStep) -> Any:
        life, call = world.current, world.call_of[work]
        assert life is not None
        life.starting = run = Run(world, life, call, step.name)
        call.runs.append(run)
        world.runs.append(run)
        return program(work, step)

    return started


def _spawned(world: World, life: Life, program: Program, on_end: Any, *_: object) -> Run:
    run = life.starting
    assert run is not None
    assert run.name == program.name, "another program is spawned than was started"
    run.spawn(on_end)
    return run


def _span(pod: str, id_: str) -> tuple[int, int]:
    """Returns the bytes of an id where all pods have the same bytes, and all containers one of two."""
    start = 1 << 24
    return (start, start) if pod == id_ else (start + 1 + zlib.crc32(id_.encode()) % 2, 1)


def _noting(world: World, add: Any) -> Any:
    def noting(self: Ledger, target: Target, entry: Entry) -> None:
        if world.current is not None and world.current.starting is not None:
            world.current.starting.is_noted = True
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
    try:
        with playing(world):
            Story(world).play()
    except Exception as error:
        return world, [f"crash: {error!r}", *map(repr, world.bugs)]
    return world, [*map(repr, world.bugs), *dict.fromkeys(Judge(world).judge())]
