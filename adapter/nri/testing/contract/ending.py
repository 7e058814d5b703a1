"""The end of a plugin's connection, its start before the runtime, and the times of many answers."""

from __future__ import annotations

import os
import pickle
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from subprocess import PIPE, Popen
from typing import IO, cast

from google.protobuf.message import Message

from nri.errors import RegistrationError
from nri.testing.contract import killed
from nri.testing.contract.requests import named, of_container
from nri.testing.contract.rules import Finding, Note, fails, holds
from nri.testing.contract.starts import GRACE, Bench, External, Launched, accepted, ends, kill, listening
from nri.testing.flavour import Flavour
from nri.testing.launch import kill_group
from nri.testing.load import percentile
from nri.testing.plugin import Late

END = 10.0
"""Seconds for a plugin to end."""
CONNECT = 10.0
"""Seconds for a plugin to connect once there is a socket."""
FIRST_TRY = 1.0
"""Seconds for a plugin to find that there is no socket."""
REPEATS, AT_MOST = 100, 5.0
"""How many containers are created to measure times, and in how many seconds at most."""


def repeated(bench: Bench) -> Iterator[Finding]:
    """Many containers are created and removed. Nothing but a late answer fails here."""
    calls = of_container(bench.life, methods=["CreateContainer", "StopContainer", "RemoveContainer"])
    if not calls or calls[0][0] != "CreateContainer" or not bench.subscribed("CreateContainer"):
        return
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
        p99 = percentile(sorted(seconds), 99)
        share = p99 / bench.flavour.request_timeout
        yield Note("time", f"p99 of {len(seconds)} CreateContainer: {p99 * 1000:.1f} ms, {share:.1%} of the deadline")


def connection_ends(bench: Bench) -> Iterator[Finding]:
    """The runtime is killed, and does not end its plugins. It is started again."""
    rule, source = "ends-with-connection", bench.source
    if _joins_again(bench) if isinstance(source, External) else _ends_with(source, bench.flavour):
        yield holds(rule)
    else:
        yield fails(rule, "the end of the connection", f"the plugin is still running after {END:g} s")


def _joins_again(bench: Bench) -> bool:
    """Whether a plugin that connects by itself connects again, or ends."""
    with bench.joined_start() as start:
        start.plugin.disconnect()
        try:
            if start.listener and (joined := accepted(start.listener, start.process, END)):
                joined.close()
        except Late:
            return False
    return True


def no_socket(bench: Bench) -> Iterator[Finding]:
    """A plugin that connects by itself is started before the runtime."""
    source = bench.source
    if not isinstance(source, External):
        return
    process = source.run()
    try:
        if not ends(process, FIRST_TRY):
            with listening(source.socket) as listener:
                if joined := accepted(listener, process, CONNECT):
                    joined.close()
        yield holds("starts-before-runtime")
    except Late:
        came = f"the plugin is still running, and has not connected after {CONNECT:g} s"
        yield fails("starts-before-runtime", f"no socket for {FIRST_TRY:g} s, then a socket", came)
    finally:
        process.terminate()
        ends(process, GRACE)
        kill(process)


def _ends_with(source: Launched, flavour: Flavour) -> bool:
    """Whether a launched plugin ends after its runtime, which is a process of its own. Raises RegistrationError."""
    code = f"from {killed.__name__} import main; main()"
    command = [sys.executable, "-P", "-c", code]
    with Popen(command, stdin=PIPE, stdout=PIPE) as runtime:  # noqa: S603
        stdin, stdout = cast(IO[bytes], runtime.stdin), cast(IO[bytes], runtime.stdout)
        pickle.dump((source, flavour), stdin)
        stdin.flush()
        pid = stdout.readline()
        if not pid:
            raise RegistrationError("the plugin has not joined")
        plugin = os.pidfd_open(int(pid))
        runtime.kill()
    try:
        return bool(select.select([plugin], [], [], END)[0])
    finally:  # also at Ctrl-C
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(plugin, signal.SIGKILL)
        os.close(plugin)
        kill_group(int(pid))
