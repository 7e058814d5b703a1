from .fixtures import executing, plugins
from .simulation import patience, simulate

__all__ = ["executing", "patience", "plugins", "simulate"]
