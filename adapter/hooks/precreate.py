"""Precreate hooks: programs that edit the OCI spec of a container before it is created, one after the other.

The protocol is podman's (go.podman.io/common/pkg/hooks/exec, runtimeconfigfilter.go): the whole spec as compact JSON on
stdin, the edited one on stdout; each hook gets what the one before has printed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from adapter import gojson, oci
from adapter.errors import NotAdjustable, PrecreateError
from adapter.hooks.match import Named
from adapter.loop import Loop, Timer
from adapter.nri import Deferred, api
from adapter.nri.versions import OLDEST, Version
from adapter.oci.beside import beside
from adapter.oci.since import refuse_unknown
from adapter.process import MAX_STDOUT, Process

log = logging.getLogger(__name__)


def run(
    loop: Loop,
    hooks: Iterable[Named],
    request: api.CreateContainerRequest,
    response: api.CreateContainerResponse,
    policy: Policy,
    deadline: float,
) -> Deferred[api.CreateContainerResponse]:
    """Runs hooks on a container as an answer adjusts it; returns the answer with their edits, when they are done.

    It fails with the PrecreateError of a hook that must not fail. `deadline`, on the loop's clock, is when the last
    must be done.
    """
    before = oci.spec_from(request.pod, request.container)
    without_place = beside(response.adjust)
    chain = Precreate(loop, hooks, before, oci.apply(before, response.adjust), policy, deadline)

    def adjusted(after: oci.Spec | None) -> api.CreateContainerResponse:
        adjustment = oci.adjustment(before, after or before)
        adjustment.MergeFrom(without_place)
        response.adjust.CopyFrom(adjustment)
        return response

    return chain.spec.followed_by(adjusted)


class Policy(NamedTuple):
    """`fail` is whether a hook that fails fails the container; where it does not, its edits are not taken.

    `host_root` is where the hooks' programs are, `nri` the runtime's version of NRI.
    """

    fail: bool = True
    host_root: str = "/"
    nri: Version = OLDEST


class Precreate:
    """One container's precreate hooks; `spec` completes with the spec as they leave it, or fails."""

    def __init__(
        self, loop: Loop, hooks: Iterable[Named], before: oci.Spec, now: oci.Spec, policy: Policy, deadline: float
    ) -> None:
        """Starts the first of the hooks. Takes the spec as the runtime has it, and as it is adjusted already."""
        self.spec: Deferred[oci.Spec] = Deferred()
        self._loop = loop
        self._hooks = list(hooks)
        self._before = before
        self._now = now
        self._text = _encode(now)
        self._policy = policy
        self._deadline = deadline
        self._timer: Timer | None = None
        self._late = False
        self._go_on()

    def _go_on(self) -> None:
        while self._hooks:
            try:
                self._start(self._hooks[0])
                return
            except PrecreateError as error:
                if self._failed(error):
                    return
        self.spec.complete(self._now)

    def _start(self, named: Named) -> None:
        """Starts a hook: what it is given is what its file says and no more. Raises PrecreateError."""
        hook = named.hook
        limit = self._deadline if hook.timeout is None else min(self._deadline, self._loop.time() + hook.timeout)
        if limit <= self._loop.time():
            raise PrecreateError(named.path, "no time was left")
        path = self._policy.host_root.rstrip("/") + hook.path
        environment = dict(variable.partition("=")[::2] for variable in hook.env)
        try:
            process = Process(
                self._loop,
                path,
                hook.args or (hook.path,),
                environment,
                self._ended,
                lambda line: log.info("%s: %s", named.file, line),
            )
        except OSError as error:
            raise PrecreateError(named.path, f"{path}: {error.strerror}") from None
        process.feed(self._text)
        self._late = False
        self._timer = self._loop.call_at(limit, lambda: self._kill(process))

    def _kill(self, process: Process) -> None:
        self._late = True
        process.kill()

    def _ended(self, process: Process) -> None:
        if self._timer is not None:
            self._timer.cancel()
        named = self._hooks[0]
        try:
            self._take(named, process)
        except PrecreateError as error:
            if self._failed(error):
                return
        else:
            del self._hooks[0]
        self._go_on()

    def _take(self, named: Named, process: Process) -> None:
        """Takes the spec that a hook has printed. Raises PrecreateError, and has taken nothing then."""
        if self._late:
            raise PrecreateError(named.path, f"not done within {self._loop.time() - process.started:.1f} s")
        if process.status != 0:  # whatever it has printed, as with podman
            raise PrecreateError(named.path, process.ending)
        if process.too_long:
            raise PrecreateError(named.path, f"more than {MAX_STDOUT} bytes")
        try:
            spec = _decode(process.stdout)
            refuse_unknown(oci.adjustment(self._before, spec), self._policy.nri)
        except (ValueError, NotAdjustable) as error:
            raise PrecreateError(named.path, str(error)) from None
        except Exception:  # whatever a hook prints must cost nobody but itself
            log.exception("a bug: what %s has printed cannot be read", named.path)
            raise PrecreateError(named.path, "its output meets a bug of the adapter, which has logged it") from None
        self._now, self._text = spec, process.stdout

    def _failed(self, error: PrecreateError) -> bool:
        """Goes on without the current hook, or ends with its failure; returns whether that is so."""
        del self._hooks[0]
        log.error("%s%s", error, "" if self._policy.fail else " (tolerated)")
        if self._policy.fail:
            self._hooks.clear()
            self.spec.fail(error)
        return self._policy.fail


def _encode(spec: Mapping[str, Any]) -> bytes:
    return json.dumps(spec, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _decode(text: bytes) -> oci.Spec:
    """Returns the spec that a hook has printed. Raises ValueError."""
    spec = gojson.plain(gojson.decode(text, levels=1)) if text.strip() else None
    if not isinstance(spec, dict):
        raise ValueError("its output is no object" if text.strip() else "no output")
    return spec
