"""The OCI runtime specification and NRI's messages, one made of the other: pure functions.

The modules are loaded when they are first used: the daemon needs `adapter.oci.resources` for every event, and the rest
only where plugins adjust containers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adapter.oci.limits import LIMITS
    from adapter.oci.patch import merged
    from adapter.oci.resources import resources_from
    from adapter.oci.spec import adjustment, apply, resources_to, spec_from
    from adapter.oci.values import Spec

__all__ = ["LIMITS", "Spec", "adjustment", "apply", "merged", "resources_from", "resources_to", "spec_from"]


def __getattr__(name: str) -> Any:
    """Returns a name of `__all__` from the module that defines it."""
    for module in ("resources", "spec", "patch", "limits", "values") if name in __all__ else ():
        value = vars(import_module(f"{__name__}.{module}")).get(name)
        if value is not None:
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
