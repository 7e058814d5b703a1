"""The hook bridge: injects hooks into a container at its creation, and runs its precreate hooks."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from adapter.base.loop import Loop
from adapter.hooks.directory import Directories
from adapter.hooks.facts import facts
from adapter.hooks.match import NamedHook, adjustment
from adapter.hooks.reader import HookReader
from adapter.nri import Answer, api
from adapter.nri.events import subject_of
from adapter.nri.runtimes import Runtime
from adapter.settings import HooksSettings

if TYPE_CHECKING:
    from adapter.programs.process import Program
    from adapter.programs.runner import Account, Runner
    from adapter.programs.standby import Standby

log = logging.getLogger(__name__)


class HookBridge:
    """The hooks of this node."""

    def __init__(
        self, loop: Loop, settings: HooksSettings, standby: Standby | None = None, host_root: str = "/"
    ) -> None:
        self._loop = loop
        self._settings = settings
        self._host_root = host_root
        self._runtime = Runtime()
        self._directories = Directories(settings, host_root)
        self._reader = HookReader(loop, self._directories)
        self._runner: Runner | None = None
        self._standby = standby
        self.injected: Counter[str] = Counter()
        """The number of containers that got a hook, by the hook's file."""

    @property
    def faults(self) -> list[str]:
        """The faults of the hook files."""
        return [f"{path}: {reason}" for path, reason in self._directories.problems.items()]

    @property
    def containers(self) -> dict[str, int]:
        """The number of containers that got a hook, by the hook's file. A hook in force may have the number 0."""
        return {**dict.fromkeys((named.path for named in self._directories.in_force), 0), **self.injected}

    @property
    def accounts(self) -> Mapping[str, Account]:
        """The runs of precreate hooks, by the hook's file; also of those in force that have not run yet."""
        from adapter.programs.runner import Account  # noqa: PLC0415 - not before somebody asks

        files = [named.file for named in self._directories.in_force if "precreate" in named.hook.stages]
        return {**{file: Account() for file in files}, **(self._runner.accounts if self._runner is not None else {})}

    def start(self, runtime: Runtime) -> None:
        """Begins to read and watch hook files. Called after each Synchronize."""
        self._runtime = runtime
        self._reader.start()

    def update(self, due: float) -> Answer[None]:
        """Reads hook files if they have changed, until `due` on the loop's clock at the latest."""
        return self._reader.update(due)

    def inject(self, request: api.CreateContainerRequest, response: api.CreateContainerResponse) -> Sequence[NamedHook]:
        """Adds the hooks that match the container of the request to the response; returns these hooks."""
        matcher = self._directories.matcher
        matching = matcher.match(facts(request.pod, request.container, with_mounts=matcher.looks_at_mounts))
        injected = adjustment(matching)
        if injected is not None:
            response.adjust.MergeFrom(injected)
        if matching:
            self._loop.call_soon(lambda: self._note(matching, request))  # after the answer: the runtime waits for it
        return matching

    def precreate(
        self,
        matching: Sequence[NamedHook],
        request: api.CreateContainerRequest,
        response: api.CreateContainerResponse,
        due: float,
    ) -> Answer[api.CreateContainerResponse]:
        """Runs the precreate hooks among the matching hooks, on the container as the response has adjusted it.

        Returns the response with their edits, at `due` at the latest. The answer may fail with a hook's PrecreateError.
        """
        hooks = [named for named in matching if "precreate" in named.hook.stages]
        if not hooks:
            return response
        from adapter.hooks import precreate  # noqa: PLC0415 - only for precreate hooks: it loads processes and jobs
        from adapter.programs.runner import Runner  # noqa: PLC0415 - likewise

        if self._runner is None:
            self._runner = Runner(self._loop, self._standby)
        fail, root, runtime = self._settings.fail_create, self._host_root, self._runtime
        edits = precreate.Edits(self._runner, hooks, request, response, fail=fail, host_root=root, runtime=runtime)
        edits.go()
        edits.answer_by(due)
        return edits.answer

    def standby_programs(self) -> Iterator[tuple[Program, int]]:
        """Yields each precreate hook's program, with the number of its processes that should stand by."""
        if not self._settings.standby:
            return
        from adapter.hooks import precreate  # noqa: PLC0415 - only where hooks stand by

        for named in self._directories.in_force:
            if "precreate" in named.hook.stages:
                yield precreate.program(named, self._host_root), self._settings.standby

    def _note(self, matching: Sequence[NamedHook], request: api.CreateContainerRequest) -> None:
        self.injected.update(named.path for named in matching)
        log.info("hooks for %s: %s", subject_of(request), ", ".join(named.file for named in matching))
