"""An embedded NRI runtime: calls plugins as containerd does, without containers.

`Runtime` launches and accepts plugins and relays events to them; `read` reads events from a recording. `node` has a
runtime for tests of plugins, the fixture `nri_runtime` of pytest.
"""

from adapter.runtime.flavour import FLAVOURS, Flavour
from adapter.runtime.launch import PluginFile
from adapter.runtime.plugin import Answer, Late, Lost, Plugin
from adapter.runtime.recording import POD_LIFE, Recorded, read
from adapter.runtime.runtime import Outcome, Runtime

__all__ = ["FLAVOURS", "POD_LIFE", "Answer", "Flavour", "Late", "Lost", "Outcome", "Plugin", "PluginFile"]
__all__ += ["Recorded", "Runtime", "read"]
