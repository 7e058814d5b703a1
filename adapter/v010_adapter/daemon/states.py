"""How the daemon's process was started, and the state of its connection with the runtime."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from v010_adapter.daemon import guard


class Origin(NamedTuple):
    """How the process was started: it decides how the daemon joins its runtime again, and when it ends."""

    connect: Callable[[], int] | None = None
    """Returns the descriptor of a socket connected to the runtime, to join again. Raises RegistrationError.

    Without it, the daemon ends when the connection is lost.
    """
    when_lost: int = 0
    """The exit code of that end."""
    launch: guard.Launch | None = None
    """The runtime that has launched the process, if one has: the daemon ends when that runtime does."""
    linger: float = 0
    """How many seconds the daemon goes on to serve when it is told to end, if no other adapter takes over."""


class ConnectionState(Enum):
    """The state of the connection with the runtime. The value is what systemd is told.

    The service is ready once it has joined, or waits for a runtime that may be long in coming: a service that waits
    must not fail, and what is ordered after the service must not wait for ever.
    """

    APART = "READY=1\nSTATUS=waits for the runtime"
    """No connection; a timer tries again."""
    JOINING = "STATUS=the runtime has not configured and synchronized the adapter yet"
    """Connected, but not synchronized. The runtime may take minutes: it holds NRI's lock during a StopContainer's grace
    period (containerd issue 14083), so the connection is never given up while it waits."""
    JOINED = "READY=1\nSTATUS=joined with the runtime"
    ENDING = "STOPPING=1\nSTATUS=waits for the running plugins"
    """No new connection; running plugins may finish."""
