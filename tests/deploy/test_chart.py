"""The Helm chart: its values are those of the schema, and documented; what it renders is tested on Kubernetes."""

from __future__ import annotations

import jsonschema
import pytest
import yaml

from adapter import __version__

from .chart import CHART, schema, table, values

WRONG: list[tuple[dict[str, object], str]] = [  # values, and what the error names
    ({"profile": "all"}, "profile"),
    ({"imagee": {}}, "imagee"),
    ({"hooks": {"files": {"x.txt": {}}}}, "x.txt"),
    ({"legacy": {"conf": {"version": "0.1"}}}, "profile"),
    ({"legacy": {"configMap": "mine"}}, "profile"),
    ({"metrics": {"enabled": False, "podMonitor": True}}, "enabled"),
    ({"metrics": {"enabled": False, "alerts": True}}, "enabled"),
    ({"updateStrategy": {"maxNodes": 0}}, "maxNodes"),
    ({"updateStrategy": {"maxNodes": "some"}}, "maxNodes"),
    ({"terminationGracePeriodSeconds": 5}, "terminationGracePeriodSeconds"),
]


def test_a_wrong_value_is_named() -> None:
    for wrong, at in WRONG:
        with pytest.raises(jsonschema.ValidationError) as caught:
            jsonschema.validate(values() | wrong, schema())
        assert at in f"{list(caught.value.absolute_path)} {caught.value.message}", wrong


def test_the_default_values_and_what_belongs_together_are_valid() -> None:
    legacy: dict[str, object] = {"profile": "legacy", "legacy": {"conf": {"version": "0.1"}}}
    monitored = {"metrics": {"enabled": True, "podMonitor": True, "alerts": True}}
    for right in ({}, legacy, monitored, {"updateStrategy": {"maxNodes": "100%"}}):
        merged = values() | right
        jsonschema.validate(merged, schema())
        assert merged.keys() == values().keys(), right


def test_the_table_of_values_is_the_schemas() -> None:
    assert table() in (CHART / "README.md").read_text()


def test_the_chart_has_the_version_of_the_adapter() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
