from .fixtures import plugins

__all__ = ["plugins"]
