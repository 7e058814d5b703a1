"""The state of a node as the parts of a Synchronize, none of them too large for the wire."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

from adapter.errors import MessageTooLarge
from adapter.nri import api
from adapter.wire.ttrpc import MAX_LENGTH

ENVELOPE = 1 << 10
"""More than what ttRPC's envelope adds to a message."""

T = TypeVar("T")


def parts(
    pods: Sequence[api.PodSandbox], containers: Sequence[api.Container], limit: int = MAX_LENGTH - ENVELOPE
) -> list[api.SynchronizeRequest]:
    """Returns one request, or as many as it takes, with pods and containers spread evenly as containerd does.

    All but the last say that there is more. Raises MessageTooLarge if one object alone is beyond the limit.
    """
    most = max(len(pods), len(containers), 1)
    count = 1
    while True:
        requests = [
            api.SynchronizeRequest(pods=some_pods, containers=some_containers, more=number < count)
            for number, (some_pods, some_containers) in enumerate(
                zip(_spread(pods, count), _spread(containers, count), strict=True), start=1
            )
        ]
        largest = max(request.ByteSize() for request in requests)
        if largest <= limit:
            return requests
        if count >= most:
            raise MessageTooLarge(f"Synchronize: an object of {largest} bytes, at most {limit}")
        count = min(most, count * 2)


def _spread(items: Sequence[T], count: int) -> list[Sequence[T]]:
    edges = [len(items) * number // count for number in range(count + 1)]
    return [items[start:end] for start, end in pairwise(edges)]
