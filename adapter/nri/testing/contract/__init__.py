"""The contract of NRI plugins: plays to a plugin the situations that runtimes make, and judges what it does.

`judge` is the whole of it; `nri_runtime.contract` and `v010-adapter simulate -contract` call it. `rules` has the rules.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from google.protobuf.message import Message

from nri.errors import NRIError
from nri.testing.contract import ending, events, joining
from nri.testing.contract.requests import pod_life, validated
from nri.testing.contract.rules import RULES, Finding, Note, Result, Rule, Verdict, does_not_apply, fails, holds
from nri.testing.contract.starts import GRACE, Bench, External, Launched, Running, Source
from nri.testing.contract.watched import shown
from nri.testing.flavour import Flavour
from nri.testing.plugin import Late

__all__ = ["RULES", "SITUATIONS", "External", "Launched", "Note", "Progress", "Report", "Result", "Rule", "Running"]
__all__ += ["Source", "Verdict", "judge"]

_Situation = Callable[[Bench], Iterator[Finding]]
_OTHERS: Mapping[str, _Situation] = {
    "takes-configuration": joining.other_configurations,
    "synchronizes-in-parts": joining.full,
    "unknown-call": events.unknown_call,
    "unknown-fields": events.unknown_fields,
    **events.UNUSUAL,
    "answers-in-time": ending.repeated,
    "refused-updates": events.refused_updates,
    "ends-with-connection": ending.connection_ends,
    "starts-before-runtime": ending.no_socket,
}
"""The situations that are played to a plugin that answers the usual events, by the rule that each is about most."""
_ALL: Mapping[str, _Situation] = {"registers": joining.joins, "answers-events": events.usual, **_OTHERS}
SITUATIONS = len(_ALL)
"""The number of situations. Some have several starts of the plugin, others none for some plugins."""

Progress = Callable[[int, str], object]
"""Is told of each situation, before it is played: its number from 1 to `SITUATIONS`, and the rule that it is about."""


@dataclass
class Report:
    """The verdicts about one plugin under one runtime, one for each rule, and notes."""

    plugin: str
    flavour: Flavour
    verdicts: list[Verdict] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    seconds: float = 0.0
    """How long it has taken."""

    @property
    def failures(self) -> list[Verdict]:
        """The verdicts of the rules that the plugin breaks."""
        return [verdict for verdict in self.verdicts if verdict.result is Result.FAILS]

    def check(self) -> None:
        """Raises AssertionError if the plugin breaks a rule: with what `simulate -contract` prints of the failures."""
        __tracebackhide__ = True
        if self.failures:
            title = f"{self.plugin} under {self.flavour.name} {self.flavour.version}, NRI {self.flavour.nri}"
            texts = ("\n    ".join([f"{one.rule.name:24}FAILS", *one.lines()]) for one in self.failures)
            raise AssertionError("\n".join([title, *texts]))


def judge(
    source: Source,
    flavour: Flavour,
    life: Sequence[tuple[str, Message]] = (),
    *,
    timer: float = 0.0,
    progress: Progress = lambda number, rule: None,
) -> Report:
    """Plays all situations to a plugin, each to a fresh start of it. `life` has other events of a pod, in order.

    `timer` is how many seconds a plugin that calls UpdateContainers by a timer is waited for, while a container runs.
    Raises OSError if the plugin cannot be started.
    """
    begun = time.monotonic()
    bench = Bench(source=source, flavour=flavour, life=[], timer=timer)
    name = bench.name if isinstance(source, Launched) else "00-external"
    bench.life += validated(life or pod_life(flavour), name)
    findings: list[Finding] = []
    for number, (rule, situation) in enumerate(_ALL.items(), start=1):
        if bench.is_sound if rule in _OTHERS else number == 1 or bench.events:
            progress(number, rule)
            findings += _played(situation, bench)
    findings += _of_all(bench)
    report = Report(bench.name, flavour)
    report.notes = [finding for finding in findings if isinstance(finding, Note)]
    if bench.ignores_sigterm and isinstance(source, External):
        report.notes.append(Note("SIGTERM", f"the plugin is still running after {GRACE:g} s"))
    report.notes += [Note("refusals", text) for text in bench.refusals]
    report.verdicts = [_verdict(rule, findings, bench) for rule in RULES.values()]
    report.seconds = time.monotonic() - begun
    return report


def _played(situation: _Situation, bench: Bench) -> list[Finding]:
    """Returns what a situation has found. A late answer ends it."""
    found: list[Finding] = []
    try:
        found.extend(situation(bench))
    except Late as late:
        if not (bench.slow or bench.blocked):  # no call was late, but another start
            found.append(fails("registers", "another start", shown(late)))
    except NRIError as error:  # a start that differs from the first one
        found.append(fails("registers", "another start", shown(error)))
    return found


def _of_all(bench: Bench) -> Iterator[Finding]:
    """Yields the verdicts that all situations make together."""
    if bench.slow:
        method, seconds = max(bench.slow, key=lambda one: one[1])
        yield fails("answers-in-time", method, f"no answer in {seconds:.1f} s")
    elif bench.is_sound:
        yield holds("answers-in-time")
    if bench.blocked:
        yield fails("updates-do-not-block", bench.blocked, "UpdateContainers, and no answer to the event")
    elif bench.has_updated and not bench.slow:
        yield holds("updates-do-not-block")
    if bench.flavour.name == "cri-o" and bench.refused_stops:
        yield fails("lets-pods-stop", *bench.refused_stops[0])
    elif bench.flavour.name == "cri-o" and bench.is_sound:
        yield events.held("lets-pods-stop", has_sent=bench.subscribed("StopPodSandbox"))


def _verdict(rule: Rule, findings: Sequence[Finding], bench: Bench) -> Verdict:
    """Returns the worst verdict by a rule."""
    found = [one for one in findings if isinstance(one, Verdict) and one.rule is rule]
    for result in (Result.FAILS, Result.HOLDS, Result.DOES_NOT_APPLY):
        for verdict in found:
            if verdict.result is result:
                return verdict
    return does_not_apply(rule.name, _why_not(rule, bench))


def _why_not(rule: Rule, bench: Bench) -> str:
    if not bench.events:
        return "the plugin has not joined the runtime"
    if bench.slow or bench.blocked:
        return "an answer was late"
    if not bench.is_sound:
        return "the plugin has failed at the usual events"
    no_changes, no_updates = "the plugin has changed no container", "the plugin has not called UpdateContainers"
    if bench.timer:
        no_updates += f" in {bench.timer:g} s"
    else:
        no_updates += "; a timer of it is waited for with -timer, in pytest timer="
    return {
        **dict.fromkeys(("valid-name", "starts-before-runtime"), "the runtime launches the plugin"),
        **dict.fromkeys(("merges", "crashes-no-runtime", "changes-are-applied"), no_changes),
        "lets-pods-stop": f"{bench.flavour.name} only logs the error",
        **dict.fromkeys(("updates-do-not-block", "refused-updates"), no_updates),
    }.get(rule.name, "it was not played")
