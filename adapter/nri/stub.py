"""The plugin side of NRI: subclass `Plugin`, override the events you want, give it to a `Stub` or to `run`.

The stub speaks the protocol without doing any input or output: it takes bytes and hands bytes to a function.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any

from google.protobuf.message import DecodeError, Message

from adapter.errors import AdapterError, CallError, MessageTooLarge, RegistrationError
from adapter.nri import events
from adapter.nri.deferred import Answer, Deferred
from adapter.proto import nri_pb2 as api
from adapter.wire import PLUGIN_SERVICE, RUNTIME_SERVICE, Code, Connection, Reply, Request

log = logging.getLogger(__name__)

NRI_VERSION = "v0.12.5"
"""The version of the protocol in proto/nri.proto; runtimes only log it."""
DEFAULT_REGISTRATION_TIMEOUT = 5.0
DEFAULT_REQUEST_TIMEOUT = 2.0
"""Seconds; what runtimes use that do not tell (NRI <= 0.6)."""
MARGIN = 0.1
"""Seconds before a call's deadline at which its answer should go out at the latest."""
UPDATES_PER_CALL = 3 << 20
"""Bytes of updates in one message: what is more goes into the next."""


class Context:
    """What a handler knows of its call besides the request."""

    __slots__ = ("_clock", "deadline", "due", "method")

    def __init__(self, method: str, deadline: float, clock: Callable[[], float]) -> None:
        """Takes the method's name and the deadline on `clock`, time.monotonic unless a test says otherwise."""
        self.method = method
        self.deadline = deadline
        self.due = deadline - min(MARGIN, max(deadline - clock(), 0) / 2)
        """When the answer should go out at the latest, on the same clock: a little before the deadline."""
        self._clock = clock

    def remaining(self) -> float:
        """Returns the seconds until the runtime gives up waiting; negative afterwards."""
        return self.deadline - self._clock()


class Plugin:
    """An NRI plugin. The events that a subclass overrides are the ones it is subscribed to.

    A handler gets the request as NRI's message and returns the response, a `Deferred`, or None. What it raises
    becomes the error of the call: status UNKNOWN with the exception's own text, or what a `CallError` says.
    """

    failure_policy = api.FailurePolicy(keep_connected=True)
    """What the runtime shall do when no answer comes in time (NRI >= 0.12.4)."""

    def configure(self, request: api.ConfigureRequest, context: Context) -> api.ConfigureResponse | None:
        """The runtime introduces itself. A response with `events` set replaces the subscription by overriding."""

    def synchronize(self, request: api.SynchronizeRequest, context: Context) -> Answer[api.SynchronizeResponse]:
        """The pods and containers there are, all parts joined. Called once, before the first event."""

    def shutdown(self) -> None:
        """The runtime goes down. Today's runtimes never say so."""

    def run_pod_sandbox(self, request: api.RunPodSandboxRequest, context: Context) -> Answer[api.RunPodSandboxResponse]:
        """A pod's sandbox was started."""

    def update_pod_sandbox(
        self, request: api.UpdatePodSandboxRequest, context: Context
    ) -> Answer[api.UpdatePodSandboxResponse]:
        """A pod's resources are about to change. NRI >= 0.10; asked for only of runtimes that say 0.12 or later."""

    def post_update_pod_sandbox(
        self, request: api.PostUpdatePodSandboxRequest, context: Context
    ) -> Answer[api.PostUpdatePodSandboxResponse]:
        """A pod's resources have changed. Availability as of update_pod_sandbox."""

    def stop_pod_sandbox(
        self, request: api.StopPodSandboxRequest, context: Context
    ) -> Answer[api.StopPodSandboxResponse]:
        """A pod's sandbox was stopped."""

    def remove_pod_sandbox(
        self, request: api.RemovePodSandboxRequest, context: Context
    ) -> Answer[api.RemovePodSandboxResponse]:
        """A pod is removed."""

    def create_container(
        self, request: api.CreateContainerRequest, context: Context
    ) -> Answer[api.CreateContainerResponse]:
        """A container is about to be created; the response may adjust it and update others."""

    def post_create_container(
        self, request: api.PostCreateContainerRequest, context: Context
    ) -> Answer[api.PostCreateContainerResponse]:
        """A container was created."""

    def start_container(
        self, request: api.StartContainerRequest, context: Context
    ) -> Answer[api.StartContainerResponse]:
        """A created container is about to start; its process exists and waits."""

    def post_start_container(
        self, request: api.PostStartContainerRequest, context: Context
    ) -> Answer[api.PostStartContainerResponse]:
        """A container was started."""

    def update_container(
        self, request: api.UpdateContainerRequest, context: Context
    ) -> Answer[api.UpdateContainerResponse]:
        """A container's resources are about to change; the response may change how."""

    def post_update_container(
        self, request: api.PostUpdateContainerRequest, context: Context
    ) -> Answer[api.PostUpdateContainerResponse]:
        """A container's resources have changed."""

    def stop_container(self, request: api.StopContainerRequest, context: Context) -> Answer[api.StopContainerResponse]:
        """A container has ended; the response may update others."""

    def remove_container(
        self, request: api.RemoveContainerRequest, context: Context
    ) -> Answer[api.RemoveContainerResponse]:
        """A container is removed."""

    def validate_container_adjustment(
        self, request: api.ValidateContainerAdjustmentRequest, context: Context
    ) -> Answer[api.ValidateContainerAdjustmentResponse]:
        """What plugins want of a container; the response may reject it. Availability as of update_pod_sandbox."""

    def subscription(self) -> int:
        """Returns the event mask of the handlers that this class overrides."""
        return events.mask(
            call.method
            for call in events.BY_EVENT.values()
            if getattr(type(self), call.handler) is not getattr(Plugin, call.handler)
        )


