"""What Prometheus is told, what dashboard and alerts ask for, and that each alert fires when it should."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.core import Metric

from nri import Identity
from tests.rig.debian import find, missing
from v010_adapter.daemon.daemon import Daemon, Origin
from v010_adapter.monitoring.metrics import PREFIX, families, serve
from v010_adapter.monitoring.times import Histogram
from v010_adapter.programs.process import Account, RunOutcome
from v010_adapter.settings import Settings

from ..rig.loop import SteppedLoop
from .test_http_server import GET, Client

ROOT = Path(__file__).parents[2]
ALERTS, DASHBOARD = ROOT / "deploy/prometheus/alerts.yaml", ROOT / "deploy/grafana/dashboard.json"
LABELS = {"version", "runtime", "runtime_version", "nri", "event", "program", "outcome", "file", "end", "reason"}


@cache
def described() -> dict[str, Any]:
    """The state of an adapter that has not joined a runtime yet."""
    daemon = Daemon(Settings(), [], Identity("v010-adapter", "00"), lambda: (Settings(), []), Origin())
    daemon._loop.close()
    return daemon._describe()


def state() -> dict[str, Any]:
    """The state of an adapter in which each part has something."""
    times = Histogram()
    account = Account(runs=4, failures=2, late=1, killed=1)
    for seconds, outcome in ((0.0015, RunOutcome.DONE), (0.003, RunOutcome.FAILED), (60, RunOutcome.LATE)):
        times.add(seconds)
        account.times[outcome].add(seconds)
    return described() | {
        "events": {"StartContainer": {"late": 1, "times": times.describe()}},
        "programs": {"konfine": account.describe()},
        "standby": {"konfine": {"waiting": 2, "off": ""}},
        "hooks": {"/etc/containers/oci/hooks.d/trace.json": 7},
        "holds": {"held": [{}], "times": {"refused": times.describe()}, "missing": {"no_fifo": 3}},
    }


@pytest.fixture(scope="module")
def metrics() -> list[Metric]:
    return list(families(state()))


def samples(metrics: list[Metric]) -> dict[str, set[str]]:
    """The labels of each sample's name."""
    return {sample.name: set(sample.labels) for metric in metrics for sample in metric.samples}


def test_no_label_is_of_a_pod_or_a_container(metrics: list[Metric]) -> None:
    assert set().union(*samples(metrics).values()) == LABELS | {"le"}


def scraped(loop: SteppedLoop, path: Path, told: dict[str, Any], page: str = "metrics") -> tuple[str, bytes]:
    """The head and the body of a page over HTTP."""
    server = serve(loop, f"unix:{path}", lambda: told)
    client = Client(loop, str(path))
    client.send(GET.replace(b"page", page.encode()))
    head, _, body = client.read().partition(b"\r\n\r\n")
    client.socket.close()
    server.close()
    return head.decode(), body


VALUES = """\
joined 0.0
serving 0.0
owed_deletes 0.0
configuration_errors 0.0
late_answers_total{event="StartContainer"} 1.0
late_answers_total{event="StopContainer"} 0.0
program_failures_total{program="konfine"} 2.0
late_programs_total{program="konfine"} 1.0
program_kills_total{program="konfine"} 1.0
standby_processes{program="konfine"} 2.0
held_containers 1.0
hold_duration_seconds_count{end="refused"} 3.0
not_held_total{reason="no_fifo"} 3.0
hooks_injected_total{file="/etc/containers/oci/hooks.d/trace.json"} 7.0
event_duration_seconds_bucket{event="StartContainer",le="0.001"} 0.0
event_duration_seconds_bucket{event="StartContainer",le="0.002"} 1.0
event_duration_seconds_bucket{event="StartContainer",le="0.005"} 2.0
event_duration_seconds_bucket{event="StartContainer",le="50.0"} 2.0
event_duration_seconds_bucket{event="StartContainer",le="+Inf"} 3.0
event_duration_seconds_sum{event="StartContainer"} 60.0045
program_duration_seconds_count{outcome="late",program="konfine"} 1.0
"""


