"""conf.json as installers and accidents leave it, under a daemon that looks at it for every event."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from adapter.wire import Code

from .harness import Daemon, Node, start, stop

BROKEN = '{\n  "version": "0.1",\n  "plugins": [\n    {"type": "good"},\n  ]\n}\n'


def test_an_absent_file_means_no_plugins(node: Node) -> None:
    node.conf_json.unlink()
    daemon = node.launch()
    assert daemon.call("StartContainer", start("ctr")).code == Code.OK
    assert node.runs("good") == []
    node.still_serves(daemon)


def test_a_broken_file_fails_creates_with_file_and_line_and_lets_deletes_pass(node: Node) -> None:
    node.write_conf(BROKEN)
    daemon = node.launch()
    reply = daemon.call("StartContainer", start("ctr"))
    assert (reply.code, reply.message) == (
        Code.UNKNOWN,
        f"{node.conf_json}:5: unexpected ']' (no plugin can run)",
    )
    assert daemon.call("StopContainer", stop("ctr")).code == Code.OK
    assert daemon.logged("ERROR", f" {node.conf_json}:5: unexpected ']'")
    node.still_serves(daemon)


def test_a_broken_file_fails_no_create_where_failures_are_ignored(node: Node) -> None:
    node.write_conf(BROKEN)
    daemon = node.launch({"onFailure": "ignore"})
    assert daemon.call("StartContainer", start("ctr")).code == Code.OK
    daemon.logged("ERROR", f" {node.conf_json}:5: unexpected ']'")
    node.still_serves(daemon)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ":1: the file is empty"),
        ("\n \n", ":3: the file is empty"),
        ("plugins: []", ":1: unexpected 'p'"),
        ('{"plugins": [{"type": "go', ":1: a string without end"),
        ("[]", ":1: must be an object, not an array"),
        ('{\n"plugins": 5}', ":2: plugins: must be an array, not a number"),
        ('{"plugins":\n["good"]}', ":2: plugins[0]: must be an object, not a string"),
        ('{"plugins":[\n{"type":"good"},\n{"type":7}]}', ":3: plugins[1].type: must be a string, not a number"),
        ('{"plugins":[\n{"type":"good"},\n{"conf":{}}]}', ":3: plugins[1].type: missing or empty"),
        ('{"plugins":[{"type":"a\\u0000b"}]}', ":1: plugins[0].type: contains a NUL character"),
        (b"\xef\xbb\xbf{}", ":1: unexpected "),
        (b"\xff\xfe{\0}\0", ":1: unexpected "),
        (b"\0" * 5000, ":1: unexpected "),
        ('{"a":' * 20_000, ":1: nested too deeply"),
        ("[" * (1 << 20), ":1: nested too deeply"),
        ('{"plugins": [' + "0," * 500_000 + "0]}", ":1: more than 100000 values"),
        ('{"plugins": []}' + " " * (1 << 20), f": {(1 << 20) + 15} bytes, at most {1 << 20}"),
    ],
    ids=[
        *(
            "empty",
            "blank",
            "no JSON",
            "cut off",
            "no object",
            "wrong plugins",
            "wrong plugin",
            "wrong type",
            "no type",
        ),
        *("a NUL", "a BOM", "UTF-16", "zeros", "deep objects", "deep arrays", "dense", "huge"),
    ],
)
def test_what_is_wrong_with_a_file_is_named_and_costs_nothing(
    shared: Daemon, shared_node: Node, text: str | bytes, expected: str
) -> None:
    assert shared.call("StartContainer", start("ctr")).code == Code.OK
    shared_node.write_conf(text)
    assert shared.call("StartContainer", start("ctr")).code == Code.OK
    shared.logged(f" ERROR {shared_node.conf_json}{expected}", "; the last good version stays in force")
    shared_node.still_serves(shared)


def directory(path: Path) -> None:
    path.mkdir()


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def loop(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (directory, "not a regular file"),
        (os.mkfifo, "not a regular file"),
        (device, "not a regular file"),
        (loop, "Too many levels of symbolic links"),
    ],
    ids=["a directory", "a FIFO", "a device", "a loop of links"],
)
def test_what_is_no_file_is_named_and_blocks_nothing(
    shared: Daemon, shared_node: Node, make: Callable[[Path], None], reason: str
) -> None:
    assert shared.call("StartContainer", start("ctr")).code == Code.OK
    shared_node.conf_json.unlink()
    make(shared_node.conf_json)
    try:
        assert shared.call("StartContainer", start("ctr")).code == Code.OK
        shared.logged(f" ERROR {shared_node.conf_json}: ", reason, "; the last good version stays in force")
    finally:
        if make is directory:
            shared_node.conf_json.rmdir()
    shared_node.still_serves(shared)


def test_a_file_that_breaks_leaves_its_last_good_version_in_force_and_is_logged_once(node: Node) -> None:
    node.configure("good")
    daemon = node.launch()
    assert daemon.call("StartContainer", start("one")).code == Code.OK
    node.write_conf(BROKEN)
    assert daemon.call("StartContainer", start("two")).code == Code.OK
    assert daemon.call("StartContainer", start("three")).code == Code.OK
    assert node.runs("good") == [("create", "one"), ("create", "two"), ("create", "three")]
    node.still_serves(daemon)
    daemon.logged("INFO", f"{node.conf_json} is in order again")
    (line,) = [line for line in daemon.log if "unexpected" in line]
    assert line.endswith(f"ERROR {node.conf_json}:5: unexpected ']'; the last good version stays in force")


def test_a_file_that_is_removed_means_no_plugins_but_its_creates_still_get_their_deletes(node: Node) -> None:
    node.configure("good")
    daemon = node.launch()
    assert daemon.call("StartContainer", start("one")).code == Code.OK
    node.conf_json.unlink()
    assert daemon.call("StartContainer", start("two")).code == Code.OK
    assert daemon.call("StopContainer", stop("one")).code == Code.OK
    assert daemon.call("StopContainer", stop("two")).code == Code.OK
    assert node.runs("good") == [("create", "one"), ("delete", "one")]
    node.still_serves(daemon)


@pytest.mark.parametrize("how", ["in place", "by rename"])
def test_a_file_that_is_rewritten_between_events_counts_for_the_next(node: Node, how: str) -> None:
    """Same size each time, and quicker than many a file system's clock ticks."""
    daemon = node.launch()
    expected = []
    for number in range(20):
        text = json.dumps({"version": "0.1", "plugins": [{"type": "good", "conf": {"number": f"{number:02}"}}]})
        if how == "in place":
            node.conf_json.write_text(text)
        else:
            node.write_conf(text)
        expected.append({"number": f"{number:02}"})
        assert daemon.call("StartContainer", start(f"ctr-{number}")).code == Code.OK
    assert [request["conf"] for request in node.requests("good")] == expected
    node.still_serves(daemon)


