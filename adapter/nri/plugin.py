"""An NRI plugin: a class with a handler for each event, and the context of a call."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from nri import events
from nri.deferred import Answer
from nri.errors import NRIError, nearest
from nri.proto import nri_pb2 as api

if TYPE_CHECKING:
    from nri.holding.holds import Hold, OnFailure
    from nri.updating import Updating

T = TypeVar("T")

RESERVE = 0.1
"""Seconds. The answer to a call should be sent this long before the call's deadline, or earlier."""

_SPAN = "(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
_TRACEPARENT = re.compile(f"00-{_SPAN}|(?!00|ff)[0-9a-f]{{2}}-{_SPAN}(-[!-~]*)?")
"""Version, trace, span, flags. A later version may have more fields (W3C Trace Context, 3.2)."""

Handled: TypeAlias = Answer[T] | Coroutine[Any, Any, T | None]
"""What a handler returns: an `Answer`, or the coroutine of an `async def` handler."""


class Context:
    """The method, the deadline and the metadata of a call."""

    __slots__ = (
        *("_clock", "_most", "_pairs", "_reserve", "came", "deadline", "due", "holder", "is_answered", "is_heard"),
        *("method", "size", "status"),
    )

    def __init__(
        self,
        method: str,
        timeout: float,
        clock: Callable[[], float],
        came: float,
        reserve: float = RESERVE,
        size: int = 0,
        metadata: Iterable[tuple[str, str]] = (),
    ) -> None:
        """Takes the method's name, the timeout in seconds, the clock, and when the call came on that clock.

        `reserve` is in seconds, too. The clock is time.monotonic, except in tests. `metadata` has keys and values.
        """
        self.method = method
        """The name of the call or event, such as `StartContainer`."""
        self.deadline = came + timeout
        """When the runtime stops waiting for the answer, in seconds on the clock."""
        self._reserve, self._most = reserve, max(timeout, 0) / 2
        self.due = self.deadline - min(reserve, self._most)
        """When the answer should be sent at the latest, on the same clock: a little before the deadline."""
        self.is_heard = True
        """False if the runtime has closed the connection, so that it does not get the answer."""
        self.status = 0
        """The status of the answer, once it has been sent: 0 for a reply, else see `nri.wire.Code`."""
        self.size = size
        """The bytes of the request, as the runtime has sent it; 0 in tests that give none."""
        self.came = came
        """The earliest time at which the call may have come, in seconds on the clock."""
        self.is_answered = False
        """Whether the event was answered by `hold`, before its handler has ended."""
        self.holder: Callable[[float, OnFailure], Hold] | None = None
        """Set by `run` and `serve` for a StartContainer of a plugin with `holds`; `hold` calls it."""
        self._clock = clock
        self._pairs = metadata

    @property
    def metadata(self) -> dict[str, list[str]]:
        """The metadata of the call: the values of each key, in the order in which the runtime has sent them.

        Keys are in lower case (containerd/ttrpc metadata.go). Runtimes that trace send `traceparent` and `tracestate`
        here: `opentelemetry.propagate.extract(context.metadata)` returns the runtime's span as OpenTelemetry's context.
        """
        metadata: dict[str, list[str]] = {}
        for key, value in self._pairs:
            metadata.setdefault(key.lower(), []).append(value)
        return metadata

    @property
    def traceparent(self) -> str | None:
        """The runtime's span, as W3C Trace Context writes it; None if the runtime does not trace the call."""
        match self.metadata.get("traceparent") if self._pairs else None:
            case [sent] if _TRACEPARENT.fullmatch(sent):
                return sent
        return None

    @property
    def trace_id(self) -> str:
        """The 32 hexadecimal digits of the runtime's trace, empty if the runtime does not trace the call."""
        return (self.traceparent or "").partition("-")[2][:32]

    @property
    def has_failed(self) -> bool:
        """Whether the answer is an error, once it has been sent."""
        return self.status != 0

    def hold(self, limit: float = 30.0, on_failure: OnFailure = "fail") -> Hold:
        """Answers StartContainer, and keeps the container from starting until the returned `Hold` is ended.

        The runtime is free to serve other pods meanwhile. The hold ends after `limit` seconds, at most 90, or with the
        plugin's program, by `on_failure`: `fail` refuses the container, `ignore` lets it start. To be called in a
        handler `start_container` of a plugin with `holds = True`, under `run` or `serve`. What the handler returns
        afterwards is not used, its exception is logged.

        Raises NotHeld, which names the evidence that is missing: the event is not answered yet, and the handler may
        go on. Raises ValueError for a wrong limit, NRIError elsewhere than in such a handler.
        """
        if self.holder is None:
            raise NRIError("only `start_container` of a plugin with `holds = True`, under `run` or `serve`, can hold")
        return self.holder(limit, on_failure)

    def be_due_earlier(self, seconds: float) -> None:
        """Makes `due` earlier, because making the answer takes time; half of the timeout at most."""
        self._reserve += seconds
        self.due = self.deadline - min(self._reserve, self._most)

    def elapsed(self) -> float:
        """Returns the seconds since the call came."""
        return self._clock() - self.came

    def remaining(self) -> float:
        """Returns the seconds until the deadline; negative after it."""
        return self.deadline - self._clock()


