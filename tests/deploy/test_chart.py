"""The Helm chart: its values are those of the schema, and documented; what it renders is tested on Kubernetes."""

from __future__ import annotations

import jsonschema
import pytest
import yaml

from adapter import __version__

from .chart import CHART, schema, table, values


def test_the_default_values_are_valid() -> None:
    jsonschema.validate(values(), schema())


@pytest.mark.parametrize(
    ("wrong", "at"),
    [
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
    ],
)
def test_a_wrong_value_is_named(wrong: dict[str, object], at: str) -> None:
    with pytest.raises(jsonschema.ValidationError) as caught:
        jsonschema.validate(values() | wrong, schema())
    assert at in f"{list(caught.value.absolute_path)} {caught.value.message}"


@pytest.mark.parametrize(
    "right",
    [
        {"profile": "legacy", "legacy": {"conf": {"version": "0.1"}}},
        {"metrics": {"enabled": True, "podMonitor": True, "alerts": True}},
        {"updateStrategy": {"maxNodes": "100%"}},
    ],
)
def test_what_belongs_together_is_valid(right: dict[str, object]) -> None:
    jsonschema.validate(values() | right, schema())


def test_the_table_of_values_is_the_schemas() -> None:
    assert table() in (CHART / "README.md").read_text()


def test_the_chart_has_the_version_of_the_adapter() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
