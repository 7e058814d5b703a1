"""What tests of late chains share: plugins that hold, and what the log says."""

from __future__ import annotations

import logging

import pytest

from adapter.nri.stub import RESERVE
from adapter.settings import PluginSettings

from .node import Answer, Node

HOLD = "hold; answer"
LIMIT = 2.0 - RESERVE
"""When an event of two seconds is answered at the latest."""
IGNORE = PluginSettings(fail_create=False)


def holding_deletes(script: str = "answer") -> str:
    """A plugin that holds at deletes."""
    return f'[ "$state" = create ] || hold; {script}'


def done(node: Node, answer: Answer) -> str:
    node.wait(answer)
    return answer.outcome


def created(node: Node, *ids: str) -> None:
    for id_ in ids:
        assert done(node, node.create(id_)) == "ok"


def logged(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= level]


def hang(node: Node, answer: Answer, *words: str) -> None:
    """Waits until plugins hold, and checks that nobody has been answered."""
    node.hear(*words)
    assert answer.pending


def pids(caplog: pytest.LogCaptureFixture) -> list[int]:
    """The processes that the log has named, in order."""
    found = [
        int(text.split("pid ")[1].split()[0].rstrip(",")) for text in logged(caplog, logging.INFO) if "pid " in text
    ]
    return list(dict.fromkeys(found))
