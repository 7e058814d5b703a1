"""An NRI stub for Python: the classes and messages of an NRI plugin.

>>> from adapter.nri import Context, Plugin, api, run

Pass an instance of a subclass of `Plugin` to `run`. A program with an event loop uses `Stub`. `api` has NRI's messages.
"""

from adapter.nri.deferred import Answer, Deferred
from adapter.nri.stub import Context, Plugin, Stub
from adapter.nri.transport import DEFAULT_SOCKET, Identity, connect, identity, launched, run
from adapter.proto import nri_pb2 as api

__all__ = ["DEFAULT_SOCKET", "Answer", "Context", "Deferred", "Identity", "Plugin", "Stub"]
__all__ += ["api", "connect", "identity", "launched", "run"]
