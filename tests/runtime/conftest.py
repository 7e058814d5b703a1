from .fixtures import plugins
from .simulation import simulate

__all__ = ["plugins", "simulate"]
