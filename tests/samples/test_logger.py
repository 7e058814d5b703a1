"""logger: one line per request, whatever stands in the request, and never a pod's undoing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from .plugins import run, sample

WEB = "container web in pod default/web-0: id a42d519714d6, pid 4017, image localhost/web:1.4"
LINES = {
    "create-sandbox": "create sandbox of pod default/web-0: id b7ad567477c8, pid 4001",
    "create-container": f"create {WEB}",
    "create-container-systemd": f"create {WEB}, after logger",
    "delete-container": f"delete {WEB}",
    "delete-sandbox": "delete sandbox of pod default/web-0: id b7ad567477c8, pid 4001",
}


def test_a_request_becomes_one_line_on_stderr() -> None:
    for name, line in LINES.items():
        answer = run("logger", sample(name))
        assert (answer.stderr, answer.metadata) == (f"{line}\n", {"logged": "stderr"})


def test_names_are_found_where_kubernetes_and_cri_o_put_them_and_ids_stand_in_for_them() -> None:
    kubernetes = {"container.name": "POD", "pod.name": "p1", "pod.namespace": "ns"}
    request: dict[str, Any] = {"state": "create", "id": "c" * 64, "sandboxID": "5" * 64}
    request["labels"] = {f"io.kubernetes.{key}": value for key, value in kubernetes.items()}
    annotations = {"io.kubernetes.container.name": "c1", "io.kubernetes.cri-o.ImageName": "localhost/bb:1"}
    line = "create container c1 in pod ns/p1: id cccccccccccc, pid unknown, image localhost/bb:1\n"
    assert run("logger", request | {"spec": {"annotations": annotations}}).stderr == line
    line = "None container ? in pod ?/None: id x, pid unknown, image unknown\n"
    assert run("logger", {"id": "x", "spec": None, "labels": None}).stderr == line


def test_nothing_in_a_request_can_forge_a_second_line_or_make_it_long() -> None:
    request = sample("create-container")
    request["spec"]["annotations"]["io.kubernetes.cri.container-name"] = "a\ndelete\r\x1b[2J\u2028\u202e\ud800 ö 漢"
    line = run("logger", request).stderr
    assert line.startswith(r"create container a\ndelete\r\x1b[2J\u2028\u202e\ud800 ö 漢 in pod default/web-0")
    assert line.count("\n") == len(line.splitlines()) == 1
    for name in ("sandbox-name", "sandbox-namespace", "container-name", "image-name"):
        request["spec"]["annotations"][f"io.kubernetes.cri.{name}"] = "a" * 250_000
    line = run("logger", request).stderr
    assert (line.count("a" * 512), len(line) < 2300) == (4, True)


def test_lines_are_appended_to_the_file_with_the_time_and_one_that_cannot_be_written_fails_no_pod(
    tmp_path: Path,
) -> None:
    file = tmp_path / "log"
    for name in ("create-sandbox", "create-container"):
        assert run("logger", sample(name, file=str(file))).metadata == {"logged": f"stderr, {file}"}
    first, second = file.read_text().splitlines()
    assert re.fullmatch(rf"\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{{4}} {LINES['create-sandbox']}", first)
    assert second.endswith(f" {LINES['create-container']}")

    answer = run("logger", sample("create-sandbox", file=str(tmp_path / "missing/log")))
    assert answer.metadata == {"logged": "stderr"}
    complaint = f"cannot write to {tmp_path}/missing/log: No such file or directory"
    assert answer.stderr.splitlines() == [LINES["create-sandbox"], complaint]


def test_a_request_that_cannot_be_described_is_answered_with_an_error() -> None:
    answer = run("logger", sample("create-container") | {"spec": "x", "results": [1]})
    assert answer.result["error"].startswith("cannot read the request on stdin: ")
    answer.is_error("logger", answer.result["error"])
