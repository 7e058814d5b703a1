"""CreateContainer in steps: legacy plugins, hooks, precreate hooks, in this order.

Each step gets the container as the steps before it left it, and may take its time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import Any, TypeAlias

from adapter.log_lines import subject
from adapter.nri import Answer, Context, Deferred, api

log = logging.getLogger(__name__)


class Creation:
    """A container that is being created."""

    def __init__(self, request: api.CreateContainerRequest, context: Context) -> None:
        self.request = request
        self.context = context
        self.response = api.CreateContainerResponse()
        """What the steps so far have adjusted and updated."""
        self.hooks: Sequence[Any] = ()
        """The hooks that the container gets, as `adapter.hooks.match.Named`."""


Step: TypeAlias = Callable[[Creation], Deferred[None] | None]
"""Changes the creation, at once or by the time that its Deferred completes."""


def subject_of(request: api.CreateContainerRequest) -> str:
    """Returns the name of a container that is being created, for the log."""
    container, pod = request.container, request.pod
    return subject("container", container.id, pod.namespace, pod.name, container.name)


def go(creation: Creation, steps: Iterator[Step]) -> Answer[api.CreateContainerResponse]:
    """Runs the steps on a creation, one after the other; returns the answer to the runtime."""
    for step in steps:
        taken = step(creation)
        if taken is not None:
            return taken.followed_by(lambda _: go(creation, steps))
    return creation.response


def if_refused(
    answer: Answer[api.CreateContainerResponse], undo: Callable[[], None]
) -> Answer[api.CreateContainerResponse]:
    """Returns the answer; behind one that fails the creation, `undo` is called."""
    if not isinstance(answer, Deferred):
        return answer
    whole: Deferred[api.CreateContainerResponse] = Deferred()

    def pass_on(response: api.CreateContainerResponse | None, error: Exception | None) -> None:
        if error is None:
            whole.complete(response)
        else:
            whole.fail(error)
            undo()

    answer.then(pass_on)
    return whole


def reserve(creation: Creation, prefix: str) -> Step:
    """Withholds the annotations of the container and its pod under a prefix from all steps, and logs that.

    Returns the step that removes them from the container, unless the steps before it have set them anew.
    """
    container, pod = creation.request.container, creation.request.pod
    brought = _take(container.annotations, prefix)
    if withheld := sorted({*brought, *_take(pod.annotations, prefix)}):
        text = "%s brings %d annotations under %s, which are removed; the first is %.200s"
        log.warning(text, subject_of(creation.request), len(withheld), prefix, withheld[0])

    def remove(creation: Creation) -> None:
        adjusted = creation.response.adjust.annotations
        for key in brought:
            if key not in adjusted:
                adjusted[f"-{key}"] = ""

    return remove


def _take(annotations: MutableMapping[str, str], prefix: str) -> list[str]:
    """Removes the annotations under a prefix; returns their keys."""
    taken = [key for key in annotations if key.startswith(prefix)]
    for key in taken:
        del annotations[key]
    return taken


def keep(creation: Creation, answer: Answer[api.CreateContainerResponse]) -> Deferred[None] | None:
    """Makes a step's answer the response of the creation, at once or when it completes."""

    def take(response: api.CreateContainerResponse | None) -> None:
        if response is not None:
            creation.response = response

    if isinstance(answer, Deferred):
        return answer.followed_by(take)
    take(answer)
    return None
