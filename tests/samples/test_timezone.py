"""timezone under every shell there is: the variable goes where it should, and nobody else's text is taken for it."""

from __future__ import annotations

import json
from typing import Any

from adapter.nri import api
from adapter.oci.patch import merged
from adapter.oci.spec import adjustment

from .plugins import Shell, event, execute, sample

KEY = "example.com/timezone"
SKIPPED = {"skipped": "no zone is set"}


def tz(zone: str) -> dict[str, Any]:
    return {"process": {"env": [f"TZ={zone}"]}}


CHOSEN: list[tuple[dict[str, str], dict[str, str], str]] = [
    ({KEY: "Europe/Berlin"}, {}, "Europe/Berlin"),
    ({}, {"zone": "America/Argentina/Buenos_Aires"}, "America/Argentina/Buenos_Aires"),
    ({KEY: "Etc/GMT+5"}, {"zone": "Etc/GMT-5"}, "Etc/GMT+5"),
    ({"timezone": "Here", "zone": "Here"}, {"other": "Here", "zone": "UTC"}, "UTC"),
]
NO_ZONES = ("Europe Berlin", "../etc/passwd", "a\nb", 'a"b', "a\\b", "$(id)", "`id`", "%s", "*", "é", "a\\", '"', "🀀")


def test_the_zone_is_the_annotation_or_the_configured_one(shell: Shell) -> None:
    for annotated, conf, zone in CHOSEN:
        answer = execute("timezone", event(annotated, **conf), **shell)
        assert (answer.metadata, answer.result["spec"], answer.stderr) == ({"TZ": zone}, tz(zone), "")


def test_the_adapter_adds_the_variable_to_the_others() -> None:
    request = event(zone="UTC")
    after = merged(request["spec"], execute("timezone", request).result["spec"])
    assert after["process"]["env"] == [*request["spec"]["process"]["env"], "TZ=UTC"]
    added = api.ContainerAdjustment(env=[api.KeyValue(key="TZ", value="UTC")])
    assert adjustment(request["spec"], after) == added


def test_without_a_zone_nothing_changes(shell: Shell) -> None:
    unset: list[tuple[dict[str, str], dict[str, str]]] = [({}, {}), ({KEY: ""}, {"zone": "UTC"}), ({}, {"zone": ""})]
    for annotated, conf in unset:
        answer = execute("timezone", event(annotated, **conf), **shell)
        assert (answer.metadata, "spec" in answer.result) == (SKIPPED, False)


def test_what_is_no_zone_is_refused_with_the_place_where_it_stands(shell: Shell) -> None:
    for zone in NO_ZONES:
        for place, request in ((f"annotation {KEY}", event({KEY: zone})), ("conf.zone", event(zone=zone))):
            answer = execute("timezone", request, **shell)
            answer.is_error("timezone", f"{place} is not the name of a time zone")


def test_a_container_that_sets_tz_itself_keeps_it(shell: Shell) -> None:
    request = event({KEY: "Europe/Berlin"}, zone="UTC")
    request["spec"]["process"]["env"].append("TZ=Asia/Tokyo")
    assert execute("timezone", request, **shell).metadata == {"skipped": "the container sets TZ itself"}


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
        answer = execute("timezone", json.dumps(request, indent=indent).encode(), **shell)
        assert (answer.result["version"], answer.metadata) == ("0.1", {"TZ": "UTC"})


def test_neither_an_update_nor_an_annotation_called_event_sets_a_variable(shell: Shell) -> None:
    original = sample("create-container", zone="UTC")
    original["spec"]["annotations"] = original["labels"] = {"event": "CreateContainer"}
    for request in (sample("update-container-event", zone="UTC"), original):
        assert list(execute("timezone", request, **shell).metadata) == ["skipped"]


def test_it_works_on_the_path_that_upstreams_adapter_leaves_to_plugins() -> None:
    for path in (":/opt/nri/bin", ""):
        assert execute("timezone", event(zone="UTC"), path=path).metadata == {"TZ": "UTC"}