_VARARGS = 0x04
"""The flag of code that takes any number of arguments. Importing `inspect`, which has it too, takes milliseconds."""
_SIMILAR, _OTHER_LETTERS = 0.85, 3
"""From this similarity on, and with no more other letters, the name of a method is a misspelt handler."""


def _fault(name: str, method: object) -> str:
    """Returns what is wrong with a method of a plugin's class, empty if nothing is."""
    code = getattr(method, "__code__", None)
    if code is None or name.startswith("_"):
        return ""
    known = {other: its.__code__ for other, its in vars(Plugin).items() if hasattr(its, "__code__")}
    if name not in known:
        same = (other for other in known if other.replace("_", "") == name.replace("_", "").lower())
        # Of the same letters, but a few: only then is it worth to import difflib.
        close = [other for other in known if len({*other} ^ {*name}) <= _OTHER_LETTERS]
        takes = [other for other in close if known[other].co_argcount == code.co_argcount]
        meant = next(same, "") or (nearest(name, takes, _SIMILAR) if takes else "")
        advice = f"did you mean `{meant}`? Begin the name of a method of your own with `_`"
        return f"is never called; {advice}" if meant else ""
    wanted = known[name].co_argcount
    required = code.co_argcount - len(getattr(method, "__defaults__", None) or ())
    fits = required <= wanted and (wanted <= code.co_argcount or code.co_flags & _VARARGS)
    has_keywords = code.co_kwonlyargcount > len(getattr(method, "__kwdefaults__", None) or ())
    return "" if fits and not has_keywords else f"must take ({', '.join(known[name].co_varnames[:wanted])})"


