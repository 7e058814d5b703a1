from .fixtures import executing, forking, plugins
from .simulation import patience, simulate

__all__ = ["executing", "forking", "patience", "plugins", "simulate"]
