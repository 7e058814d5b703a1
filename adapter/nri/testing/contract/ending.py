"""Situations at the end of a plugin's connection, and the times of many answers."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

from google.protobuf.message import Message

from nri.testing.contract.requests import named, of_container
from nri.testing.contract.rules import Finding, Note, fails, holds
from nri.testing.contract.starts import Bench, External, Start, accepted, ends
from nri.testing.plugin import Late

END = 10.0
"""Seconds for a plugin to end."""
REPEATS, AT_MOST = 100, 5.0
"""How many containers are created to measure times, and in how many seconds at most."""


def repeated(bench: Bench) -> Iterator[Finding]:
    """Many containers are created and removed. Nothing but a late answer fails here."""
    if not bench.subscribed("CreateContainer"):
        return
    calls = of_container(bench.life, methods=["CreateContainer", "StopContainer", "RemoveContainer"])
    with bench.joined() as plugin:
        seconds: list[float] = []
        answers = [plugin.ask(*calls[0]) for _ in range(2)]
        while len(seconds) < REPEATS and sum(seconds) < AT_MOST and not plugin.closed:
            for method, request in bench.of_plugin(named(calls, f"number-{len(seconds)}")):
                started = time.monotonic()
                plugin.ask(method, request)
                if method == "CreateContainer":
                    seconds.append(time.monotonic() - started)
    if all(isinstance(answer, Message) for answer in answers) and answers[0] != answers[1]:
        yield Note("idempotence", "the same CreateContainer has got two different answers")
    if seconds:
        p99 = sorted(seconds)[math.ceil(0.99 * len(seconds)) - 1]
        share = p99 / bench.flavour.request_timeout
        yield Note("time", f"p99 of {len(seconds)} CreateContainer: {p99 * 1000:.1f} ms, {share:.1%} of the deadline")


def connection_ends(bench: Bench) -> Iterator[Finding]:
    """The runtime is killed and started again."""
    with bench.joined_start() as start:
        start.plugin.disconnect()
        if _ends_or_joins(start):
            yield holds("ends-with-connection")
        else:
            came = f"the plugin is still running after {END:g} s"
            yield fails("ends-with-connection", "the end of the connection", came)


def _ends_or_joins(start: Start) -> bool:
    if start.listener is None:
        return ends(start.process, END)
    try:
        if joined := accepted(start.listener, start.process, END):
            joined.close()
    except Late:
        return False
    return True


def terminated(bench: Bench) -> Iterator[Finding]:
    """SIGTERM, as from systemd and the kubelet. Runtimes do not send it to plugins that they launch."""
    if isinstance(bench.source, External):
        with bench.joined_start() as start:
            start.process.terminate()
            if not ends(start.process, END):
                yield Note("SIGTERM", f"the plugin is still running after {END:g} s")
