"""One plugin as its runtime sees it, from its registration to its end.

Source of the rules: containerd/nri pkg/adaptation/plugin.go and plugin_type.go.
"""

from __future__ import annotations

import logging
import re
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from google.protobuf.message import Message

from adapter.errors import AdapterError, CallError, RegistrationError
from adapter.nri import api, events
from adapter.runtime.flavour import ALWAYS_DEDICATED, Flavour
from adapter.runtime.launch import Process
from adapter.runtime.link import Late, Link, Lost
from adapter.runtime.outcome import Answer
from adapter.runtime.synchronize import parts
from adapter.wire import Code, Request

log = logging.getLogger(__name__)

UpdateHandler = Callable[[str, list[api.ContainerUpdate]], Iterable[api.ContainerUpdate]]
"""Gets a plugin's `NN-NAME` and the updates that it asks for unsolicited; returns those that failed."""


class Plugin:
    """A plugin that is connected."""

    def __init__(
        self,
        trunk: socket.socket,
        flavour: Flavour,
        on_update: UpdateHandler,
        process: Process | None = None,
        name: str = "",
    ) -> None:
        """Takes our end of the trunk; of a launched plugin also its process and name, `NN-NAME`."""
        self.name = name
        self.process = process
        """The process of a plugin that we launched; None for an external one."""
        self.registered_as: api.RegisterPluginRequest | None = None
        self.events = 0
        """The mask of the events it wants, as it counts: 0 has become all."""
        self.policy = api.FailurePolicy()
        """The failure policy as it counts: an empty one where NRI is too old for it."""
        self.state_change = not flavour.dedicated
        """Whether it gets events of the older generation."""
        self._flavour = flavour
        self._on_update = on_update
        self._refused: CallError | None = None
        self._link = Link(trunk, self._handle)

    @property
    def closed(self) -> str:
        """Why the connection is closed, empty while it is not."""
        return self._link.closed

    def fileno(self) -> int:
        """Returns the trunk's descriptor, -1 once it is closed."""
        return self._link.fileno()

    def wants(self, event: int) -> bool:
        """Returns whether the plugin is subscribed to the event of this number."""
        return bool(self.events >> (event - 1) & 1)

    def register(self, timeout: float) -> None:
        """Waits for the plugin to introduce itself. Raises RegistrationError."""
        try:
            self._link.wait(lambda: self.registered_as is not None or self._refused is not None, timeout)
        except AdapterError as error:
            self.close(f"it did not register: {error}")
            raise RegistrationError(f"plugin {self.name or '?'} did not register: {error}") from None
        if self._refused is not None:
            raise RegistrationError(self._refused.message)  # and the connection stays open, as with containerd

    def configure(self, request: api.ConfigureRequest, timeout: float) -> None:
        """Configures the plugin and learns what it wants. Raises RegistrationError."""
        try:
            response = cast(api.ConfigureResponse, self._link.call(events.CALLS["Configure"], request, timeout))
            unknown = response.events & ~self._flavour.valid_events & 0xFFFFFFFF
            if unknown:
                raise CallError(Code.UNKNOWN, f"invalid plugin events: {unknown:#x}")
        except AdapterError as error:
            self.close(f"it failed to configure: {error}")
            raise RegistrationError(f"plugin {self.name} failed to configure: {error}") from None
        self.events = response.events or self._flavour.valid_events
        if self._flavour.failure_policies:
            self.policy = response.failure_policy

    def synchronize(
        self, pods: Sequence[api.PodSandbox], containers: Sequence[api.Container], timeout: float
    ) -> list[api.ContainerUpdate]:
        """Tells the plugin the state of the node, all parts within one timeout. Raises RegistrationError."""
        deadline = time.monotonic() + timeout
        response = api.SynchronizeResponse()
        try:
            for part in parts(pods, containers):
                answer = self._link.call(events.CALLS["Synchronize"], part, deadline - time.monotonic())
                response = cast(api.SynchronizeResponse, answer)
                if part.more and (response.update or not response.more):
                    raise CallError(Code.UNKNOWN, "it does not handle split sync requests")
        except AdapterError as error:
            self.close(f"it failed to synchronize: {error}")
            raise RegistrationError(f"plugin {self.name} failed to synchronize: {error}") from None
        return list(response.update)

    def relay(self, call: events.Call, request: Message, timeout: float) -> Answer:
        """Relays an event and applies the plugin's failure policy, should it not answer."""
        started = time.monotonic()
        reply: Message | None = None
        text, fails = "", False
        try:
            reply = self._event(call, request, timeout)
        except CallError as error:  # which is an answer: the plugin is alive and well
            text, fails = error.message, True
        except (Late, Lost) as error:
            text = f"plugin {self.name} failed to handle {call.method} request: {error}"
            fails = self.policy.fail_request
            if not self.policy.keep_connected:  # which is about being late: what is lost is closed already
                self.close(text)
        return Answer(self.name, reply, text, fails, time.monotonic() - started)

    def serve(self) -> None:
        """Handles what the plugin has sent since the last call, and notices if it is gone."""
        try:
            self._link.serve()
        except Lost as lost:
            log.info("connection to plugin %s closed: %s", self.name, lost)

    def close(self, reason: str) -> None:
        """Closes the connection; only the first reason counts. The process is left alone."""
        self._link.close(reason)

    def stop(self) -> None:
        """Kills the process, if we launched it."""
        if self.process is not None:
            self.process.kill()

    def _event(self, call: events.Call, request: Message, timeout: float) -> Message:
        """Sends an event in the plugin's generation; one that turns out to be of the older stays there for good."""
        deadline = time.monotonic() + timeout
        if call.method in ALWAYS_DEDICATED or not self.state_change:
            try:
                return self._link.call(call, request, timeout)
            except CallError as error:
                if error.code != Code.UNIMPLEMENTED or call.method in ALWAYS_DEDICATED:
                    raise
            log.warning("plugin %s uses deprecated StateChange instead of a dedicated %s call", self.name, call.method)
            self.state_change = True
        fields: dict[str, Any] = {field.name: value for field, value in request.ListFields()}
        change = api.StateChangeEvent(event=cast(api.Event.ValueType, call.event), **fields)
        self._link.call(events.CALLS["StateChange"], change, deadline - time.monotonic())
        return call.response()

    def _handle(self, request: Request) -> Message:
        match request.service, request.method:
            case events.RUNTIME, "RegisterPlugin":
                return self._register(api.RegisterPluginRequest.FromString(request.payload))
            case events.RUNTIME, "UpdateContainers":
                wanted = api.UpdateContainersRequest.FromString(request.payload)
                return api.UpdateContainersResponse(failed=self._on_update(self.name, list(wanted.update)))
        raise CallError(Code.UNIMPLEMENTED, f"no method {request.service}/{request.method}")

    def _register(self, request: api.RegisterPluginRequest) -> api.Empty:
        """A launched plugin is called what its file is called, whatever it says. Source: pkg/api/plugin.go."""
        if self.process is None:
            self._refused = _objection(request)
            if self._refused is not None:
                raise self._refused
            self.name = f"{request.plugin_idx}-{request.plugin_name}"
        self.registered_as = request
        return api.Empty()


def _objection(request: api.RegisterPluginRequest) -> CallError | None:
    if not re.fullmatch(r"[A-Za-z0-9_.+-]+", request.plugin_name):
        return CallError(Code.UNKNOWN, f"invalid plugin name: {request.plugin_name!r}")
    if not re.fullmatch(r"[0-9]{2}", request.plugin_idx):
        return CallError(Code.UNKNOWN, f"invalid plugin index: {request.plugin_idx!r}")
    return None
