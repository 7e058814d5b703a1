"""Scenarios of a node, in words: what happens, step by step, and what is seen of it.

Steps are separated by semicolons. An event is `create ID`, `stop ID`, `remove ID`, `prepare ID` (CreateContainer),
`begin ID` (PostStartContainer) or `update ID`; ids that begin with `pod` are sandboxes. Behind an event there may be
`in POD`, `within SECONDS`, `pid PID`.

    with KEY=VALUE …    the settings of the `legacy:` part; `PLUGIN.KEY` is a plugin's own
    plugins a=SCRIPT …  makes plugins, each with one of SCRIPTS, and a conf.json that names them
    EVENT -> OUTCOME    sends an event, waits for its answer, and compares; `-` is nothing to do, `...` any rest
    EVENT is OUTCOME    compares what became of an event that was sent before; `it` is the last one
    EVENT gets OUTCOME  waits for it first
    a starts            waits until the plugin holds at the last event
    a holds             does, and the event must not be answered yet
    let a               lets a plugin go on that holds
    +1.5, late          lets time pass: seconds, or until an event of two seconds must be answered
    ran a create c1, …  the runs of plugins since the last such step, and no others
    logs TEXT | TEXT    the warnings and errors since the last such step, and no others; pids are N, `;` is `,`
    counts runs=2       the counters of all plugins
    pids a: 33 -        the pids in a plugin's requests; `-` is none
    knows c1 …          the ids whose creates the ledger knows, and no others of c1, c2 and pod
    chain of b: a c     whose results the last request to a plugin has
    conf b a            writes conf.json
    break conf.json     leaves half of it
    can hold            containers can be held; before `with`
    cannot hold         there is no evidence any more
    held TEXT | TEXT    the holds and their ends since the last such step, and no others
    keeper gone c1      somebody else ends a hold, as HoldEnd says
    lose runtime        the connection is lost
    idle, settle        waits until no chain is under way; runs what is ready
"""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from nri import HoldEnd, api
from nri.plugin import RESERVE
from v010_adapter.settings import PluginSettings

from ..rig.holder import PlayedHolder
from ..rig.node import Answer, Node, a_container, a_pod, creating

HOLD = "hold; answer"
FAIL = """echo '{"error":"broken"}'"""
LIMIT = 2.0 - RESERVE
LATE = "plugin: a: no result within 1.9 s"
EVENT = re.compile(
    r"(?P<kind>create|stop|remove|prepare|begin|update) (?P<id>\w+)(?: in (?P<pod>\w+))?(?: within (?P<within>\S+))?"
    r"(?: pid (?P<pid>\d+))?(?: -> (?P<outcome>.*))?"
)
STATES = {"stop": "delete", "remove": "delete", "update": "update"}
MESSAGES = {"begin": api.PostStartContainerRequest, "update": api.UpdateContainerRequest}


SCRIPTS = {
    "answer": "answer",
    "fail_at_create": f'[ "$state" = delete ] && answer || {FAIL}',
    "fail_at_delete": f'[ "$state" = create ] && answer || {FAIL}',
    "hold": HOLD,
    "hold_and_exit_3": "hold; exit 3",
    "hold_and_fail_at_delete": f'[ "$state" = create ] && answer || {{ hold; {FAIL}; }}',
    "hold_and_say_nonsense": "hold; echo nonsense",
    "hold_at_create": '[ "$state" = delete ] || hold; answer',
    "hold_for_pod": '[ "$id" = pod ] && hold; answer',
    "work_on": "answer; hold",
}
"""What plugins do, by name."""


