"""The HTTP pages for Prometheus and for probes, made of the state that `status` shows.

No metric has a label of a pod or a container, because the number of labels would have no limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from nri.events import BY_EVENT
from nri.text import printable
from v010_adapter.base.loop import Loop
from v010_adapter.monitoring.http_server import HttpServer, Response
from v010_adapter.monitoring.times import BOUNDS

PREFIX = "v010_adapter_"
PATHS = """\
v010-adapter
/metrics  metrics for Prometheus
/healthz  200 while the adapter answers
/readyz   200 if a runtime has joined it, else 503 and why
"""
_BUCKETS = (*map(str, BOUNDS), "+Inf")


def serve(loop: Loop, listen: str, describe: Callable[[], dict[str, Any]]) -> HttpServer:
    """Serves the pages at `unix:PATH` or `ADDRESS:PORT`. Raises OSError."""

    def metrics() -> Response:
        return Response(HTTPStatus.OK, generate_latest(registry), CONTENT_TYPE_PLAIN_0_0_4)

    def readiness() -> Response:
        told = describe()
        state = "unfit" if told["unfit"] else told["state"]
        if state == "joined":
            return Response(HTTPStatus.OK, b"joined\n")
        return Response(HTTPStatus.SERVICE_UNAVAILABLE, "\n".join([state, *told["faults"], ""]).encode())

    registry = CollectorRegistry()
    registry.register(_Collector(describe))
    ProcessCollector(registry=registry)
    healthy, paths = Response(HTTPStatus.OK, b"ok\n"), Response(HTTPStatus.OK, PATHS.encode())
    pages = {"/": lambda: paths, "/metrics": metrics, "/healthz": lambda: healthy, "/readyz": readiness}
    return HttpServer(loop, listen, pages)


class _Collector(Collector):
    def __init__(self, describe: Callable[[], dict[str, Any]]) -> None:
        self._describe = describe

    def collect(self) -> Iterable[Metric]:
        return families(self._describe())


def families(state: Mapping[str, Any]) -> Iterator[Metric]:
    """Yields the metrics for a state, which is the one that `status` shows."""
    runtime, stalls = state["runtime"], state["stalls"]
    text = "The versions of the adapter, of its runtime, and of the runtime's NRI."
    info = GaugeMetricFamily(f"{PREFIX}info", text, labels=("version", "runtime", "runtime_version", "nri"))
    info.add_metric([state["version"], *map(printable, (runtime["name"], runtime["version"])), runtime["nri"]], 1)
    yield info
    yield _gauge("joined", "Whether the adapter has joined a runtime.", state["state"] == "joined")
    yield _gauge("serving", "Whether this adapter, and not another one, has served the last event.", state["serves"])
    yield _gauge("owed_deletes", "Pods and containers that are owed a delete when they stop.", state["owed"])
    text = "What is wrong now in the configuration, in conf.json and in the hook files."
    yield _gauge("configuration_errors", text, state["configuration_errors"])
    text = "Whether the deletes that are owed would be forgotten if the adapter was killed."
    yield _gauge("state_fault", text, bool(state["state_fault"]))
    yield _gauge("loop_longest_turn_seconds", "The longest turn of the event loop.", stalls["longest"])
    yield CounterMetricFamily(f"{PREFIX}loop_stalls", "Turns of the event loop of more than 20 ms.", stalls["count"])
    yield CounterMetricFamily(f"{PREFIX}joins", "How often the adapter has joined a runtime.", state["joins"])
    yield _counter("hooks_injected", "Containers that got the hook of a file.", "file", state["hooks"])
    text = "Answers that came after the deadline."
    late = dict.fromkeys((call.method for call in BY_EVENT.values()), 0.0)  # an alert sees no rise from nothing to 1
    yield _counter("late_answers", text, "event", late | _by_name(state["events"], "late"))
    programs = state["programs"]
    text = "Failures of a legacy plugin or precreate hook."
    yield _counter("program_failures", text, "program", _by_name(programs, "failures"))
    text = "Runs of a legacy plugin or precreate hook that were not done when their time was over."
    yield _counter("late_programs", text, "program", _by_name(programs, "late"))
    text = "Runs of a legacy plugin or precreate hook that were killed."
    yield _counter("program_kills", text, "program", _by_name(programs, "killed"))
    text = "Processes of a program that were started ahead and wait for an event."
    waiting = GaugeMetricFamily(f"{PREFIX}standby_processes", text, labels=("program",))
    for name, crew in state["standby"].items():
        waiting.add_metric([printable(name)], crew["waiting"])
    yield waiting
    yield from _holds(state["holds"])
    yield from _durations(state["events"], programs)


def _holds(holds: Mapping[str, Any]) -> Iterator[Metric]:
    text = "Containers that are held now: they start when their legacy plugins are done."
    yield _gauge("held_containers", text, len(holds["held"]))
    text = "How long containers were held, by the end: let_go, refused, gone (killed by others), started."
    durations = HistogramMetricFamily(f"{PREFIX}hold_duration_seconds", text, labels=("end",))
    for end, times in holds["times"].items():
        _add(durations, (end,), times)
    yield durations
    text = "Containers that were to be held, and were not, by the evidence that was missing."
    yield _counter("not_held", text, "reason", holds["missing"])


def _durations(events: Mapping[str, Any], programs: Mapping[str, Any]) -> Iterator[Metric]:
    text = "The time from the coming of an event to its answer."
    of_events = HistogramMetricFamily(f"{PREFIX}event_duration_seconds", text, labels=("event",))
    for event, described in events.items():
        _add(of_events, (event,), described["times"])
    yield of_events
    text = "The time of a run of a legacy plugin or precreate hook until its outcome: done, failed or late."
    of_runs = HistogramMetricFamily(f"{PREFIX}program_duration_seconds", text, labels=("program", "outcome"))
    for program, account in programs.items():
        for outcome, times in account["times"].items():
            _add(of_runs, (program, outcome), times)
    yield of_runs


def _by_name(entries: Mapping[str, Any], key: str) -> dict[str, float]:
    return {name: entry[key] for name, entry in entries.items()}


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(PREFIX + name, text, float(value))


def _counter(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = CounterMetricFamily(PREFIX + name, text, labels=(label,))
    for key, value in values.items():
        family.add_metric([printable(key)], value)
    return family


def _add(family: HistogramMetricFamily, labels: Iterable[str], times: Mapping[str, Any]) -> None:
    """Adds an `v010_adapter.monitoring.times.Histogram`. In Prometheus, a bucket also counts all smaller buckets."""
    buckets = list(zip(_BUCKETS, accumulate(times["counts"]), strict=True))
    family.add_metric([*map(printable, labels)], buckets, times["seconds"])