def test_a_file_that_is_half_written_at_one_event_and_whole_at_the_next_harms_neither(node: Node) -> None:
    node.plugin("new", node.record("new"))
    node.configure("good")
    daemon = node.launch()
    assert daemon.call("StartContainer", start("before")).code == Code.OK
    whole = json.dumps({"version": "0.1", "plugins": [{"type": "new"}]})
    with node.conf_json.open("w") as file:
        file.write(whole[:20])
        file.flush()
        assert daemon.call("StartContainer", start("half")).code == Code.OK
        file.write(whole[20:])
        file.flush()
        assert daemon.call("StartContainer", start("whole")).code == Code.OK
    assert node.runs("good") == [("create", "before"), ("create", "half")]
    assert node.runs("new") == [("create", "whole")]
    node.still_serves(daemon)


def test_the_delete_runs_under_the_configuration_of_its_create(node: Node) -> None:
    node.write_conf('{"version":"1","plugins":[{"type":"good","conf":{"a":1.10}}]}')
    daemon = node.launch()
    assert daemon.call("StartContainer", start("ctr")).code == Code.OK
    node.configure("missing")
    assert daemon.call("StopContainer", stop("ctr")).code == Code.OK
    create, delete = node.requests("good")
    assert [create["state"], delete["state"]] == ["create", "delete"]
    assert delete["conf"] == create["conf"] == {"a": 1.10}
    assert delete["version"] == create["version"] == "1"
    node.still_serves(daemon)


def test_a_file_of_nearly_a_mebibyte_is_taken_whole(node: Node) -> None:
    node.plugin("whole", f"cat >'{node.path}/request'; echo '{{}}'")
    big = "x" * 1_000_000
    node.write_conf(json.dumps({"version": "0.1", "plugins": [{"type": "whole", "conf": {"big": big}}]}))
    daemon = node.launch()
    assert daemon.call("StartContainer", start("ctr")).code == Code.OK
    assert json.loads((node.path / "request").read_bytes())["conf"] == {"big": big}
    node.still_serves(daemon)


def test_a_hundred_plugins_run_in_their_order(node: Node) -> None:
    for number in range(100):
        node.plugin(f"p{number}", f"echo {number} >>'{node.path}/order'; echo '{{\"plugin\":\"p{number}\"}}'")
    node.configure(*(f"p{number}" for number in range(100)))
    daemon = node.launch()
    assert daemon.call("StartContainer", start("ctr")).code == Code.OK
    assert (node.path / "order").read_text().split() == [str(number) for number in range(100)]
    node.still_serves(daemon)
