"""Situations in which a plugin joins a runtime."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

from nri import api
from nri.errors import CallError, RegistrationError
from nri.testing.contract.requests import CONTAINERS, PODS, full_node
from nri.testing.contract.rules import Finding, Note, fails, holds
from nri.testing.contract.starts import Bench, External, Start, ends
from nri.testing.contract.watched import shown
from nri.testing.plugin import Late, Lost

LARGE = 64 << 10
"""Newlines after the configuration. They are white space in YAML, TOML and JSON."""


def joins(bench: Bench) -> Iterator[Finding]:
    """The plugin starts on an empty node, as when the runtime starts."""
    sent, has_registered = "a start", False
    try:
        started = time.monotonic()
        with bench.start() as start:
            _registers(start)
            has_registered, seconds = True, time.monotonic() - started
            if seconds > bench.flavour.registration_timeout:
                yield fails("registers", sent, f"RegisterPlugin after {seconds:.1f} s")
            else:
                yield holds("registers")
            if isinstance(bench.source, External):
                yield holds("valid-name")
            yield from _configures(bench, start)
    except (Late, Lost) as reason:
        if has_registered:
            raise
        yield fails("registers", sent, shown(reason))
    except RegistrationError as refusal:
        yield holds("registers")
        yield fails("valid-name", sent, shown(refusal))


def _registers(start: Start) -> None:
    """Waits for the registration. Raises Lost with the exit code of a plugin that ends instead."""
    try:
        start.plugin.register()
    except Lost as reason:
        if ends(start.process, 1):
            raise Lost(f"the plugin has ended with exit code {start.process.poll()}") from None
        raise reason


def _configures(bench: Bench, start: Start) -> Iterator[Finding]:
    sent = f"Configure {bench.source.config[:100]!r}"
    try:
        start.plugin.configure(bench.source.config)
    except (CallError, Lost) as reason:
        if re.fullmatch("invalid plugin events: 0x[0-9a-f]+", str(reason)):
            yield holds("takes-configuration")
            yield fails("known-events", sent, f"ConfigureResponse with events: {reason}")
        else:
            yield fails("takes-configuration", sent, shown(reason))
        return
    yield holds("takes-configuration")
    yield holds("known-events")
    try:
        start.plugin.synchronize([api.SynchronizeRequest()])
    except (CallError, Lost) as reason:
        yield fails("synchronizes", "Synchronize without pods and containers", shown(reason))
        return
    yield holds("synchronizes")
    bench.events = start.plugin.events


def other_configurations(bench: Bench) -> Iterator[Finding]:
    """Configure with an empty, a broken and a large text. A refusal is no failure, a late answer is."""
    if isinstance(bench.source, External):
        return
    own, outcomes = bench.source.config, []
    for what, text in (("empty", ""), ("broken", own + "\n{]\t'"), ("large", own + "\n" * LARGE)):
        with bench.start() as start:
            start.plugin.register()
            try:
                start.plugin.configure(text)
                outcomes.append(f"{what} text is taken")
            except (CallError, Lost) as reason:
                outcomes.append(f"{what} text is refused ({shown(reason)})")
    yield Note("configuration", ", ".join(outcomes))


def full(bench: Bench) -> Iterator[Finding]:
    """The plugin joins on a node with many containers."""
    with bench.start() as start:
        start.plugin.register()
        start.plugin.configure(bench.source.config)
        parts = full_node()
        started = time.monotonic()
        try:
            start.plugin.synchronize(parts)
        except (CallError, Lost) as reason:
            sent = f"Synchronize of {PODS} pods and {CONTAINERS} containers in {len(parts)} parts"
            yield fails("synchronizes-in-parts", sent, shown(reason))
            return
        seconds = time.monotonic() - started
        if seconds > bench.flavour.request_timeout:
            bench.late(f"Synchronize in {len(parts)} parts", seconds)
        yield holds("synchronizes-in-parts")