class Player:
    """Plays scenarios on a node."""

    def __init__(self, node: Node, caplog: pytest.LogCaptureFixture) -> None:
        self.node = node
        self.caplog = caplog
        self.answers: dict[str, Answer] = {}
        self.last = ""
        self.runs = 0
        self.steps: dict[str, Callable[[str], object]] = {
            "with": self._with,
            "plugins": lambda pairs: node.plugins(**{name: SCRIPTS[of] for name, of in _pairs(pairs)}),
            "let": node.release,
            "late": lambda _: node.loop.advance(LIMIT),
            "idle": lambda _: node.idle(),
            "settle": lambda _: node.loop.settle(),
            "conf": lambda names: node.configure(*names.split()),
            "plugin": node.plugin,
            "break": lambda name: (node.folder / name).write_text("{"),
            "ran": self._ran,
            "logs": self._logs,
            "counts": self._counts,
            "chain": self._chain,
            "pids": self._pids,
            "knows": self._knows,
            "can": self._can_hold,
            "cannot": lambda _: setattr(self._holder, "can", False),
            "keeper": self._ended_by_keeper,
            "lose": lambda _: node.serving.on_runtime_gone(),
        }

    def play(self, steps: str) -> None:
        for step in filter(None, map(str.strip, steps.split(";"))):
            try:
                self._step(step)
            except AssertionError as error:
                raise AssertionError(f"{step}: {error}") from None

    def _step(self, step: str) -> None:
        word, _, rest = step.partition(" ")
        if step.startswith("+"):
            self.node.loop.advance(float(step))
        elif rest == "holds":
            self._starts(word)
            assert self.answers[self.last].pending
        elif rest == "starts":
            self._starts(word)
        elif word == "held":
            self._held(rest)
        elif seen := re.fullmatch(r"(.*?) (is|gets) (.*)", step):
            answer = self.answers[self.last if seen[1] == "it" else seen[1]]
            if seen[2] == "gets":
                self.node.wait(answer)
            _is(answer, seen[3])
        elif sent := EVENT.fullmatch(step):
            self._send(sent.groupdict())
        else:
            self.steps[word](rest)

    def _with(self, pairs: str) -> None:
        legacy: dict[str, Any] = {}
        own: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        for key, value in _pairs(pairs):
            name, _, of_one = key.partition(".")
            if of_one == "events":
                own[name][of_one] = frozenset(value.split(","))
            else:
                (own[name] if of_one else legacy)[of_one or name] = yaml.safe_load(value)
        self.node.build(plugins={name: PluginSettings(**of) for name, of in own.items()}, **legacy)

    def _send(self, of: dict[str, Any]) -> None:
        kind, id_, node = of["kind"], of["id"], self.node
        options: dict[str, Any] = {"within": float(of["within"] or 2)}
        if kind == "create" and of["pid"]:
            options["pid"] = int(of["pid"])
        if kind == "prepare":
            answer = creating(node, id_, **options)
        elif kind in MESSAGES:
            request = MESSAGES[kind](pod=a_pod(), container=a_container(id_))
            answer = node.handle(type(request).__name__.removesuffix("Request"), request, **options)
        elif id_.startswith("pod"):
            events: dict[str, Any] = {} if kind == "create" else {"event": f"{kind.title()}PodSandbox"}
            answer = (node.create_pod if kind == "create" else node.delete_pod)(id_, **events, **options)
        elif kind == "create":
            answer = node.create(id_, of["pod"] or "pod", **options)
        else:
            answer = node.delete(id_, of["pod"] or "pod", event=f"{kind.title()}Container", **options)
        self.last = f"{kind} {id_}"
        self.answers[self.last] = answer
        if of["outcome"]:
            if answer.pending:
                node.wait(answer)
            _is(answer, of["outcome"])

    def _starts(self, name: str) -> None:
        kind, id_ = self.last.split()
        self.node.hear(f"{name} {STATES.get(kind, 'create')} {id_} holds")

    def _ran(self, runs: str) -> None:
        now = self.node.runs
        assert now[self.runs :] == [run.strip() for run in runs.split(",") if run], now
        self.runs = len(now)

    def _logs(self, texts: str) -> None:
        found = [re.sub(r"pid \d+", "pid N", text).replace(";", ",") for text in logged(self.caplog)]
        assert found == [text.strip() for text in texts.split("|") if text], found
        self.caplog.clear()

    def _counts(self, counters: str) -> None:
        assert self.node.counters == {name: int(of) for name, of in _pairs(counters)}

    def _pids(self, of: str) -> None:
        name, _, pids = of.partition(":")
        assert [str(request.get("pid", "-")) for request in self.node.requests(name)] == pids.split()

    def _knows(self, ids: str) -> None:
        ledger = self.node.serving.ledger
        assert [id_ for id_ in ("c1", "c2", "pod") if ledger.target(id_)] == ids.split()

    @property
    def _holder(self) -> PlayedHolder:
        assert self.node.holder is not None
        return self.node.holder

    def _can_hold(self, _: str) -> None:
        self.node.holder = PlayedHolder()
        self.node.build()

    def _held(self, texts: str) -> None:
        assert self._holder.told == [text.strip() for text in texts.split("|") if text], self._holder.told
        self._holder.told.clear()

    def _ended_by_keeper(self, how: str) -> None:
        end, id_ = how.split()
        self._holder.end_by(id_, HoldEnd[end.upper()])

    def _chain(self, of: str) -> None:
        name, _, plugins = of.removeprefix("of ").partition(":")
        results = self.node.requests(name)[-1].get("results", [])
        assert [result["plugin"] for result in results] == plugins.split()


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for word in text.split():
        key, _, value = word.partition("=")
        yield key, value


def _is(answer: Answer, outcome: str) -> None:
    if outcome.endswith("..."):
        assert answer.outcome.startswith(outcome[:-3]), answer.outcome
    else:
        assert answer.outcome == ("nothing to do" if outcome == "-" else outcome), answer.outcome


def done(node: Node, answer: Answer) -> str:
    """What becomes of an event."""
    node.wait(answer)
    return answer.outcome


def logged(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= level]


def pids(caplog: pytest.LogCaptureFixture) -> list[int]:
    """The processes that the log has named, in order."""
    texts = logged(caplog, logging.INFO)
    return list(dict.fromkeys(int(pid) for text in texts for pid in re.findall(r"pid (\d+)", text)))