def test_the_values_are_those_of_the_state(loop: SteppedLoop, tmp_path: Path) -> None:
    """A missing runtime, which is a fault, is no error of the configuration."""
    assert state()["faults"]
    for told, expected in ((state(), VALUES), (state() | {"configuration_errors": 2}, "configuration_errors 2.0")):
        lines = scraped(loop, tmp_path / "sock", told)[1].decode().splitlines()
        assert {PREFIX + line for line in expected.splitlines()} <= {*lines}
        assert [line for line in lines if line.startswith(STARTED)], "an alert reads it"
        texts = [line.split(" ", 3)[3] for line in lines if line.startswith("# HELP")]
        assert len({*texts}) == len(texts), "each says what it counts"


def test_a_name_of_any_characters_leaves_the_text_in_order(loop: SteppedLoop, tmp_path: Path) -> None:
    told = state()
    names = ["a\nb", 'a"b\\', "caf\udcc3\udca9", "\x1b[31m", "ü"]
    told |= {"hooks": dict.fromkeys(names, 1), "programs": dict.fromkeys(names, told["programs"]["konfine"])}
    told["runtime"] = told["runtime"] | {"name": "".join(names)}
    _, body = scraped(loop, tmp_path / "sock", told)
    assert body.count(b"hooks_injected_total{") == len(names)
    for line in body.decode().splitlines():
        assert re.fullmatch(r'# (HELP|TYPE) .+|[a-z0-9_]+(\{(\w+="([^"\\]|\\.)*",?)+\})? [0-9.e+-]+', line), line


def test_ready_is_who_has_joined_serving_or_not_and_could_run_its_plugins(loop: SteppedLoop, tmp_path: Path) -> None:
    reasons = {"serves": False, "faults": ["not joined: no such file", "konfine: not found"]}
    why = b"not joined: no such file\nkonfine: not found\n"
    for name, status, more in (("joined", 200, b""), ("joining", 503, why), ("apart", 503, why), ("ending", 503, why)):
        head, body = scraped(loop, tmp_path / "sock", state() | reasons | {"state": name}, "readyz")
        assert (head.split()[1], body) == (str(status), f"{name}\n".encode() + more)
    head, body = scraped(loop, tmp_path / "sock", state() | reasons | {"state": "joined", "unfit": True}, "readyz")
    assert (head.split()[1], body) == ("503", b"unfit\n" + why)


# ---- Prometheus' own judgement, and what its users ask for


def promtool(*words: str, text: bytes = b"") -> str:
    """What promtool finds wrong."""
    program = find("promtool", "prometheus")
    if isinstance(program, str):
        missing(program)
    done = subprocess.run([program, *words], input=text, capture_output=True, check=False)
    return (done.stdout + done.stderr).decode() if done.returncode else ""


def alerts() -> list[str]:
    rules = yaml.safe_load(ALERTS.read_text())
    return [rule["expr"] for group in rules["groups"] for rule in group["rules"]]


def panels() -> list[str]:
    dashboard = json.loads(DASHBOARD.read_text())
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def test_promtool_has_nothing_against_metrics_alerts_and_dashboard(loop: SteppedLoop, tmp_path: Path) -> None:
    head, body = scraped(loop, tmp_path / "sock", state())
    assert "Content-Type: text/plain; version=0.0.4" in head
    assert promtool("check", "metrics", text=body) == ""
    assert promtool("check", "rules", "--lint-fatal", str(ALERTS)) == ""
    queries = [query.replace("$__rate_interval", "5m") for query in panels()]
    rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(queries)]
    file = tmp_path / "panels.yaml"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    assert promtool("check", "rules", "--lint-fatal", str(file)) == ""


