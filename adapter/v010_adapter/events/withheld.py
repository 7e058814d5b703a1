"""Annotations under `metadataPrefix` are withheld from plugins and hooks, because a pod's author can forge them.

A container's are removed at its creation, unless they record the result of a plugin. The pod keeps its own, because NRI
cannot change it: every event of the pod and of its containers, and each Synchronize, brings them again.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

from nri import api


def withhold_at_event(event: str, request: Any, prefix: str) -> None:
    """Withholds the annotations of what an event is about."""
    _withhold((request.pod,) if event.endswith("PodSandbox") else (request.pod, request.container), prefix)


def withhold_at_synchronize(request: api.SynchronizeRequest, prefix: str) -> None:
    """Withholds the annotations of all that the runtime has."""
    _withhold(chain(request.pods, request.containers), prefix)


def _withhold(messages: Iterable[api.PodSandbox | api.Container], prefix: str) -> None:
    for message in messages:
        take_annotations(message, prefix)


def take_annotations(message: api.PodSandbox | api.Container, prefix: str) -> list[str]:
    """Removes the annotations under a prefix from a message; returns their keys."""
    taken = [key for key in message.annotations if key.startswith(prefix)]
    for key in taken:
        del message.annotations[key]
    return taken
