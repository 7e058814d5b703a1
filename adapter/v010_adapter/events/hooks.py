"""The hook bridge: injects hooks into a container at its creation, and runs its precreate hooks."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from nri import Answer, Deferred, api
from nri.deferred import in_turn
from nri.events import subject_of
from nri.runtimes import Runtime
from v010_adapter.base.loop import Loop
from v010_adapter.errors import Oversized
from v010_adapter.hooks.directory import Directories
from v010_adapter.hooks.facts import Facts, facts
from v010_adapter.hooks.match import Matcher, NamedHook, adjustment, counts, places
from v010_adapter.hooks.model import PRECREATE
from v010_adapter.hooks.reader import HookReader
from v010_adapter.monitoring.trace import UNTRACED, Trace
from v010_adapter.oci.sizes import refuse_oversized
from v010_adapter.settings import HooksSettings

if TYPE_CHECKING:
    from v010_adapter.programs.process import Program, Runner

log = logging.getLogger(__name__)

MAX_WORK = 40_000_000
"""Maximum steps of RE2 (see `Matcher.work`) in one turn of the loop. Measured: at most 3.8 ns each."""


class _Matching(NamedTuple):
    """The hooks that a container gets, and with `podAnnotations` the annotations that match their conditions."""

    hooks: Sequence[NamedHook]
    annotations: Mapping[str, str]


class HookBridge:
    """The hooks of this node."""

    def __init__(self, loop: Loop, settings: HooksSettings, runner: Runner, host_root: str = "/") -> None:
        self._loop = loop
        self._settings = settings
        self._host_root = host_root
        self._runtime = Runtime()
        self._directories = Directories(settings, host_root)
        self._reader = HookReader(loop, self._directories)
        self._runner = runner
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
    def programs(self) -> list[str]:
        """The files of the precreate hooks in force: so are their programs called."""
        return [named.file for named in self._directories.in_force if PRECREATE in named.hook.stages]

    def start(self, runtime: Runtime) -> None:
        """Begins to read and watch hook files. Called after each Synchronize."""
        self._runtime = runtime
        self._reader.start()

    def on_creation(
        self,
        request: api.CreateContainerRequest,
        response: api.CreateContainerResponse,
        due: float,
        trace: Trace = UNTRACED,
    ) -> Generator[Answer[Any], Any, api.CreateContainerResponse]:
        """Yields each answer that a container's creation waits for, to be sent its reply; returns the response.

        The response, which has what plugins have changed, gets the hooks that match the container of the request, and
        with `podAnnotations` also the pod's annotations for which the container gets them. The precreate hooks among
        them edit the container as it is adjusted then. All this is done, or given up, at `due` on the loop's clock.

        Raises Oversized, by `hooks.onFailure`, for a container that is too large, and a hook's PrecreateError.
        """
        self._reader.read()
        matching = self._match(request, due, trace)
        if isinstance(matching, Deferred):
            matching = yield matching
        self._inject(matching, request, response, trace)
        precreate = [named for named in matching.hooks if PRECREATE in named.hook.stages]
        if precreate:
            response = yield self._run_precreate(precreate, request, response, due, trace)
        return response

    def _match(self, request: api.CreateContainerRequest, due: float, trace: Trace) -> _Matching | Deferred[_Matching]:
        matcher = self._directories.matcher
        try:
            refuse_oversized(request.pod, request.container, matcher.fields)
        except Oversized as error:
            return self._match_without_texts(matcher, request, error, trace)
        known = facts(request.pod, request.container, with_mounts=matcher.looks_at_mounts)
        times = 2 if self._settings.pod_annotations else 1  # `deciding` takes as long as `match`
        if times * matcher.work(known) <= MAX_WORK:
            matching = matcher.match(known)
            return _Matching(matching, self._deciding(matcher, matching, known))
        return in_turn(self._match_apart(matcher, known, request, due, trace))

    def _match_apart(
        self, matcher: Matcher, known: Facts, request: api.CreateContainerRequest, due: float, trace: Trace
    ) -> Generator[Answer[Any], Any, _Matching]:
        from v010_adapter.programs.apart import computed  # noqa: PLC0415 - only for large texts and patterns

        def compute() -> tuple[bytes, list[str]]:
            choice = matcher.choice(known)
            return choice, list(self._deciding(matcher, matcher.chosen(choice), known))

        try:
            choice, keys = yield computed(self._loop, compute, due, "annotations and args[0]")
        except Oversized as error:
            return self._match_without_texts(matcher, request, error, trace)
        return _Matching(matcher.chosen(choice), {key: known.annotations[key] for key in keys})

    def _match_without_texts(
        self, matcher: Matcher, request: api.CreateContainerRequest, error: Oversized, trace: Trace
    ) -> _Matching:
        """Returns the hooks that match without what may be too large, if a failure of hooks is to be ignored."""
        if self._settings.fail_create:
            raise error
        text = "hooks for %s: %s (only hooks with other conditions are injected)"
        log.error(text, subject_of(request), error, extra=trace.extra)
        with_mounts = matcher.looks_at_mounts and not error.place.startswith("mounts")
        known = facts(request.pod, request.container, with_mounts=with_mounts)
        return _Matching(matcher.match(known._replace(annotations={}, command=None)), {})

    def _deciding(self, matcher: Matcher, matching: Sequence[NamedHook], known: Facts) -> Mapping[str, str]:
        """Returns the annotations for which the container gets the hooks, none without `podAnnotations`.

        podman and CRI-O write them into the container's specification, from which the runtime tells them to hooks.
        containerd does so only for the keys of its setting `pod_annotations` (internal/cri/server, buildContainerSpec).
        """
        return matcher.deciding(matching, known.annotations) if self._settings.pod_annotations and matching else {}

    def _inject(
        self,
        matching: _Matching,
        request: api.CreateContainerRequest,
        response: api.CreateContainerResponse,
        trace: Trace,
    ) -> None:
        injected = adjustment(matching.hooks, self._directories.journal)
        of_plugins = counts(response.adjust.hooks) if response.adjust.HasField("hooks") else None
        if injected is not None:
            response.adjust.MergeFrom(injected)
        if matching.annotations:
            decided = {key.removeprefix("-") for key in response.adjust.annotations}  # by a plugin
            keys = matching.annotations.keys() - decided.union(request.container.annotations)
            response.adjust.annotations.update({key: matching.annotations[key] for key in keys})
        if matching.hooks:
            # After the answer: the runtime waits for it.
            self._loop.call_soon(partial(self._log_injected, matching.hooks, request, of_plugins, trace))

    def _run_precreate(
        self,
        hooks: Sequence[NamedHook],
        request: api.CreateContainerRequest,
        response: api.CreateContainerResponse,
        due: float,
        trace: Trace,
    ) -> Answer[api.CreateContainerResponse]:
        """Runs precreate hooks; returns the response with their edits. The answer may fail with a PrecreateError."""
        try:
            refuse_oversized(request.pod, request.container)
        except Oversized as error:
            if self._settings.fail_create:
                raise
            log.error("precreate hooks for %s: %s (none runs)", subject_of(request), error, extra=trace.extra)
            return response
        from v010_adapter.events import precreate  # noqa: PLC0415 - only for precreate hooks
        from v010_adapter.programs.apart import LARGE  # noqa: PLC0415 - likewise

        fail, root, runtime = self._settings.fail_create, self._host_root, self._runtime
        edits = precreate.Edits(
            self._runner, hooks, request, response, trace, fail=fail, host_root=root, runtime=runtime
        )
        if (size := request.ByteSize()) > LARGE:
            edits.be_large(size, due)
        edits.go()
        edits.answer_by(due)
        return edits.answer

    def standby_programs(self) -> Iterator[tuple[Program, int]]:
        """Yields each precreate hook's program, with the number of its processes that should stand by."""
        if not self._settings.standby:
            return
        from v010_adapter.events import precreate  # noqa: PLC0415 - only where hooks stand by

        for named in self._directories.in_force:
            if PRECREATE in named.hook.stages:
                yield precreate.program(named, self._host_root), self._settings.standby

    def _log_injected(
        self,
        matching: Sequence[NamedHook],
        request: api.CreateContainerRequest,
        of_plugins: Counter[str] | None,
        trace: Trace,
    ) -> None:
        """Counts and logs the hooks of a container. `of_plugins` counts the hooks that plugins have added before."""
        self.injected.update([named.path for named in matching])
        if log.isEnabledFor(logging.INFO):
            found = map(str, places(matching, counts(request.container.hooks) + (of_plugins or Counter())))
            precreate = [f"{PRECREATE}: {named.file}" for named in matching if PRECREATE in named.hook.stages]
            hooks = ", ".join([*found, *precreate]) or "none at any stage"
            log.info("hooks for %s: %s", subject_of(request), hooks, extra=trace.extra)
