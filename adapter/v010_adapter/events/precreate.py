"""Precreate hooks: programs that edit the OCI spec of a container before its creation, one after the other.

The protocol is podman's (go.podman.io/common/pkg/hooks/exec, runtimeconfigfilter.go): the whole spec as compact JSON on
stdin, the edited spec on stdout. Each hook gets the output of the hook before it.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable
from functools import cached_property
from typing import Any, NamedTuple

from nri import Answer, api
from nri.deferred import in_turn
from nri.events import subject_of
from nri.runtimes import Runtime
from v010_adapter.base import gojson
from v010_adapter.errors import NotAdjustable, Oversized, PrecreateError
from v010_adapter.events.life import Ends, Life
from v010_adapter.events.work import Work
from v010_adapter.hooks.match import NamedHook
from v010_adapter.host.mount_namespace import programs_namespace
from v010_adapter.host.paths import in_root
from v010_adapter.monitoring.trace import Trace
from v010_adapter.oci.fields_by_version import refuse_unknown
from v010_adapter.oci.spec import adjustment, apply, outside_spec, spec_from
from v010_adapter.oci.values import Spec
from v010_adapter.programs import step
from v010_adapter.programs.process import Process, Program, Runner
from v010_adapter.programs.step import Failure


class HookStep(NamedTuple):
    """One hook of a container. It is killed at its own timeout, or at the deadline of the event."""

    hook: NamedHook
    policy: step.Policy

    @property
    def name(self) -> str:
        """The name of the hook's file."""
        return self.hook.file

    @property
    def limit(self) -> str:
        """The setting that limits the hook's time."""
        return f"`timeout` in {self.hook.path}" if self.hook.hook.timeout else "hooks.timeout"

    def error(self, reason: str) -> PrecreateError:
        """Returns the hook's failure."""
        return PrecreateError(self.hook.path, reason)


class Edits(Work[HookStep]):
    """The precreate hooks of one container. The answer is the response with their edits, or a hook's PrecreateError."""

    def __init__(
        self,
        runner: Runner,
        hooks: Iterable[NamedHook],
        request: api.CreateContainerRequest,
        response: api.CreateContainerResponse,
        trace: Trace,
        *,
        fail: bool,
        host_root: str,
        runtime: Runtime,
    ) -> None:
        """With `fail`, a failed hook fails the container; else its edits are ignored. `host_root` has the programs."""
        self._text = b""
        """The specification as the next hook gets it."""
        self._adjustment: api.ContainerAdjustment | None = None
        """What the hooks have changed so far, with what plugins have changed before."""
        self._fault: Oversized | None = None
        """Why there is no specification of a large container."""
        self._creating = request
        self._response_before = response
        self._host_root = host_root
        self._runtime = runtime
        steps = [HookStep(named, step.Policy(fail, named.timeout or 0, kill=True)) for named in hooks]
        super().__init__(runner, Life(Ends.AT_ANSWER, steps), trace)

    def __str__(self) -> str:
        return f"creation of {subject_of(self._creating)}"

    def _program(self, step: HookStep) -> Program:
        if self._fault is not None:
            raise step.error(str(self._fault))
        return program(step.hook, self._host_root)

    @cached_property
    def _original(self) -> Spec:
        return spec_from(self._creating.container)

    def _encoded(self) -> bytes:
        """Returns the container as the plugins have adjusted it."""
        spec = apply(self._original, self._response_before.adjust)
        return json.dumps(spec, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")

    def _prepare(self) -> Generator[Answer[Any], Any, None]:
        try:
            self._text = yield self._apart(self._encoded)
        except Oversized as error:
            self._fault = error.with_traceback(None)

    def _request(self, step: HookStep) -> bytes:
        self._text = self._text or self._encoded()
        return self._text

    def _result(self, step: HookStep, process: Process) -> Answer[api.ContainerAdjustment | Failure]:
        if process.status != 0:  # even with valid output, as podman
            return Failure(process.ending)
        if self.is_large:
            return in_turn(self._result_apart(process))
        return self._taken(process, self._read(process.stdout))

    def _result_apart(self, process: Process) -> Generator[Answer[Any], Any, api.ContainerAdjustment | Failure]:
        try:
            read = yield self._apart(lambda: self._read(process.stdout))
        except Oversized as error:
            return Failure(str(error))
        return self._taken(process, read)

    def _read(self, output: bytes) -> api.ContainerAdjustment | Failure:
        """Returns the edits that a hook has printed."""
        try:
            adjusted = adjustment(self._original, decode(output))
            refuse_unknown(adjusted, self._runtime.nri, self._runtime.name)
        except (ValueError, NotAdjustable) as error:
            return Failure(str(error))
        return adjusted

    def _taken(self, process: Process, read: api.ContainerAdjustment | Failure) -> api.ContainerAdjustment | Failure:
        if not isinstance(read, Failure):
            self._adjustment, self._text = read, process.stdout
        return read

    def _response(self) -> api.CreateContainerResponse:
        if self._adjustment is not None:
            self._adjustment.MergeFrom(outside_spec(self._response_before.adjust))
            self._response_before.adjust.CopyFrom(self._adjustment)
        return self._response_before


def program(named: NamedHook, host_root: str) -> Program:
    """Returns the program of a hook with its arguments and variables."""
    hook = named.hook
    path = hook.path if programs_namespace.is_foreign else in_root(host_root, hook.path)
    argv = (hook.args[0] or hook.path, *hook.args[1:]) if hook.args else (hook.path,)
    return Program(named.file, path, argv, _environment(hook.env))


def _environment(variables: Iterable[str]) -> dict[str, str]:
    """Returns the variables of a hook's file by name. Of duplicates the last one counts, as in Go (os/exec).

    Entries without a name or without `=` are left out, because Python's posix_spawn cannot pass them.
    """
    pairs = (variable.partition("=") for variable in variables)
    return {name: value for name, equals, value in pairs if name and equals}


def decode(text: bytes) -> Spec:
    """Returns the specification that a hook has printed. Raises ValueError."""
    spec = gojson.plain(gojson.decode(text, levels=1)) if text.strip() else None
    if not isinstance(spec, dict):
        raise ValueError("its output is not an object" if text.strip() else "no output")
    return spec
