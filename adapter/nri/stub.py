"""A plugin's session with a runtime: a `Stub` connects a `Plugin` with the wire protocol.

The stub does no input or output: it gets bytes from its caller, and passes bytes to a function.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from threading import Lock
from typing import Any

from google.protobuf.message import DecodeError, Message

from nri import events
from nri.deferred import Answer, Deferred, in_turn
from nri.errors import CallError, MessageTooLarge, NRIError, RegistrationError, let_go_of_frames
from nri.plugin import Context, Plugin
from nri.proto import nri_pb2 as api
from nri.wire import PLUGIN_SERVICE, RUNTIME_SERVICE, Code, Connection, Reply, Request

log = logging.getLogger(__name__)

NRI_VERSION = "v0.12.5"
"""The NRI version of proto/nri.proto. Runtimes only log it."""
DEFAULT_REGISTRATION_TIMEOUT = 5.0
DEFAULT_REQUEST_TIMEOUT = 2.0
"""Seconds, for runtimes that report no timeouts (NRI <= 0.6)."""
MAX_STATE = 64 << 20
"""Maximum bytes of the parts of a Synchronize."""
UPDATES_PER_CALL = 3 << 20
"""Maximum bytes of updates in one message. More updates go into further messages."""


class Stub:
    """A plugin's session with a runtime: registration, configuration, synchronisation, events.

    `write` gets the bytes for the runtime. `register`, `receive_data`, `update_containers` and the completion of a
    Deferred call it, never from two threads at once.
    """

    def __init__(
        self,
        plugin: Plugin,
        name: str,
        idx: str,
        write: Callable[[bytes], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Takes the plugin, its name, its two-digit index `idx` (lower ones are called first), and `write`."""
        self.name, self.idx = name, idx
        self.synchronized = False
        """Whether the runtime has called Synchronize: events follow."""
        self.request_timeout = DEFAULT_REQUEST_TIMEOUT
        self.registration_timeout = DEFAULT_REGISTRATION_TIMEOUT
        self._plugin = plugin
        self._write = write
        self._clock = clock
        self._connection = Connection(serve=PLUGIN_SERVICE, call=RUNTIME_SERVICE)
        self._lock = Lock()
        self._parts: list[bytes] = []
        """The parts of a Synchronize so far."""
        self._waiting: dict[int, Callable[[Reply], None]] = {}
        self._unanswered: set[int] = set()
        """The calls whose answers come later, by stream."""
        self._on_answered: Callable[[], object] | None = None

    def register(self) -> None:
        """Registers the plugin. From now on the stub serves calls: Configure may come before the answer."""
        request = api.RegisterPluginRequest(plugin_name=self.name, plugin_idx=self.idx, NRI_version=NRI_VERSION)
        self._call("RegisterPlugin", request, self._on_registered, self.registration_timeout)

    def receive_data(self, data: bytes, came: float | None = None, *, is_heard: bool = True) -> None:
        """Takes bytes from the runtime, calls handlers, writes their answers.

        The time of the calls counts from `came`, the earliest time at which the bytes may have come, on the stub's
        clock. By default that is now. `is_heard` is false if the runtime has closed the connection. Raises
        RemoteProtocolError if the stream is broken, and RegistrationError if the runtime refuses the plugin: the caller
        must then close the trunk.
        """
        came = self._clock() if came is None else came
        for event in self._connection.receive_data(data):
            if isinstance(event, Request):
                self._serve(event, came, is_heard)
            else:
                self._waiting.pop(event.stream_id)(event)
        if self._connection.out:  # an invalid request was refused
            self._flush()

    def update_containers(
        self,
        updates: Iterable[api.ContainerUpdate],
        done: Callable[[list[api.ContainerUpdate], CallError | None], None] | None = None,
    ) -> None:
        """Asks the runtime to update containers, in as many UpdateContainers calls as the size needs.

        `done(failed, error)` is called once per call. A handler must not wait for it: events that must be served first
        may come before the answer. With NRI <= 0.12.0 the call can deadlock the runtime for ever.
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

        for batch in batches(updates):
            self._call("UpdateContainers", api.UpdateContainersRequest(update=batch), answered, self.request_timeout)

    def when_answered(self, callback: Callable[[], object]) -> None:
        """Calls back when all calls of the runtime have been answered, or now if they already are."""
        self._on_answered = callback
        self._tell_if_answered()

    def _tell_if_answered(self) -> None:
        if self._on_answered is not None and not self._unanswered:
            callback, self._on_answered = self._on_answered, None
            callback()

    def _call(self, method: str, request: Message, answered: Callable[[Reply], None], timeout: float) -> None:
        with self._lock:
            stream_id = self._connection.call(events.RUNTIME, method, request.SerializeToString(), timeout)
            self._waiting[stream_id] = answered
        self._flush()

    def _on_registered(self, reply: Reply) -> None:
        if reply.code != Code.OK:
            raise RegistrationError(f"the runtime refused plugin {self.idx}-{self.name}: {reply.message}")

    def _serve(self, request: Request, came: float, is_heard: bool) -> None:
        stream_id = request.stream_id
        call = events.CALLS.get(request.method) if request.service == events.PLUGIN else None
        if call is None:
            self._refuse(stream_id, Code.UNIMPLEMENTED, f"no method {request.service}/{request.method}")
            return
        timeout = self.request_timeout if request.timeout is None else request.timeout
        reserve, size = self._plugin.reserve, len(request.payload)
        context = Context(call.method, timeout, self._clock, came, reserve, size, request.metadata)
        context.is_heard = is_heard
        try:
            message = call.request.FromString(request.payload)
        except DecodeError as error:
            self._refuse(stream_id, Code.INTERNAL, f"undecodable {call.request.DESCRIPTOR.name}: {error}")
            return
        try:
            if call.event:
                answer = self._run(call.handler, message, context)
            else:
                answer = self._control(call, message, request.payload, context)
        except Exception as error:  # the exception is the answer to the call
            self._answer(stream_id, context, None, error)
            return
        if isinstance(answer, Deferred):
            self._unanswered.add(stream_id)
            answer.then(partial(self._settle, stream_id, context))  # without the payload, which may be large
        else:
            self._answer(stream_id, context, answer)

    def _control(self, call: events.Call, message: Any, payload: bytes, context: Context) -> Any:
        """Serves a call that is no event of its own."""
        if call.method == "StateChange":
            return self._state_change(message, context)
        if call.method == "Configure":
            return self._configure(message, context)
        if call.method == "Synchronize":
            return self._synchronize(message, payload, context)
        return self._run(call.handler)

    def _run(self, handler: str, *arguments: Any) -> Any:
        return getattr(self._plugin, handler)(*arguments)

    def _state_change(self, change: api.StateChangeEvent, context: Context) -> Any:
        """Serves an event of NRI <= 0.11 with the handler of the dedicated call; ignores an unknown event."""
        call = events.BY_EVENT.get(change.event)
        if call is None:
            return None
        context.method = call.method
        known = call.request.DESCRIPTOR.fields_by_name
        fields = {field.name: part for field, part in change.ListFields() if field.name in known}
        return self._run(call.handler, call.request(**fields), context)

    def _configure(self, request: api.ConfigureRequest, context: Context) -> Answer[api.ConfigureResponse]:
        if request.registration_timeout > 0:
            self.registration_timeout = request.registration_timeout / 1000
        if request.request_timeout > 0:
            self.request_timeout = request.request_timeout / 1000

        def steps() -> Generator[Answer[api.ConfigureResponse], Any, api.ConfigureResponse]:
            return self._subscribe(request, (yield self._run("configure", request, context)))

        return in_turn(steps())

    def _subscribe(
        self, request: api.ConfigureRequest, response: api.ConfigureResponse | None
    ) -> api.ConfigureResponse:
        """Completes the answer to Configure with the events of the handlers, as far as the runtime knows them."""
        if response is None:
            response = api.ConfigureResponse()
        _check("Configure", response)
        wanted = response.events or self._plugin.subscription()
        known = events.KNOWN_SINCE_0_10 if request.NRI_version else events.KNOWN_TO_ALL
        # An empty mask would mean every event. RemovePodSandbox is the rarest event.
        response.events = wanted & known or events.mask(["RemovePodSandbox"])
        if not response.HasField("failure_policy"):
            response.failure_policy.CopyFrom(self._plugin.failure_policy)
        return response

    def _synchronize(self, part: api.SynchronizeRequest, payload: bytes, context: Context) -> Any:
        """Joins the parts. The joined bytes of messages are the bytes of the joined message."""
        self._parts.append(payload)
        if sum(map(len, self._parts)) > MAX_STATE:
            self._parts.clear()
            raise CallError(Code.RESOURCE_EXHAUSTED, f"Synchronize: more than {MAX_STATE} bytes in parts")
        if part.more:
            return api.SynchronizeResponse(more=True)
        whole = part if len(self._parts) == 1 else api.SynchronizeRequest.FromString(b"".join(self._parts))
        self._parts.clear()
        whole.more = False
        self.synchronized = True
        return self._run("synchronize", whole, context)

    def _settle(self, stream_id: int, context: Context, reply: Any, error: Exception | None) -> None:
        self._answer(stream_id, context, reply, error)
        self._unanswered.discard(stream_id)
        if self._on_answered is not None:
            self._tell_if_answered()

    def _answer(self, stream_id: int, context: Context, reply: Any, error: Exception | None = None) -> None:
        """Answers a call."""
        context.status = self._write_answer(stream_id, context, reply, error)
        self._plugin.answered(context)

    def _write_answer(self, stream_id: int, context: Context, reply: Any, error: Exception | None) -> int:
        """Returns the status of the answer."""
        if error is None and reply is not None:
            try:
                _check(context.method, reply)
            except TypeError as wrong:
                error = wrong
        if error is not None:
            code, text = status_of(error, f"{self.idx}-{self.name}")
            if not isinstance(error, NRIError):
                traced = {"trace_id": context.trace_id} if context.trace_id else None
                log.error("%s: %s", context.method, text, exc_info=error, extra=traced)
            self._refuse(stream_id, code, text)
            let_go_of_frames(error)
            return code
        try:
            with self._lock:
                self._connection.respond(stream_id, b"" if reply is None else reply.SerializeToString())
                self._write(self._connection.data_to_send())
        except MessageTooLarge as too_large:
            self._refuse(stream_id, Code.RESOURCE_EXHAUSTED, f"{context.method}: {too_large}")
            return Code.RESOURCE_EXHAUSTED
        return Code.OK

    def _refuse(self, stream_id: int, code: int, text: str) -> None:
        with self._lock:
            self._connection.fail(stream_id, code, text)
            self._write(self._connection.data_to_send())

    def _flush(self) -> None:
        with self._lock:
            data = self._connection.data_to_send()
            if data:
                self._write(data)


def _check(method: str, reply: object) -> None:
    call = events.CALLS[method]
    if not isinstance(reply, call.response):
        raise TypeError(f"{call.handler} has returned a {type(reply).__name__}, not {call.response.DESCRIPTOR.name}")


def status_of(error: Exception, plugin: str) -> tuple[int, str]:
    """Returns the ttRPC status for an exception of a handler. The text of an unexpected one names plugin and type.

    The status is never UNIMPLEMENTED: NRI >= 0.12 would then send all further events as StateChange
    (pkg/adaptation/plugin.go, wrapOrigImpl).
    """
    if isinstance(error, CallError) and error.code not in (Code.OK, Code.UNIMPLEMENTED):
        return error.code, error.message
    origin = () if isinstance(error, NRIError) else (plugin, type(error).__name__)
    return Code.UNKNOWN, ": ".join(filter(None, (*origin, str(error)))) or type(error).__name__


def batches(updates: Iterable[api.ContainerUpdate]) -> Iterator[list[api.ContainerUpdate]]:
    """Yields the updates in parts, each of which fits an UpdateContainers call."""
    batch, size = list[api.ContainerUpdate](), 0
    for update in updates:
        length = api.UpdateContainersRequest(update=[update]).ByteSize()
        if batch and size + length > UPDATES_PER_CALL:
            yield batch
            batch, size = [], 0
        batch.append(update)
        size += length
    if batch:
        yield batch
