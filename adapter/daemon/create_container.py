"""CreateContainer: legacy plugins, then hooks, then precreate hooks.

Hooks are matched with the container of the request; precreate hooks get it as plugins and hooks have adjusted it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from adapter.nri import Answer, Context, api
from adapter.nri.events import subject_of

if TYPE_CHECKING:
    from adapter.hooks.bridge import HookBridge

log = logging.getLogger(__name__)


def create_container(
    request: api.CreateContainerRequest,
    context: Context,
    plugins: Callable[[api.CreateContainerRequest, Context], Answer[api.CreateContainerResponse]],
    hooks: HookBridge | None,
    prefix: str,
    on_refused: Callable[[], object],
) -> Generator[Answer[Any], Any, api.CreateContainerResponse]:
    """Yields the answer of each step, to be sent its reply; returns the answer to CreateContainer.

    `plugins` runs the legacy plugins. `hooks` is None where others inject hooks. Annotations under `prefix` are the
    plugins' own, if it is not empty. `on_refused` is called when the creation fails.
    """
    withheld = _withhold(request, prefix) if prefix else ()
    try:
        response = (yield plugins(request, context)) or api.CreateContainerResponse()
        _remove(withheld, response.adjust)
        if hooks is not None:
            yield hooks.update(context.due)
            matching = hooks.inject(request, response)
            response = yield hooks.precreate(matching, request, response, context.due)
    except Exception:
        on_refused()
        raise
    return response


def _withhold(request: api.CreateContainerRequest, prefix: str) -> Sequence[str]:
    """Withholds the annotations of the container and its pod under a prefix from plugins and hooks; logs that.

    Returns those of the container.
    """
    container, pod = request.container, request.pod
    brought = _take(container.annotations, prefix)
    if withheld := sorted({*brought, *_take(pod.annotations, prefix)}):
        text = "%s brings %d annotations under %s, which are removed; the first is %.200s"
        log.warning(text, subject_of(request), len(withheld), prefix, withheld[0])
    return brought


def _take(annotations: MutableMapping[str, str], prefix: str) -> list[str]:
    """Removes the annotations under a prefix; returns their keys."""
    taken = [key for key in annotations if key.startswith(prefix)]
    for key in taken:
        del annotations[key]
    return taken


def _remove(withheld: Sequence[str], adjustment: api.ContainerAdjustment) -> None:
    """Removes the withheld annotations from the container itself, unless a plugin has set them."""
    for key in withheld:
        if key not in adjustment.annotations:
            adjustment.annotations[f"-{key}"] = ""