class Plugin:
    """An NRI plugin. A subclass is subscribed to the events whose handlers it overrides.

    A handler gets NRI's request message and the call's `Context`. It returns the response, a `Deferred`, or None for an
    empty response. An exception becomes the error of the call: a `CallError` has its own status, any other exception
    has UNKNOWN and the exception's text. Under `serve`, handlers and hooks may be `async def`.
    """

    def __init_subclass__(cls) -> None:
        """Raises TypeError for a method that looks like a handler and is never called, or that a call would fail."""
        super().__init_subclass__()
        for name, method in vars(cls).items():
            if fault := _fault(name, method):
                raise TypeError(f"{cls.__name__}.{name} {fault}")

    reserve = RESERVE
    """Seconds from `Context.due` to the call's deadline."""
    holds = False
    """Whether `start_container` may hold containers, by `Context.hold`.

    Such a plugin is subscribed to StopContainer and StopPodSandbox: they refuse a container that is held. Before it
    joins, it ends the holds that were left when it was killed.
    """
    hold_directory = ""
    """The directory of the records of holds, which only this plugin may use.

    By default it is `holds` in $RUNTIME_DIRECTORY, which systemd sets, else `/run/nri-holds/NN-NAME`.
    """
    failure_policy = api.FailurePolicy(keep_connected=True)
    """Tells the runtime (NRI >= 0.12.4) what to do if an answer does not come in time."""
    ask_for_updates: Callable[[Iterable[api.ContainerUpdate]], Updating] | None = None
    """Set by `run` and `serve` while they have a connection; `update_containers` calls it."""

    def update_containers(self, updates: Iterable[api.ContainerUpdate]) -> Updating:
        """Asks the runtime to update containers. May be called at any time and in any thread.

        The returned `Updating` later has the updates that failed. A handler must not wait for it, because the runtime
        may take updates only between two events. Updates that belong to an event go into the response of
        `create_container`, `update_container` or `stop_container`.

        Raises NRIError if the plugin has not joined a runtime, or if the runtime takes no such updates or may
        deadlock over them (NRI <= 0.12.0). Raises MessageTooLarge for one update of more than 4 MiB.
        """
        ask = self.ask_for_updates  # a lost connection sets it to None in another thread
        if ask is None:
            raise NRIError("the plugin has not joined a runtime that could update containers")
        return ask(updates)

    def on_join(self) -> Coroutine[Any, Any, None] | None:
        """The plugin has joined a runtime: its answer to Synchronize is on the way, events follow."""

    def on_disconnect(self, reason: str) -> Coroutine[Any, Any, None] | None:
        """The plugin had joined, and has lost the connection. `reason` is empty if the runtime has closed it."""

    def configure(self, request: api.ConfigureRequest, context: Context) -> Handled[api.ConfigureResponse]:
        """The runtime describes itself. `events` in the response replaces the subscription by overridden handlers."""

    def synchronize(self, request: api.SynchronizeRequest, context: Context) -> Handled[api.SynchronizeResponse]:
        """The existing pods and containers, with all parts joined. Called once, before the first event."""

    def shutdown(self) -> Coroutine[Any, Any, None] | None:
        """The runtime shuts down. Current runtimes never call this."""

    def run_pod_sandbox(
        self, request: api.RunPodSandboxRequest, context: Context
    ) -> Handled[api.RunPodSandboxResponse]:
        """A pod's sandbox was started."""

    def update_pod_sandbox(
        self, request: api.UpdatePodSandboxRequest, context: Context
    ) -> Handled[api.UpdatePodSandboxResponse]:
        """A pod's resources are about to change. Only from runtimes that report NRI 0.12 or later."""

    def post_update_pod_sandbox(
        self, request: api.PostUpdatePodSandboxRequest, context: Context
    ) -> Handled[api.PostUpdatePodSandboxResponse]:
        """A pod's resources have changed. Availability as of update_pod_sandbox."""

    def stop_pod_sandbox(
        self, request: api.StopPodSandboxRequest, context: Context
    ) -> Handled[api.StopPodSandboxResponse]:
        """A pod's sandbox was stopped."""

    def remove_pod_sandbox(
        self, request: api.RemovePodSandboxRequest, context: Context
    ) -> Handled[api.RemovePodSandboxResponse]:
        """A pod is removed."""

    def create_container(
        self, request: api.CreateContainerRequest, context: Context
    ) -> Handled[api.CreateContainerResponse]:
        """A container is about to be created; the response may adjust it and update others."""

    def post_create_container(
        self, request: api.PostCreateContainerRequest, context: Context
    ) -> Handled[api.PostCreateContainerResponse]:
        """A container was created."""

    def start_container(
        self, request: api.StartContainerRequest, context: Context
    ) -> Handled[api.StartContainerResponse]:
        """A created container is about to start; its process exists and waits."""

    def post_start_container(
        self, request: api.PostStartContainerRequest, context: Context
    ) -> Handled[api.PostStartContainerResponse]:
        """A container was started."""

    def update_container(
        self, request: api.UpdateContainerRequest, context: Context
    ) -> Handled[api.UpdateContainerResponse]:
        """A container's resources are about to change; the response may change how."""

    def post_update_container(
        self, request: api.PostUpdateContainerRequest, context: Context
    ) -> Handled[api.PostUpdateContainerResponse]:
        """A container's resources have changed."""

    def stop_container(self, request: api.StopContainerRequest, context: Context) -> Handled[api.StopContainerResponse]:
        """A container has ended; the response may update others."""

    def remove_container(
        self, request: api.RemoveContainerRequest, context: Context
    ) -> Handled[api.RemoveContainerResponse]:
        """A container is removed."""

    def validate_container_adjustment(
        self, request: api.ValidateContainerAdjustmentRequest, context: Context
    ) -> Handled[api.ValidateContainerAdjustmentResponse]:
        """Plugins have adjusted a container; the response may reject it. Availability as of update_pod_sandbox."""

    def answered(self, context: Context) -> None:
        """The answer to a call has been written. Called in the thread that has completed the answer."""

    def subscription(self) -> int:
        """Returns the event mask of the handlers that this class overrides, and of what `holds` needs."""
        return events.mask(
            call.method
            for call in events.BY_EVENT.values()
            if getattr(type(self), call.handler) is not getattr(Plugin, call.handler)
            or (self.holds and call.method in events.END_HOLDS)
        )
