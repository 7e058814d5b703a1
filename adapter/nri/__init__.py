"""An NRI stub for Python: the classes and messages of an NRI plugin.

>>> from nri import Context, Plugin, api, run

Pass an instance of a subclass of `Plugin` to `run`, or await `serve` on asyncio's loop. A program with another kind
of loop uses `Stub`. `api` has NRI's messages.
"""

from typing import TYPE_CHECKING, Any

from nri.annotations import effective_annotation
from nri.deferred import Answer, Deferred
from nri.errors import CallError, MessageTooLarge, NRIError, RegistrationError, RemoteProtocolError
from nri.plugin import Context, Handled, Plugin
from nri.proto import nri_pb2 as api
from nri.stub import Stub
from nri.transport import DEFAULT_SOCKET, Identity, connect, identity, launched

__version__ = "0.1.0"

if TYPE_CHECKING:
    from nri.adjusting import Adjustment, Update
    from nri.cgroup import cgroup_paths
    from nri.holding.evidence import Missing, NotHeld
    from nri.holding.holds import Hold
    from nri.holding.keeper import HoldEnd
    from nri.output import output_to_syslog
    from nri.serving import run, serve
    from nri.updating import Updating

__all__ = ["DEFAULT_SOCKET", "Adjustment", "Answer", "Context", "Deferred", "Handled", "Identity", "Plugin", "Stub"]
__all__ += ["CallError", "MessageTooLarge", "NRIError", "RegistrationError", "RemoteProtocolError"]
__all__ += ["Hold", "HoldEnd", "Missing", "NotHeld"]
__all__ += [
    "Update",
    "Updating",
    "api",
    "cgroup_paths",
    "connect",
    "effective_annotation",
    "identity",
    "launched",
    "output_to_syslog",
    "run",
    "serve",
]

_LATER = {
    "Adjustment": "adjusting",
    "Hold": "holding.holds",
    "HoldEnd": "holding.keeper",
    "Missing": "holding.evidence",
    "NotHeld": "holding.evidence",
    "Update": "adjusting",
    "Updating": "updating",
    "cgroup_paths": "cgroup",
    "output_to_syslog": "output",
    "run": "serving",
    "serve": "serving",
}
"""The names that a program with a loop of its own does not need, and their modules."""


def __getattr__(name: str) -> Any:
    """Imports the names of `_LATER`."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
