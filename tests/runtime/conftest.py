from .fixtures import plugins
from .simulation import patience, simulate

__all__ = ["patience", "plugins", "simulate"]
