"""Each alert fires when it should, and none does in an upgrade, as Prometheus itself judges (promtool test rules)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from .test_metrics import ALERTS, promtool

OF_NODE, OF_NEXT = '{instance="10.0.0.1:8891"}', '{instance="10.0.0.2:8891"}'
MINUTES = 130
"""What the series have, a value for each. Whether an alert fires is looked at in the last 20."""

FIRES: dict[str, dict[str, str]] = {
    "V010AdapterAbsent": {"up": "1x130"},
    "V010AdapterMissingOnNodes": {
        'kube_daemonset_status_number_unavailable{daemonset="nri-v010-adapter"}': "0x100 1x29"
    },
    "V010AdapterNotJoined": {f"v010_adapter_joined{OF_NODE}": "1x120 0x9"},
    "V010AdapterServesNothing": {f"v010_adapter_joined{OF_NODE}": "1x130", f"v010_adapter_owner{OF_NODE}": "0x130"},
    "V010AdapterRejoins": {f"v010_adapter_joins_total{OF_NODE}": "1x100 2+1x29"},
    "V010AdapterConfigurationErrors": {f"v010_adapter_configuration_errors{OF_NODE}": "0x120 2x9"},
    "V010AdapterStateFault": {f"v010_adapter_state_fault{OF_NODE}": "0x120 1x9"},
    "V010AdapterProgramFails": {'v010_adapter_program_failures_total{program="konfine"}': "_x125 1x4"},
    "V010AdapterProgramLate": {'v010_adapter_late_programs_total{program="konfine"}': "0x125 1x4"},
    "V010AdapterAnswersLate": {'v010_adapter_late_answers_total{event="StartContainer"}': "0x125 1x4"},
    "V010AdapterStalls": {f"v010_adapter_loop_stalls_total{OF_NODE}": "0x100 0+120x29"},
}
"""What makes each alert fire."""
UPGRADE = {
    # The pod of one node is replaced at minute 125: for two minutes both run, and the first of them serves.
    'kube_daemonset_status_number_unavailable{daemonset="nri-v010-adapter"}': "0x124 1x1 0x3",
    **{
        f"v010_adapter_{name}{OF_NODE}": f"{value}x126 _x3"
        for name, value in {"info": 1, "joined": 1, "owner": 1}.items()
    },
    f"v010_adapter_info{OF_NEXT}": "_x124 1x4",
    f"v010_adapter_joined{OF_NEXT}": "_x124 0 1x3",
    f"v010_adapter_owner{OF_NEXT}": "_x124 0x2 1x1",
    f"v010_adapter_joins_total{OF_NEXT}": "_x124 0 1x3",
    f"v010_adapter_state_fault{OF_NEXT}": "_x124 0x4",
    f"v010_adapter_configuration_errors{OF_NEXT}": "_x124 0x4",
    f"v010_adapter_loop_stalls_total{OF_NEXT}": "_x124 3x4",
    **{
        f'v010_adapter_{name}_total{{program="konfine",instance="{instance}"}}': values
        for name in ("program_failures", "late_programs")
        for instance, values in {"10.0.0.1:8891": "7x126 _x3", "10.0.0.2:8891": "_x124 0x4"}.items()
    },
}
"""An upgrade of one node's adapter, which had seen failures long before."""


def judged(tmp_path: Path, series: Mapping[str, str], expected: int, labels: str = "") -> str:
    """What promtool has against the number of alerts with these labels that fire at any time in the end."""
    given = [{"series": name, "values": values} for name, values in series.items()]
    samples = [{"labels": "{}", "value": expected}] if expected else []
    query = f'count(last_over_time(ALERTS{{alertstate="firing"{labels}}}[20m]))'
    test = {"expr": query, "eval_time": f"{MINUTES - 1}m", "exp_samples": samples}
    file = tmp_path / "test.json"
    told: dict[str, Any] = {"interval": "1m", "input_series": given, "promql_expr_test": [test]}
    file.write_text(json.dumps({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": [told]}))
    return promtool("test", "rules", str(file))


def test_each_alert_fires(tmp_path: Path) -> None:
    rules = [rule["alert"] for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    assert sorted(rules) == sorted(FIRES)
    for name, series in FIRES.items():
        assert judged(tmp_path, series, 1, f', alertname="{name}"') == "", name


def test_no_alert_fires_in_an_upgrade(tmp_path: Path) -> None:
    assert judged(tmp_path, UPGRADE, 0) == ""


def test_the_series_of_an_upgrade_are_those_that_alerts_ask_for() -> None:
    """An alert could not fire for a series that is not there."""
    asked = {name.partition("{")[0] for series in FIRES.values() for name in series} - {"up"}
    assert {name.partition("{")[0] for name in UPGRADE} >= asked - {"v010_adapter_late_answers_total"}
