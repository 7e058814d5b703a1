from ..rig.embedded import executing, plugins
from ..rig.simulation import patience, simulate

__all__ = ["executing", "patience", "plugins", "simulate"]
