"""The OCI runtime specification and NRI's messages, one made of the other: pure functions.

Nothing is loaded before it is asked for: the daemon needs `adapter.oci.resources` for every event, and the rest only
where somebody adjusts containers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adapter.oci.applied import apply
    from adapter.oci.difference import adjustment, resources_to
    from adapter.oci.limits import DEVIATIONS, LIMITS
    from adapter.oci.patch import merged
    from adapter.oci.resources import resources_from
    from adapter.oci.spec import Spec, spec_from

__all__ = [
    "DEVIATIONS",
    "LIMITS",
    "Spec",
    "adjustment",
    "apply",
    "merged",
    "resources_from",
    "resources_to",
    "spec_from",
]

_MODULES = {
    "DEVIATIONS": "limits",
    "LIMITS": "limits",
    "Spec": "spec",
    "adjustment": "difference",
    "apply": "applied",
    "merged": "patch",
    "resources_from": "resources",
    "resources_to": "difference",
    "spec_from": "spec",
}


def __getattr__(name: str) -> Any:
    """Returns what `__all__` promises, from the module that has it."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
