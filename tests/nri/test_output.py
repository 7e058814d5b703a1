"""What a plugin prints that a runtime has launched: it has /dev/null as stdout and stderr."""

from __future__ import annotations

import logging
import socket
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from nri import api, output
from nri.syslog import Syslog
from nri.testing import PluginFile, Runtime

from ..rig.brief import few
from ..rig.embedded import patient
from ..rig.interpreter import FIRST_LINE
from ..rig.listeners import Receiver
from ..rig.programs import Programs
from ..rig.waiting import LIMIT, limit

PLUGIN = """{first_line}
import logging, subprocess, sys
from nri import syslog
syslog.SYSLOG = {syslog!r}
{before}
from nri import Plugin, output_to_syslog, run, serve


class Loud(Plugin):
    {coroutine}def create_container(self, request, context):
        print("it starts", sys.stdout.fileno(), sys.stderr.fileno(), end="")
        print(" now: ä")
        logging.getLogger("own").warning("be careful")
        subprocess.run(["true"], stdout=sys.stdout, stderr=sys.stderr, check=True)
        raise ValueError("not on this node")

    def on_disconnect(self, reason):
        sys.stderr.write("no end of a line" * 1000)


{run}
raise RuntimeError("a bug at the end")
"""
RUN = "run(Loud(), 'own', '11')"
SERVE = "import asyncio\noutput_to_syslog('own', '11')\nasyncio.run(serve(Loud()))"
HANDLERS = "logging.basicConfig(level='INFO', handlers=[logging.StreamHandler(), logging.FileHandler('{log}')])"


@pytest.mark.parametrize("run", [RUN, SERVE], ids=["run", "serve"])
@pytest.mark.parametrize("before", few(["", HANDLERS], 1), ids=few(["", "basicConfig"], 1))
def test_what_it_prints_logs_and_fails_with_reaches_syslog(
    tmp_path: Path, receiver: Receiver, run: str, before: str
) -> None:
    log = tmp_path / "own.log"
    words = {"first_line": FIRST_LINE, "syslog": str(receiver.path), "before": before.format(log=log), "run": run}
    text = PLUGIN.format(coroutine="async " if run is SERVE else "", **words)
    plugin = Programs(tmp_path).write("loud", text)
    runtime = Runtime(patient())
    runtime.launch(PluginFile(plugin, "10", "loud"))
    runtime.event("CreateContainer", api.CreateContainerRequest())
    for one in runtime.plugins:
        one.close("the runtime ends") if one.process is None else one._trunk.close()
    tag = "11-own["
    assert receiver.until("it starts").startswith(f"<30>{tag}")
    assert receiver.until("it starts").endswith("]: it starts 1 2 now: ä")
    for text in ("be careful", "Traceback", "not on this node", "a bug at the end", "no end of a line"):
        assert receiver.until(text).startswith(f"<28>{tag}"), text
    assert not before or "be careful" in log.read_text(), "a file stays one"
    runtime.stop()


def test_lines_that_a_busy_syslog_did_not_take_follow_without_another_line(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last line of a traceback is the error."""
    monkeypatch.setattr(output, "LAST_WAIT", LIMIT)
    most = 3 * int(Path("/proc/sys/net/unix/max_dgram_qlen").read_text())
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(short_path / "log"))
        receiver.settimeout(LIMIT)
        print(*range(most), sep="\n", file=output._stream(Syslog(str(short_path / "log"), "10-x"), logging.INFO, 1))
        for number in range(most):
            assert receiver.recv(100).endswith(f"]: {number}".encode())


def test_a_syslog_that_takes_nothing_is_waited_for_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=7.0)

    def sleep(seconds: float) -> None:
        clock.now += seconds

    monkeypatch.setattr(output, "time", Mock(monotonic=lambda: clock.now, sleep=sleep))
    syslog = Syslog(str(tmp_path / "nobody"), "10-x")
    syslog.handle(logging.makeLogRecord({"msg": "unheard"}))
    with limit("it is waited for without end"):
        output._write_rest(syslog)
    assert (syslog.pending, clock.now) == (1, pytest.approx(8.0, abs=2 * output.STEP))


def test_a_line_without_an_end_is_a_record_when_it_is_long(receiver: Receiver) -> None:
    stream = output._stream(Syslog(str(receiver.path), "10-x"), logging.INFO, 1)
    stream.write("a" * (output._Lines.LONGEST + 1))
    receiver.until("]: a")
    print("b", file=stream)
    assert receiver.until("b").endswith("]: b"), "nothing of the line before is left"


LEVELS = {logging.DEBUG: 31, logging.INFO: 30, 25: 30, logging.WARNING: 28, logging.ERROR: 27, logging.CRITICAL: 26}


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_is_a_daemons_priority(level: int) -> None:
    assert Syslog("log", "x")._line(level, "").startswith(f"<{LEVELS[level]}>x[".encode())
