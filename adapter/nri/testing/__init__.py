"""An embedded NRI runtime, for tests of plugins: calls plugins as containerd does, without containers.

`Node` is what the fixture `nri_runtime` of pytest gives to a test: it takes plugins into service, and plays the events
of a pod. `Runtime`, below it, launches and accepts plugins, relays events to them, and merges their answers.
"""

from typing import TYPE_CHECKING, Any

from nri.testing.flavour import FLAVOURS, Flavour
from nri.testing.launch import PluginFile
from nri.testing.load import Figures, Load
from nri.testing.plugin import Answer, Late, Lost, Plugin
from nri.testing.processes import Usage
from nri.testing.recorded import POD_LIFE
from nri.testing.runtime import Outcome, Runtime

if TYPE_CHECKING:
    from nri.testing.created import Created
    from nri.testing.node import Latency, Node

__all__ = ["FLAVOURS", "POD_LIFE", "Answer", "Created", "Figures", "Flavour", "Late", "Latency", "Load", "Lost", "Node"]
__all__ += ["Outcome", "Plugin", "PluginFile", "Runtime", "Usage"]


def __getattr__(name: str) -> Any:
    """Imports `Node` and `Latency`, whose module imports asyncio, and `Created`, which few tests need."""
    if name not in ("Created", "Latency", "Node"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from nri.testing import created, node  # noqa: PLC0415

    return getattr(created if name == "Created" else node, name)
