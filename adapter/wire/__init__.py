"""ttRPC over NRI's multiplexed trunk, without any input or output: bytes in, events out.

Knows nothing of NRI. `mux` frames, `ttrpc` messages, `connection` both ends of the trunk.
"""

from adapter.wire.connection import PLUGIN_SERVICE, RUNTIME_SERVICE, Connection, Reply, Request
from adapter.wire.ttrpc import Code

__all__ = ["PLUGIN_SERVICE", "RUNTIME_SERVICE", "Code", "Connection", "Reply", "Request"]
