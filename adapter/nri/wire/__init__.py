"""ttRPC over NRI's multiplexer as a state machine without input or output: bytes in, events out.

`reader` cuts bytes, `mux` has the frames, `ttrpc` the messages, `connection` the two logical connections of a trunk.
"""

from nri.wire.connection import PLUGIN_SERVICE, RUNTIME_SERVICE, Connection, Reply, Request
from nri.wire.ttrpc import Code

__all__ = ["PLUGIN_SERVICE", "RUNTIME_SERVICE", "Code", "Connection", "Reply", "Request"]
