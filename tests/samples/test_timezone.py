"""timezone under every shell there is: the variable goes where it should, and nobody else's text is taken for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .plugins import Shell, event, execute, sample

KEY = "example.com/timezone"
CHOSEN: list[tuple[dict[str, str], dict[str, str], str]] = [
    ({KEY: "Europe/Berlin"}, {}, "Europe/Berlin"),
    ({}, {"zone": "America/Argentina/Buenos_Aires"}, "America/Argentina/Buenos_Aires"),
    ({KEY: "Etc/GMT+5"}, {"zone": "Etc/GMT-5"}, "Etc/GMT+5"),
    ({"timezone": "Here", "zone": "Here"}, {"other": "Here", "zone": "UTC"}, "UTC"),
]
NO_ZONES = (
    "-a",
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
    "🀀",
)


def test_the_zone_is_the_annotation_or_the_configured_one(shell: Shell) -> None:
    for annotated, conf, zone in CHOSEN:
        answer = execute("timezone", event(annotated, **conf), **shell)
        spec = {"process": {"env": [f"TZ={zone}"]}}
        assert (answer.metadata, answer.result["spec"], answer.stderr) == ({"TZ": zone}, spec, "")


def test_what_is_no_zone_is_refused_with_the_place_where_it_stands(shell: Shell) -> None:
    for zone in NO_ZONES:
        for place, request in ((f"annotation {KEY}", event({KEY: zone})), ("conf.zone", event(zone=zone))):
            answer = execute("timezone", request, **shell)
            answer.is_error("timezone", f"{place} is not the name of a time zone")
    error = f"annotation {KEY} has 250000 characters, at most 100"
    execute("timezone", event({KEY: "a" * 250_000}), **shell).is_error("timezone", error)


def test_without_a_zone_or_where_the_container_sets_tz_itself_nothing_changes(shell: Shell) -> None:
    with_tz = event({KEY: "Europe/Berlin"}, zone="UTC")
    with_tz["spec"]["process"]["env"].append("TZ=Asia/Tokyo")
    original = sample("create-container", zone="UTC")
    original["spec"]["annotations"] = original["labels"] = {"event": "CreateContainer"}
    unset: Any
    for unset in ({}, {KEY: ""}):
        answer = execute("timezone", event(unset, zone=""), **shell)
        assert (answer.metadata, "spec" in answer.result) == ({"skipped": "no zone is set"}, False)
    for request in (with_tz, original, event({KEY: ""}, zone="UTC"), sample("update-container-event", zone="UTC")):
        assert list(execute("timezone", request, **shell).metadata) == ["skipped"]


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


def test_the_shell_samples_work_on_the_path_that_upstreams_adapter_leaves_to_plugins(tmp_path: Path) -> None:
    for path in (":/opt/nri/bin", ""):
        assert execute("timezone", event(zone="UTC"), path=path).metadata == {"TZ": "UTC"}
        answer = execute("dump", sample("create-sandbox", directory=str(tmp_path)), path=path)
        assert (answer.code, answer.stderr) == (0, "")
    assert len([*tmp_path.glob("*.json")]) == 2
