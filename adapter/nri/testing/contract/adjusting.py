"""Judges an answer that changes containers: whether it merges, and what the runtime makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.message import Message

from nri import api
from nri.needs import unmet
from nri.runtimes import numbers
from nri.testing.contract.rules import Finding, Note, fails, holds
from nri.testing.contract.watched import Watched, shown
from nri.testing.flavour import Flavour
from nri.testing.merge import Conflict, Merge


def judged(plugin: Watched, flavour: Flavour, method: str, request: Any, reply: Message) -> Iterator[Finding]:
    """Yields verdicts about a reply to an event, none if the reply changes nothing."""
    adjust = reply.adjust if isinstance(reply, api.CreateContainerResponse) else api.ContainerAdjustment()
    updates = getattr(reply, "update", ())
    if not adjust.ByteSize() and not updates:
        return
    sent = f"{method} {shown(request)}"
    try:
        Merge(request).apply(plugin.name, reply)
        yield holds("merges")
    except Conflict as conflict:
        yield fails("merges", sent, f"{shown(reply)}: {conflict}")
    else:
        yield from _conflicts(plugin.name, request, reply)
    nri = numbers(flavour.nri)
    crashing = [f"{change.place}: {need.before}" for change, need in unmet(adjust, nri) if need.crashes(nri)]
    yield fails("crashes-no-runtime", sent, "; ".join(crashing)) if crashing else holds("crashes-no-runtime")
    lost = [f"{change.place}: {need.before}" for change, need in unmet(adjust, nri) if not need.crashes(nri)]
    lost += [*_removals(request, adjust), *_memory("adjust", adjust.linux.resources)]
    for update in updates:
        lost += [*_memory(f"update of {update.container_id}", update.linux.resources)]
    yield fails("changes-are-applied", sent, "; ".join(lost)) if lost else holds("changes-are-applied")


def _conflicts(plugin: str, request: Message, reply: Message) -> Iterator[Finding]:
    """Yields a note about the first thing that no plugin before this one may have set."""
    merge = Merge(request)
    merge.apply("another plugin", reply)
    try:
        merge.apply(plugin, reply)
    except Conflict as conflict:
        yield Note("conflicts", f"{conflict}: the event fails")


def _removals(request: Any, adjust: api.ContainerAdjustment) -> Iterator[str]:
    """Yields removals from the container itself, which NRI does not forward."""
    variables = {variable.key for variable in adjust.env}
    for variable in request.container.env:
        name = variable.partition("=")[0]
        if f"-{name}" in variables and name not in variables:
            yield f"process.env[{name}]: NRI does not forward the removal of a variable"
    devices = {device.path for device in adjust.linux.devices}
    for device in request.container.linux.devices:
        if f"-{device.path}" in devices and device.path not in devices:
            yield f"linux.devices[{device.path}]: NRI does not forward the removal of a device"


def _memory(what: str, resources: api.LinuxResources) -> Iterator[str]:
    """Yields what runtimes ignore of memory. A swap equal to the limit is what they set themselves."""
    memory = resources.memory
    for field, value in memory.ListFields():
        if field.name != "limit" and not (field.name == "swap" and value.value == memory.limit.value):
            yield f"{what}: linux.resources.memory.{field.json_name}: runtimes change only the limit"