def test_what_alerts_and_dashboard_ask_for_exists_and_the_dashboard_shows_every_metric(metrics: list[Metric]) -> None:
    known = samples(metrics) | dict.fromkeys((UNAVAILABLE, UPDATED, DESIRED), OF_SETS)
    for query in (*alerts(), *panels()):
        asked = re.findall(rf"(?:{PREFIX}|kube_)\w+", query)
        assert asked, query
        assert {*asked} <= known.keys()
        of_all = set().union(*(known[name] for name in asked)) | {"instance", "job"}
        grouped = [name for names in re.findall(r"(?:by|on|ignoring) \(([^)]*)\)", query) for name in names.split(", ")]
        matched = re.findall(r"[{,] ?(\w+)[=!]", query)
        assert {*grouped, *matched} <= of_all, query
    shown = set(re.findall(rf"{PREFIX}\w+?(?=_total|_bucket|_count|\b)", " ".join(panels())))
    assert {metric.name for metric in metrics} - {f"{PREFIX}info"} <= shown
    for file in (ALERTS, DASHBOARD):  # in annotations and legends, an unknown label is an empty text
        text = file.read_text()
        used = {*re.findall(r"\$labels\.(\w+)", text), *re.findall(r"{{(\w+)}}", text)}
        assert used <= LABELS | OF_SETS | {"instance"}


