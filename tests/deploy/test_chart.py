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
        ({"legacy": {"conf": {"version": "0.1"}}}, "conf"),
        ({"terminationGracePeriodSeconds": 5}, "terminationGracePeriodSeconds"),
    ],
)
def test_a_wrong_value_is_named(wrong: dict[str, object], at: str) -> None:
    with pytest.raises(jsonschema.ValidationError) as caught:
        jsonschema.validate(values() | wrong, schema())
    assert at in f"{list(caught.value.absolute_path)} {caught.value.message}"


def test_the_table_of_values_is_the_schemas() -> None:
    assert table() in (CHART / "README.md").read_text()


def test_the_chart_has_the_version_of_the_adapter() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
