"""Every error this package raises on purpose. Each says where: a file with key and line, a plugin, a peer."""

from __future__ import annotations


class AdapterError(Exception):
    """Root of the expected errors; anything else that is raised is a bug."""


class ProtocolError(AdapterError):
    """The wire protocol was broken; what it says is whose fault it was."""


class RemoteProtocolError(ProtocolError):
    """The peer sent what the protocol forbids; the trunk cannot be used any further."""


class LocalProtocolError(ProtocolError):
    """We were about to send what the protocol forbids; nothing was sent."""


class MessageTooLarge(LocalProtocolError):
    """A message beyond ttRPC's 4 MiB, which a Go peer would answer by closing the connection."""


class CallError(AdapterError):
    """A call was answered with an error status.

    A handler of the stub may raise it to choose the status code itself.
    """

    def __init__(self, code: int, message: str) -> None:
        """Takes the status code (see `adapter.wire.ttrpc.Code`) and its text."""
        super().__init__(message)
        self.code = code
        self.message = message


class RegistrationError(AdapterError):
    """The runtime refused the plugin, or could not be reached."""


class ConfigError(AdapterError):
    """A configuration that cannot be used. Its text begins with the place: file, key, line."""

    def __init__(self, place: str, reason: str) -> None:
        """Takes the place (`FILE`, `FILE:LINE`, `FILE: KEY`) and what is wrong there."""
        super().__init__(f"{place}: {reason}")
        self.place = place
        self.reason = reason


class PluginError(AdapterError):
    """A legacy plugin failed. Its text has the original client's shape, `plugin: NAME: reason`.

    Source: containerd/nri client.go, InvokeWithSandbox.
    """

    def __init__(self, plugin: str, reason: str) -> None:
        """Takes the plugin's type and what went wrong with it."""
        super().__init__(f"plugin: {plugin}: {reason}")
        self.plugin = plugin
        self.reason = reason


class PrecreateError(AdapterError):
    """A precreate hook failed. Its text begins with the hook's file."""

    def __init__(self, file: str, reason: str) -> None:
        """Takes the path of the hook's file and what went wrong with its program."""
        super().__init__(f"precreate hook {file}: {reason}")
        self.file = file
        self.reason = reason


class NotAdjustable(AdapterError):
    """A wish that NRI, or what runtimes make of it, cannot express. Its text begins with the place in the OCI spec."""

    def __init__(self, place: str, reason: str) -> None:
        """Takes the place (`process.user`, `linux.resources.memory.swap`, `mounts[/data]`) and why it cannot be."""
        super().__init__(f"{place}: {reason}")
        self.place = place
        self.reason = reason
