"""CreateContainer: legacy plugins, then hooks, then precreate hooks.

Hooks are matched with the container of the request; precreate hooks get it as plugins and hooks have adjusted it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any

from nri import Answer, Context, api
from nri.events import subject_of
from v010_adapter.events.fates import SERVED_ELSEWHERE, Turn
from v010_adapter.events.withheld import take_annotations
from v010_adapter.monitoring.trace import Trace, created, trace_of

if TYPE_CHECKING:
    from v010_adapter.events.hooks import HookBridge

log = logging.getLogger(__name__)


def create_container(
    request: api.CreateContainerRequest,
    context: Context,
    turn: Turn,
    plugins: Callable[[], Answer[api.CreateContainerResponse]],
    hooks: HookBridge | None,
    prefix: str,
) -> Generator[Answer[Any], Any, api.CreateContainerResponse | None]:
    """Yields the answer of each step, to be sent its reply; returns the answer to CreateContainer.

    `plugins` runs the legacy plugins; then the fate of the event is known. `hooks` is None where others inject hooks.
    Annotations under `prefix` are the plugins' own, if it is not empty.
    """
    trace = trace_of(context)._replace(about=created(request))
    withheld = _withhold(request, prefix, trace) if prefix else ()
    answer: api.CreateContainerResponse | None = yield plugins()
    if turn.fate in SERVED_ELSEWHERE:
        return None
    if hooks is None and not withheld:
        return answer
    response = answer or api.CreateContainerResponse()
    if withheld:
        _remove(withheld, response.adjust)
    if hooks is not None:
        due = context.due
        yield hooks.update(due)
        matching = (yield hooks.inject(request, response, due, trace)) or ()
        if matching:
            response = yield hooks.precreate(matching, request, response, due, trace)
    return response


def _withhold(request: api.CreateContainerRequest, prefix: str, trace: Trace) -> Sequence[str]:
    """Withholds the annotations of the container and its pod under a prefix from plugins and hooks; logs that.

    Returns those of the container.
    """
    brought = take_annotations(request.container, prefix)
    if withheld := sorted({*brought, *take_annotations(request.pod, prefix)}):
        text = "%s brings %d annotations under %s, which are removed; the first is %.200s"
        log.warning(text, subject_of(request), len(withheld), prefix, withheld[0], extra=trace.extra)
    return brought


def _remove(withheld: Sequence[str], adjustment: api.ContainerAdjustment) -> None:
    """Removes the withheld annotations from the container itself, unless a plugin has set them."""
    for key in withheld:
        if key not in adjustment.annotations:
            adjustment.annotations[f"-{key}"] = ""
