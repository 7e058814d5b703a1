"""A day of pods whose authors write as much as a message holds, between ordinary pods: nobody else may notice.

Hooks that must run, of each condition, and a plugin that must not fail and edits containers: under each version of NRI.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict

from tests.e2e.pod import HarnessError as Finding
from tests.peers.build import PeerMissing
from tests.peers.harness import COMMAND, NAME, GoRuntime, Reply
from tests.rig.large import FIELDS, creation

VERSIONS = ("v0.8.0", "v0.10.0", "v0.12.0", "v0.12.5")
LARGEST = 3_900_000
"""Bytes of a field, so that the message has less than ttRPC's 4 MiB."""
LIMIT = 2_000_000
"""Microseconds that a runtime waits for a plugin by default."""
HOOKS: dict[str, dict[str, object]] = {
    "always": {"always": True},
    "binds": {"hasBindMounts": True},
    "command": {"commands": ["c.{1,200}m", "(a|b)*a(a|b){100}c", "sh$"]},
    "annotation": {"annotations": {".*": "(a|b)*a(a|b){300}c|x$"}},
}
"""The conditions of the hooks. All hold for an ordinary container."""
PLUGIN = """#!/bin/sh
cat >/dev/null
echo '{"spec":{"process":{"env":["ADDED=1"]},"annotations":{"added":"1"}}}'
"""


class Day:
    """A runtime with an adapter; everything lies in one directory."""

    def __init__(self, directory: Path, version: str) -> None:
        self._runtime = GoRuntime(directory, version)
        for name in ("bin", "hooks.d"):
            (directory / name).mkdir()
        plugin = directory / "bin/editor"
        plugin.write_text(PLUGIN)
        plugin.chmod(0o755)
        (directory / "conf.json").write_text(json.dumps({"version": "0.1", "plugins": [{"type": "editor"}]}))
        for name, when in HOOKS.items():
            hook = {"path": "/bin/true", "args": [name]}
            text = {"version": "1.0.0", "hook": hook, "when": when, "stages": ["createRuntime"]}
            (directory / f"hooks.d/{name}.json").write_text(json.dumps(text))
        own = {"editor": {"events": ["CreateContainer"], "onFailure": "fail"}}
        legacy = {"config": f"{directory}/conf.json", "path": [f"{directory}/bin"], "plugins": own}
        hooks = {"enabled": True, "directories": [f"{directory}/hooks.d"]}
        self.config = "".join(
            f"{key}: {json.dumps(value)}\n" for key, value in {"legacy": legacy, "hooks": hooks}.items()
        )

    def __enter__(self) -> Day:
        self._runtime.__enter__()
        self._runtime.open(COMMAND, self.config, runtime=("containerd", "2.4.2"))
        if error := self._runtime.play("start").error:
            raise Finding(error)
        return self

    def __exit__(self, *error: Any) -> None:
        self._runtime.__exit__(*error)

    def create(self, number: int, field: str, size: int) -> tuple[float, str]:
        """Creates a container with a large field, or an ordinary one; returns what becomes of it, and the seconds.

        Raises Finding if the adapter has not answered in time, or has left something out.
        """
        request = creation(field, size)
        container, pod = request.container, request.pod
        pod.id, container.id = f"p{number}", f"c{number}"
        container.mounts.add(destination="/data", source="/srv", type="bind", options=["rbind"])
        reply = self._runtime.event("CreateContainer", plain(pod), plain(container))
        what = f"{number}: {field or 'ordinary'}, {size} bytes"
        if reply.names != [NAME]:
            raise Finding(f"{what}: the adapter is dropped: {reply.error}")
        if reply.us > LIMIT:
            raise Finding(f"{what}: {reply.us / 1e6:.2f} s")
        if reply.error and not field:
            raise Finding(f"{what}: {reply.error}")
        if not reply.error:
            check_complete(what, reply)
        return reply.us / 1e6, "refused" if reply.error else "complete"


def plain(message: Any) -> dict[str, Any]:
    return MessageToDict(message, preserving_proto_field_name=True)


def check_complete(what: str, reply: Reply) -> None:
    """Raises Finding unless a container has all hooks, and the plugin's edit."""
    adjust = reply.adjust or {}
    hooks = {hook["args"][0] for hook in adjust.get("hooks", {}).get("create_runtime", ())}
    variables = [variable["key"] for variable in adjust.get("env", ())]
    if hooks != set(HOOKS) or "ADDED" not in variables or adjust.get("annotations", {}).get("added") != "1":
        raise Finding(f"{what}: incomplete: hooks {sorted(hooks)}, variables {variables}")


def a_day(version: str, containers: int, rng: random.Random) -> str:
    """Plays large containers between ordinary ones; returns what has become of them."""
    outcomes: Counter[str] = Counter()
    longest = 0.0, ""
    with tempfile.TemporaryDirectory() as name, Day(Path(name), version) as day:
        for number in range(containers):
            field = rng.choice(list(FIELDS))
            size = min(int(10 ** rng.uniform(4, 7)), LARGEST)
            for each in (field, ""):
                seconds, outcome = day.create(2 * number + (not each), each, size)
                outcomes[f"{'large' if each else 'ordinary'} {outcome}"] += 1
                longest = max(longest, (seconds, f"{each or 'ordinary'}, {size} bytes"))
    told = ", ".join(f"{count} {what}" for what, count in sorted(outcomes.items()))
    return f"{told}; longest {longest[0]:.2f} s: {longest[1]}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.large", description=__doc__)
    parser.add_argument("--nri", nargs="+", choices=VERSIONS, default=VERSIONS)
    parser.add_argument("--containers", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}: {arguments.containers} large containers between as many ordinary ones", flush=True)
    failed = 0
    for version in arguments.nri:
        try:
            rng = random.Random(f"{arguments.seed} {version}")  # noqa: S311 - no secret
            result = a_day(version, arguments.containers, rng)
        except PeerMissing as missing:
            print(f"no large containers here: {missing}")
            return int(os.environ.get("REQUIRE_PEERS") == "1")
        except Finding as finding:
            failed, result = failed + 1, f"FAILED: {finding}"
        print(f"{version:7}  {result}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
