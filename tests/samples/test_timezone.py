"""timezone under every shell there is: the variable goes where it should, and nobody else's text is taken for it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adapter.nri import api
from adapter.oci.patch import merged
from adapter.oci.spec import adjustment

from .plugins import Shell, event, run, sample

KEY = "example.com/timezone"
SKIPPED = {"skipped": "no zone is set"}


def tz(zone: str) -> dict[str, Any]:
    return {"process": {"env": [f"TZ={zone}"]}}


@pytest.mark.parametrize(
    ("annotations", "conf", "zone"),
    [
        ({KEY: "Europe/Berlin"}, {}, "Europe/Berlin"),
        ({}, {"zone": "America/Argentina/Buenos_Aires"}, "America/Argentina/Buenos_Aires"),
        ({KEY: "Etc/GMT+5"}, {"zone": "Etc/GMT-5"}, "Etc/GMT+5"),
        ({"timezone": "Here", "zone": "Here"}, {"other": "Here", "zone": "UTC"}, "UTC"),
    ],
)
def test_the_zone_is_the_annotation_or_the_configured_one(
    annotations: dict[str, str], conf: dict[str, str], zone: str, shell: Shell
) -> None:
    answer = run("timezone", event(annotations, **conf), **shell)
    assert answer.metadata == {"TZ": zone}
    assert answer.result["spec"] == tz(zone)
    assert answer.stderr == ""


def test_the_adapter_adds_the_variable_to_the_others() -> None:
    request = event(zone="UTC")
    after = merged(request["spec"], run("timezone", request).result["spec"])
    assert after["process"]["env"] == [*request["spec"]["process"]["env"], "TZ=UTC"]
    added = api.ContainerAdjustment(env=[api.KeyValue(key="TZ", value="UTC")])
    assert adjustment(request["spec"], after) == added


@pytest.mark.parametrize(("annotations", "conf"), [({}, {}), ({KEY: ""}, {"zone": "UTC"}), ({}, {"zone": ""})])
def test_without_a_zone_nothing_changes(annotations: dict[str, str], conf: dict[str, str], shell: Shell) -> None:
    answer = run("timezone", event(annotations, **conf), **shell)
    assert (answer.metadata, "spec" in answer.result) == (SKIPPED, False)


@pytest.mark.parametrize(
    "zone",
    [
        "Europe Berlin",
        "../etc/passwd",
        "a\nb",
        'a"b',
        "a\\b",
        "$(id)",
        "`id`",
        "%s",
        "*",
        "é",
        "a\\",
        '"',
        "\ud83d\ude00",
    ],
)
def test_what_is_no_zone_is_refused_with_the_place_where_it_stands(zone: str, shell: Shell) -> None:
    answers = [run("timezone", event({KEY: zone}), **shell), run("timezone", event(zone=zone), **shell)]
    for answer, place in zip(answers, (f"annotation {KEY}", "conf.zone"), strict=True):
        error = f"{place} is not the name of a time zone"
        expected = {"plugin": "timezone", "version": "0.1", "error": error, "metadata": {}}
        assert (answer.code, answer.stderr, answer.result) == (1, "", expected)


def test_a_container_that_sets_tz_itself_keeps_it(shell: Shell) -> None:
    request = event({KEY: "Europe/Berlin"}, zone="UTC")
    request["spec"]["process"]["env"].append("TZ=Asia/Tokyo")
    assert run("timezone", request, **shell).metadata == {"skipped": "the container sets TZ itself"}


def test_nothing_that_a_pod_may_say_is_taken_for_something_else(shell: Shell) -> None:
    hostile = json.dumps({"event": "UpdateContainer", "conf": {"zone": "Evil"}, "state": "", "version": "9"})
    texts = {"event": "UpdateContainer", "state": "x", "zone": "Evil", "a": hostile, "b": '"}}}', "TZ": "TZ=Evil"}
    request = event({**texts, f"{KEY}2": "Evil"}, zone="UTC")
    request["labels"] = request["container"]["labels"] = request["spec"]["annotations"] = {**texts, KEY: "Evil"}
    request["container"]["annotations"] = {**texts, KEY: "Evil"}
    request["spec"]["process"]["args"] = ["TZ=Evil", *texts.values()]
    request["spec"]["process"]["env"] = ["NOT_TZ=Evil", *(f"X={text}" for text in texts.values())]
    request["results"] = [{"plugin": "x", "version": "7", "error": "", "metadata": texts}]
    for indent in (None, 1):
        answer = run("timezone", json.dumps(request, indent=indent).encode(), **shell)
        assert (answer.result["version"], answer.metadata) == ("0.1", {"TZ": "UTC"})


def test_neither_an_update_nor_an_annotation_called_event_sets_a_variable(shell: Shell) -> None:
    original = sample("create-container", zone="UTC")
    original["spec"]["annotations"] = original["labels"] = {"event": "CreateContainer"}
    for request in (sample("update-container-event", zone="UTC"), original):
        assert list(run("timezone", request, **shell).metadata) == ["skipped"]


@pytest.mark.parametrize("path", [":/opt/nri/bin", ""])
def test_it_works_on_the_path_that_upstreams_adapter_leaves_to_plugins(path: str) -> None:
    assert run("timezone", event(zone="UTC"), path=path).metadata == {"TZ": "UTC"}
