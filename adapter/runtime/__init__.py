"""An embedded NRI runtime: what containerd does with plugins, without containers.

>>> from adapter.runtime import Runtime, read

`Runtime` launches and accepts plugins and sends them events; `read` brings events from a recording.
"""

from adapter.runtime.flavour import FLAVOURS, Flavour
from adapter.runtime.link import Late, Lost
from adapter.runtime.outcome import Answer, Outcome
from adapter.runtime.plugin import Plugin
from adapter.runtime.recording import POD_LIFE, Recorded, read
from adapter.runtime.runtime import Runtime

__all__ = [
    "FLAVOURS",
    "POD_LIFE",
    "Answer",
    "Flavour",
    "Late",
    "Lost",
    "Outcome",
    "Plugin",
    "Recorded",
    "Runtime",
    "read",
]
