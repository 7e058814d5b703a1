"""The samples that are shell scripts, under every shell there is: dump and timezone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.rig.processes import NO_PROCESS

from .plugins import REQUESTS, Shell, event, execute, sample

# ---- dump: each request lands in a file of its own, byte for byte


HOSTILE = [
    "%s %n %d %%",
    "back\\slash \\n \\\\",
    "quotes \" ' `",
    "$(touch HERE/owned) `touch HERE/owned` $HOME ${IFS}",
    "line\nfeed\r\ttab",
    "end of input\nEND\n",
    "ünïcödé 漢字 \U0001f980 \u2028\u2029",
    '"},"state":"delete","id":"b7ad","sandboxID":"b7ad","conf":{"directory":"/nowhere"}',
    "{[}]",
    "trailing backslash \\",
]
LARGE = {
    "a": "x" * 900_000,
    "b": "\\" * 50_000 + "x",  # an expression that looks for their end from each of them takes many minutes
    **{f"note-{number}": '{"say": "\\" and \'"}' * 50 for number in range(200)},
}
NOISE = bytes(byte for byte in range(1, 256) if byte not in b'"\\')


def test_whatever_stands_in_a_request_it_is_kept_byte_for_byte(tmp_path: Path, shell: Shell) -> None:
    conf = b'{"conf": {"directory": "%s"},' % bytes(tmp_path)
    requests = [path.read_bytes().replace(b"{", conf, 1) for path in REQUESTS]  # indented, with a newline at the end
    for text in (text.replace("HERE", str(tmp_path)) for text in HOSTILE):
        for is_ascii in (True, False):
            request: dict[str, Any] = {"conf": {text: text, "directory": str(tmp_path), "last": text}}
            request |= sample("create-container")
            request["spec"]["annotations"] = request["labels"] = {text: text}
            requests.append(json.dumps(request, ensure_ascii=is_ascii).encode())
    large = sample("create-container", directory=str(tmp_path))
    large["spec"]["annotations"] = LARGE
    requests.append(json.dumps(large).encode())
    requests.append(requests[0].rstrip()[:-1] + b', "noise": "' + NOISE + b'"}\n\n\n')  # no text at all
    names = ["-".join(path.stem.split("-")[:2]) for path in REQUESTS]
    names += ["create-container"] * (2 * len(HOSTILE) + 1) + names[:1]
    for number, (request_text, name) in enumerate(zip(requests, names, strict=True), 1):
        file = tmp_path / f"{number:03}-dump-{name}.json"
        answer = execute("dump", request_text, **shell)
        assert (answer.metadata, answer.stderr) == ({"file": str(file)}, "")
        assert file.read_bytes() == request_text
    assert not (tmp_path / "owned").exists()


def test_only_the_keys_in_their_own_place_count(tmp_path: Path, shell: Shell) -> None:
    decoys = {"directory": "/nowhere", "state": "pause", "id": "1", "sandboxID": "1", "version": "9", "pid": 1}
    conf = {"first": decoys, "list": [decoys, "directory", "/nowhere"], **decoys, "directory": str(tmp_path)}
    request = {"results": [decoys], "labels": decoys, "spec": {"annotations": decoys}, "conf": conf}
    request |= {"version": "0.3", "state": "update", "id": "1e1", "sandboxID": "10", "tail": decoys}
    answer = execute("dump", request, **shell)
    assert answer.metadata == {"file": f"{tmp_path}/001-dump-update-container.json"}
    assert answer.result["version"] == "0.3"
    # No .proc: that pid was somebody else's.
    assert [path.name for path in tmp_path.iterdir()] == ["001-dump-update-container.json"]


def test_a_request_for_which_there_is_no_room_is_not_kept_and_fails_nothing(tmp_path: Path, shell: Shell) -> None:
    """A pod author decides how large requests are, and the directory is in memory."""
    before = tmp_path / "001-before.json"
    before.write_bytes(b"x" * ((16 << 20) - 500_000))
    small = sample("create-container", directory=str(tmp_path)) | {"pid": NO_PROCESS}  # else it is described, too
    large = sample("create-container", directory=str(tmp_path), text="x" * 600_000)
    skipped = {"skipped": f"{tmp_path} has 16 MiB already"}
    for request, expected in (
        (large, skipped),
        (small, {"file": f"{tmp_path}/002-dump-create-container.json"}),
        (large, skipped),
    ):
        answer = execute("dump", request, **shell)
        assert (answer.metadata, answer.stderr) == (expected, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == [before.name, "002-dump-create-container.json"]


# ---- timezone: the variable goes where it should, and nobody else's text is taken for it

KEY = "example.com/timezone"
CHOSEN: list[tuple[dict[str, str], dict[str, str], str]] = [
    ({KEY: "Europe/Berlin"}, {}, "Europe/Berlin"),
    ({}, {"zone": "America/Argentina/Buenos_Aires"}, "America/Argentina/Buenos_Aires"),
    ({KEY: "Etc/GMT+5"}, {"zone": "Etc/GMT-5"}, "Etc/GMT+5"),
    ({"timezone": "Here", "zone": "Here"}, {"other": "Here", "zone": "UTC"}, "UTC"),
]
NO_ZONES = [
    *("-a", "Europe Berlin", "../etc/passwd", "a\nb", 'a"b', "a\\b", "$(id)", "`id`", "%s", "*", "é", "a\\", '"', "🀀"),
]


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
