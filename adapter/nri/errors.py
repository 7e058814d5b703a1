"""The errors that this package raises on purpose."""

from __future__ import annotations

from collections.abc import Collection

LONGEST = 100
"""A longer word, in characters, is not compared with the known words."""


class NRIError(Exception):
    """Base of the errors that are expected: of this package, and of a plugin. Any other exception is a bug."""


class RemoteProtocolError(NRIError):
    """The peer broke the protocol; the trunk cannot be used any more."""


class LocalProtocolError(NRIError):
    """We would break the protocol. The message was not sent, or the state machine has not moved."""


class MessageTooLarge(LocalProtocolError):
    """A message is longer than ttRPC's 4 MiB. A Go peer would close the connection."""


class CallError(NRIError):
    """A call was answered with an error status. A handler may raise this error to choose the status code."""

    def __init__(self, code: int, message: str) -> None:
        """Takes the status code (see `nri.wire.Code`) and its text."""
        super().__init__(message)
        self.code = code
        self.message = message


class RegistrationError(NRIError):
    """The runtime refused the plugin, or there is no runtime."""


def let_go_of_frames(error: BaseException | None) -> None:
    """Lets go of the frames of an error that is handled, and of those errors that it came from.

    They hold what the functions worked on, such as a large request, and often the error itself.
    """
    while error is not None:
        error.__traceback__ = None
        error = error.__context__ or error.__cause__


def nearest(word: str, known: Collection[str], cutoff: float = 0.6) -> str:
    """Returns the most similar known word, empty if none is similar, or if comparing a long word would take seconds."""
    from difflib import get_close_matches  # 2 ms, for an error only  # noqa: PLC0415

    return next(iter(get_close_matches(word, known, cutoff=cutoff)), "") if len(word) <= LONGEST else ""
