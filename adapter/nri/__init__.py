"""An NRI stub for Python: what an NRI plugin is made of.

>>> from adapter.nri import Context, Plugin, api, run

`Plugin` is the class to subclass, `run` runs one; `Stub` is for those who have an event loop of their own; `api` has
NRI's messages.
"""

from adapter.nri.deferred import Answer, Deferred
from adapter.nri.stub import Context, Plugin, Stub
from adapter.nri.transport import DEFAULT_SOCKET, Identity, connect, identity, launched, run
from adapter.proto import nri_pb2 as api

__all__ = [
    "DEFAULT_SOCKET",
    "Answer",
    "Context",
    "Deferred",
    "Identity",
    "Plugin",
    "Stub",
    "api",
    "connect",
    "identity",
    "launched",
    "run",
]
