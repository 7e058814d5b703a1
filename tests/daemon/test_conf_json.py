"""conf.json as installers and accidents leave it, under a running daemon; tests/legacy/test_config_* has every case."""

from __future__ import annotations

import json
import os

from adapter.wire import Code

from .harness import Node, start, stop

BROKEN = '{\n  "version": "0.1",\n  "plugins": [\n    {"type": "good"},\n  ]\n}\n'


def test_an_absent_file_means_no_plugins_but_earlier_creates_still_get_their_deletes(node: Node) -> None:
    node.configure("good")
    daemon = node.launch()
    assert daemon.call("StartContainer", start("one")).code == Code.OK
    node.conf_json.unlink()
    for request in (start("two"), stop("one"), stop("two")):
        assert daemon.call(type(request).__name__.removesuffix("Request"), request).code == Code.OK
    assert node.runs("good") == [("create", "one"), ("delete", "one")]
    node.still_serves(daemon)


def test_a_broken_file_fails_creates_with_file_and_line_unless_failures_are_ignored(node: Node) -> None:
    node.write_conf(BROKEN)
    for settings, code in (({}, Code.UNKNOWN), ({"onFailure": "ignore"}, Code.OK)):
        daemon = node.launch(settings)
        reply = daemon.call("StartContainer", start("ctr"))
        text = f"{node.conf_json}:4: a trailing comma (no plugin can run)"
        assert (reply.code, reply.message) == (code, text if code else "")
        assert daemon.call("StopContainer", stop("ctr")).code == Code.OK
        daemon.logged("ERROR", f" {node.conf_json}:4: a trailing comma")


def test_what_is_wrong_with_a_file_costs_nothing_while_there_is_a_good_version(node: Node) -> None:
    node.configure("good")
    daemon = node.launch()
    assert daemon.call("StartContainer", start("one")).code == Code.OK
    os.mkfifo(node.path / "fifo")
    for number, text in enumerate((BROKEN, "[" * (1 << 20), '{"plugins": []}' + " " * (1 << 20), None)):
        if text is None:
            (node.path / "fifo").rename(node.conf_json)
        else:
            node.write_conf(text)
        assert daemon.call("StartContainer", start(f"ctr-{number}")).code == Code.OK
    for reason in (
        ":4: a trailing comma",
        ":1: nested too deeply",
        f": {(1 << 20) + 15} bytes",
        ": not a regular file",
    ):
        daemon.logged(f" ERROR {node.conf_json}{reason}", "; the last good version stays in force")
    assert len(node.runs("good")) == 5
    node.still_serves(daemon)
    daemon.logged("INFO", f"{node.conf_json} is in order again")


def test_each_version_counts_for_the_next_event_and_a_delete_runs_under_that_of_its_create(node: Node) -> None:
    """Same size each time, and quicker than many a file system's clock ticks."""
    daemon = node.launch()
    for number in range(20):
        text = json.dumps({"version": "0.1", "plugins": [{"type": "good", "conf": {"number": f"{number:02}"}}]})
        node.conf_json.write_text(text) if number % 2 else node.write_conf(text)
        assert daemon.call("StartContainer", start(f"ctr-{number}")).code == Code.OK
    assert daemon.call("StopContainer", stop("ctr-3")).code == Code.OK
    *creates, delete = node.requests("good")
    assert [request["conf"] for request in creates] == [{"number": f"{number:02}"} for number in range(20)]
    assert (delete["state"], delete["conf"]) == ("delete", {"number": "03"})


def test_a_file_of_nearly_a_mebibyte_is_taken_whole_and_many_plugins_run_in_their_order(node: Node) -> None:
    names = [f"p{number}" for number in range(20)]
    for name in names:
        node.plugin(name, f"echo {name} >>'{node.path}/order'; echo '{{}}'")
    node.plugin("whole", f"cat >'{node.path}/request'; echo '{{}}'")
    big = {"big": "x" * 1_000_000}
    plugins = [*({"type": name} for name in names), {"type": "whole", "conf": big}]
    node.write_conf(json.dumps({"version": "0.1", "plugins": plugins}))
    daemon = node.launch()
    assert daemon.call("StartContainer", start("ctr")).code == Code.OK
    assert json.loads((node.path / "request").read_bytes())["conf"] == big
    assert (node.path / "order").read_text().split() == names
