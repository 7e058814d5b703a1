"""An embedded NRI runtime: calls plugins as containerd does, without containers.

`Runtime` launches and accepts plugins and relays events to them; `read` reads events from a recording. `node` has a
runtime for tests of plugins, the fixture `nri_runtime` of pytest.
"""

from nri.testing.flavour import FLAVOURS, Flavour
from nri.testing.launch import PluginFile
from nri.testing.plugin import Answer, Late, Lost, Plugin
from nri.testing.recorded import POD_LIFE
from nri.testing.runtime import Outcome, Runtime

__all__ = ["FLAVOURS", "POD_LIFE", "Answer", "Flavour", "Late", "Lost", "Outcome", "Plugin", "PluginFile"]
__all__ += ["Runtime"]