def test_each_panel_says_what_it_shows_on_one_axis_with_few_lines() -> None:
    """Nodes, programs, files, and evidence may be many: the first eight are shown."""
    few = {"outcome", "end", "le", ""}
    dashboard = json.loads(DASHBOARD.read_text())
    assert len({panel["title"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    for panel in dashboard["panels"]:
        assert len(panel["description"]) > 40, panel["title"]
        assert panel["fieldConfig"]["overrides"] == []
        assert len(panel["targets"]) <= 2
        for target in panel["targets"]:
            query = target["expr"]
            shown = {*re.findall(r"{{(\w+)}}", target["legendFormat"])}
            assert shown <= few or query.startswith("topk(8, "), query
            assert re.match(r"(topk|sum|count|max|quantile|histogram_quantile)\b", query), query
            is_rate = "rate(" in query and not query.startswith(("topk(8, histogram", "histogram"))
            assert is_rate == (panel["fieldConfig"]["defaults"]["unit"] == "cps"), query


MINUTES = 130
"""What the series have, a value for each. Whether an alert fires is looked at in the last 20."""
OF_NODES = "kube_daemonset_status_"
UNAVAILABLE, UPDATED = f"{OF_NODES}number_unavailable", f"{OF_NODES}updated_number_scheduled"
DESIRED = f"{OF_NODES}desired_number_scheduled"
STARTED = "process_start_time_seconds"
OF_SETS = frozenset({"daemonset", "namespace"})
"""Labels of kube-state-metrics."""
OF_SET = '{daemonset="nri-v010-adapter"}'
OF_OTHER_SET = '{cluster="other",daemonset="nri-v010-adapter"}'
FAILURES = 'v010_adapter_program_failures_total{program="konfine"}'
FIRES: list[tuple[str, dict[str, str]]] = [
    ("Absent", {"up": "1x130"}),
    ("MissingOnNodes", {UNAVAILABLE + OF_SET: "0x100 1x29", UNAVAILABLE + OF_OTHER_SET: "0x130"}),
    ("UpgradeStops", {UPDATED + OF_SET: "30x60 0x2 1x67", DESIRED + OF_SET: "30x130"}),
    ("NotJoined", {'v010_adapter_joined{instance="1"}': "1x120 0x9"}),
    ("Rejoins", {'v010_adapter_joins_total{instance="1"}': "1x100 2+1x29"}),
    ("Rejoins", {"v010_adapter_joins_total": "1x130", "v010_adapter_joined": "1x130", STARTED: "1000x70 1000+60x59"}),
    ("ConfigurationErrors", {'v010_adapter_configuration_errors{instance="1"}': "0x120 2x9"}),
    ("StateFault", {'v010_adapter_state_fault{instance="1"}': "0x120 1x9"}),
    ("ProgramFails", {FAILURES: "_x126 1x4", "v010_adapter_joined": "1x130"}),
    ("ProgramFails", {FAILURES: "9x125 0 1x4"}),
    ("ProgramLate", {'v010_adapter_late_programs_total{program="konfine"}': "0x125 1x4"}),
    ("NotHeld", {'v010_adapter_not_held_total{reason="no_fifo"}': "0x125 1x4"}),
    ("Holds", {'v010_adapter_held_containers{instance="1"}': "0x120 1x9"}),
    ("AnswersLate", {'v010_adapter_late_answers_total{event="StartContainer"}': "0x125 1x4"}),
    ("Stalls", {'v010_adapter_loop_stalls_total{instance="1"}': "0x100 0+120x29"}),
]
"""What makes each alert fire, once."""
OF_PROGRAMS = ("program_failures", "late_programs")
QUIET = {
    # 30 nodes are upgraded one after the other, in two minutes each; it is scraped whenever an old pod ends.
    UNAVAILABLE + OF_SET: "0x69 " + "1 0 " * 30,
    UPDATED + OF_SET: "30x69 " + " ".join(f"{node}x1" for node in range(30)),
    DESIRED + OF_SET: "30x130",
    # On the last of them, both adapters run for two minutes, and the first of them serves.
    **{f'v010_adapter_{name}{{instance="1"}}': "1x126 _x3" for name in ("info", "joined")},
    'v010_adapter_info{instance="2"}': "_x124 1x4",
    'v010_adapter_joined{instance="2"}': "_x124 0 1x3",
    'v010_adapter_joins_total{instance="2"}': "_x124 0 1x3",
    'v010_adapter_state_fault{instance="2"}': "_x124 0x4",
    'v010_adapter_configuration_errors{instance="2"}': "_x124 0x4",
    'v010_adapter_loop_stalls_total{instance="2"}': "_x124 3x4",
    'v010_adapter_held_containers{instance="2"}': "_x124 3x2 0x2",
    'v010_adapter_not_held_total{reason="no_process",instance="2"}': "_x124 0 7x3",
    STARTED + '{instance="2"}': "_x124 1000x4",
    **{f'v010_adapter_{name}_total{{program="konfine",instance="1"}}': "7x126 _x3" for name in OF_PROGRAMS},
    **{f'v010_adapter_{name}_total{{program="konfine",instance="2"}}': "_x124 0x4" for name in OF_PROGRAMS},
    # Nodes come to another cluster, and go.
    UNAVAILABLE + OF_OTHER_SET: "2x8 0 3x8 0 " * 8,
    **{name + OF_OTHER_SET: "3x4 4x4 2x4 " * 9 for name in (UPDATED, DESIRED)},
    # For ten minutes, nothing was scraped of an adapter that had seen failures before.
    'v010_adapter_program_failures_total{program="konfine",instance="3"}': "7x110 _x9 7x10",
    'v010_adapter_joined{instance="3"}': "1x110 _x9 1x10",
}
"""What no alert is about."""


def judged(tmp_path: Path, cases: Iterable[tuple[Mapping[str, str], int, str]]) -> str:
    """What promtool has against cases: series, and how many alerts with these labels fire at any time in the end."""
    tests: list[dict[str, Any]] = []
    for series, expected, labels in cases:
        given = [{"series": name, "values": values} for name, values in series.items()]
        samples = [{"labels": "{}", "value": expected}] if expected else []
        query = f'count(last_over_time(ALERTS{{alertstate="firing"{labels}}}[20m]))'
        test = {"expr": query, "eval_time": f"{MINUTES - 1}m", "exp_samples": samples}
        tests.append({"interval": "1m", "input_series": given, "promql_expr_test": [test]})
    file = tmp_path / "test.json"
    file.write_text(json.dumps({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": tests}))
    return promtool("test", "rules", str(file))


@pytest.mark.ci
def test_each_alert_fires(tmp_path: Path) -> None:
    rules = [rule["alert"] for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    assert {*rules} == {f"V010Adapter{name}" for name, _ in FIRES}
    assert judged(tmp_path, ((series, 1, f', alertname="V010Adapter{name}"') for name, series in FIRES)) == ""


def test_no_alert_fires_in_an_upgrade_though_all_that_alerts_ask_for_is_there(tmp_path: Path) -> None:
    assert judged(tmp_path, [(QUIET, 0, "")]) == ""
    asked = {name.partition("{")[0] for _, series in FIRES for name in series} - {"up"}
    assert {name.partition("{")[0] for name in QUIET} >= asked - {"v010_adapter_late_answers_total"}