class Stub:
    """One plugin's session with a runtime: registration, configuration, synchronisation, events.

    `write` gets the bytes for the runtime; it is called by `register`, `receive_data`, `update_containers` and by
    whoever completes a Deferred, never by two threads at once.
    """

    def __init__(
        self,
        plugin: Plugin,
        name: str,
        idx: str,
        write: Callable[[bytes], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Takes the plugin, its name, its two-digit `idx` (lower ones are called first), and where bytes go."""
        self.name, self.idx = name, idx
        self.registered = False
        """Whether the runtime has accepted the registration."""
        self.synchronized = False
        """Whether the plugin has been told the state of the node: events follow."""
        self.request_timeout = DEFAULT_REQUEST_TIMEOUT
        self.registration_timeout = DEFAULT_REGISTRATION_TIMEOUT
        self._plugin = plugin
        self._write = write
        self._clock = clock
        self._connection = Connection(serve=PLUGIN_SERVICE, call=RUNTIME_SERVICE)
        self._lock = Lock()
        self._parts: api.SynchronizeRequest | None = None
        self._waiting: dict[int, Callable[[Reply], None]] = {}

    def register(self) -> None:
        """Introduces the plugin. The stub serves from now on: Configure may come before the answer does."""
        request = api.RegisterPluginRequest(plugin_name=self.name, plugin_idx=self.idx, NRI_version=NRI_VERSION)
        self._call("RegisterPlugin", request, self._on_registered, self.registration_timeout)

    def receive_data(self, data: bytes) -> None:
        """Takes bytes of the runtime, calls handlers, writes their answers.

        Raises RemoteProtocolError when the stream is broken and RegistrationError when the plugin is refused; the
        trunk is then to be closed.
        """
        for event in self._connection.receive_data(data):
            if isinstance(event, Request):
                self._serve(event)
                self._flush()
            else:
                self._waiting.pop(event.stream_id)(event)
        self._flush()

    def update_containers(
        self,
        updates: Iterable[api.ContainerUpdate],
        done: Callable[[list[api.ContainerUpdate], CallError | None], None] | None = None,
    ) -> None:
        """Asks the runtime to update containers, unsolicited, in as many calls as their size needs.

        `done(failed, error)` is called once per call. Do not wait for it in a handler: the answer may stand behind
        events that must be served first, and with NRI <= 0.12.0 the call can deadlock the runtime for ever.
        """

        def answered(reply: Reply) -> None:
            failed: list[api.ContainerUpdate] = []
            error = CallError(reply.code, reply.message) if reply.code else None
            try:
                failed = list(api.UpdateContainersResponse.FromString(reply.payload).failed)
            except DecodeError as why:
                error = error or CallError(Code.INTERNAL, f"undecodable UpdateContainersResponse: {why}")
            if done is not None:
                done(failed, error)

        for batch in _batches(updates):
            self._call("UpdateContainers", api.UpdateContainersRequest(update=batch), answered, self.request_timeout)

    def _call(self, method: str, request: Message, answered: Callable[[Reply], None], timeout: float) -> None:
        with self._lock:
            stream_id = self._connection.call(events.RUNTIME, method, request.SerializeToString(), timeout)
            self._waiting[stream_id] = answered
        self._flush()

    def _on_registered(self, reply: Reply) -> None:
        if reply.code != Code.OK:
            raise RegistrationError(f"the runtime refused plugin {self.idx}-{self.name}: {reply.message}")
        self.registered = True

    def _serve(self, request: Request) -> None:
        now = self._clock()
        call = events.CALLS.get(request.method) if request.service == events.PLUGIN else None
        if call is None:
            self._refuse(request, Code.UNIMPLEMENTED, f"no method {request.service}/{request.method}")
            return
        try:
            message = call.request.FromString(request.payload)
        except DecodeError as error:
            self._refuse(request, Code.INTERNAL, f"undecodable {call.request.DESCRIPTOR.name}: {error}")
            return
        timeout = self.request_timeout if request.timeout is None else request.timeout
        context = Context(call.method, now + timeout, self._clock)
        try:
            answer = self._handle(call, message, context)
        except Exception as error:  # whatever a handler raises is the answer to its call
            self._fail(request, error)
            return
        if isinstance(answer, Deferred):
            answer.then(lambda reply, error: self._settle(request, reply, error))
        else:
            self._respond(request, answer)

    def _handle(self, call: events.Call, message: Any, context: Context) -> Any:
        if call.method == "StateChange":
            return self._state_change(message, context)
        if call.event:
            return getattr(self._plugin, call.handler)(message, context)
        if call.method == "Configure":
            return self._configure(message, context)
        if call.method == "Synchronize":
            return self._synchronize(message, context)
        return self._plugin.shutdown()

    def _state_change(self, change: api.StateChangeEvent, context: Context) -> Any:
        """Serves the older generation of an event through the newer one's handler; an unknown event is let pass."""
        call = events.BY_EVENT.get(change.event)
        if call is None:
            return None
        context.method = call.method
        known = call.request.DESCRIPTOR.fields_by_name
        fields = {field.name: part for field, part in change.ListFields() if field.name in known}
        return getattr(self._plugin, call.handler)(call.request(**fields), context)

    def _configure(self, request: api.ConfigureRequest, context: Context) -> api.ConfigureResponse:
        if request.registration_timeout > 0:
            self.registration_timeout = request.registration_timeout / 1000
        if request.request_timeout > 0:
            self.request_timeout = request.request_timeout / 1000
        response = self._plugin.configure(request, context) or api.ConfigureResponse()
        wanted = response.events or self._plugin.subscription()
        # An empty mask would mean every event; the removal of pods is the rarest there is.
        response.events = wanted & events.known(request.NRI_version) or events.mask(["RemovePodSandbox"])
        if not response.HasField("failure_policy"):
            response.failure_policy.CopyFrom(self._plugin.failure_policy)
        return response

    def _synchronize(self, part: api.SynchronizeRequest, context: Context) -> Any:
        whole = part
        if self._parts is not None:
            whole = self._parts
            whole.MergeFrom(part)
        if part.more:
            self._parts = whole
            return api.SynchronizeResponse(more=True)
        self._parts = None
        whole.more = False
        self.synchronized = True
        return self._plugin.synchronize(whole, context)

    def _settle(self, request: Request, reply: Any, error: Exception | None) -> None:
        if error is not None:
            self._fail(request, error)
        else:
            self._respond(request, reply)
        self._flush()

    def _respond(self, request: Request, reply: Any) -> None:
        if reply is not None and not isinstance(reply, Message):
            self._fail(request, TypeError(f"the handler returned a {type(reply).__name__}"))
            return
        rest: list[api.ContainerUpdate] = []
        if isinstance(reply, api.SynchronizeResponse) and reply.ByteSize() > UPDATES_PER_CALL:
            # Only the answer to the last part may carry updates: what does not fit follows on its own.
            first = _batches(reply.update)[0]
            rest = list(reply.update)[len(first) :]
            reply = api.SynchronizeResponse(update=first)
        try:
            with self._lock:
                self._connection.respond(request.stream_id, b"" if reply is None else reply.SerializeToString())
        except MessageTooLarge as error:
            self._refuse(request, Code.RESOURCE_EXHAUSTED, f"{request.method}: {error}")
        if rest:
            self._update_later(rest)

    def _update_later(self, rest: list[api.ContainerUpdate]) -> None:
        for batch in _batches(rest):
            try:
                self.update_containers(batch)
            except MessageTooLarge as error:
                log.error("an update of container %s: %s", batch[0].container_id, error)

    def _fail(self, request: Request, error: Exception) -> None:
        code, text = status_of(error)
        if not isinstance(error, AdapterError):
            log.error("%s: %s", request.method, text, exc_info=error)
        self._refuse(request, code, text)

    def _refuse(self, request: Request, code: int, text: str) -> None:
        with self._lock:
            self._connection.fail(request.stream_id, code, text)

    def _flush(self) -> None:
        with self._lock:
            data = self._connection.data_to_send()
            if data:
                self._write(data)


def status_of(error: Exception) -> tuple[int, str]:
    """Returns the ttRPC status that an exception of a handler becomes: the one place that maps them.

    A handler's error is never UNIMPLEMENTED: to NRI >= 0.12 that says that the plugin is of the older generation,
    for all events to come (pkg/adaptation/plugin.go, wrapOrigImpl).
    """
    if isinstance(error, CallError) and error.code not in (Code.OK, Code.UNIMPLEMENTED):
        return error.code, error.message
    return Code.UNKNOWN, str(error) or type(error).__name__


def _batches(updates: Iterable[api.ContainerUpdate]) -> list[list[api.ContainerUpdate]]:
    batches: list[list[api.ContainerUpdate]] = [[]]
    size = 0
    for update in updates:
        length = update.ByteSize() + 8
        if batches[-1] and size + length > UPDATES_PER_CALL:
            batches.append([])
            size = 0
        batches[-1].append(update)
        size += length
    return [batch for batch in batches if batch]
