"""The node of the runs: its commands, the programs that are installed on it, and what these have seen."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.e2e.pod import HarnessError
from tests.e2e.pod import until as until_written

HERE = Path(__file__).resolve().parent
CHART = HERE.parents[2] / "deploy/helm/nri-v010-adapter"
K8S = Path(os.environ["K8S"])
EVIDENCE = K8S / "evidence"
"""What the node's programs write. The node sees it at the same path."""
RELEASE = "nri-v010-adapter"
IMAGE = f"localhost/{RELEASE}"
LIMIT = 300.0  # seconds that a command may take, and those that the node may take for anything
HANG, HUNG = EVIDENCE / "hang", EVIDENCE / "hung"
"""While the first exists, deletes of the plugin `slow` do not end; the second tells that there is one."""
SHELL = f"""#!/bin/sh
PATH=/usr/bin:/bin  # upstream's adapter gives plugins none of these
request=$(cat)
field() {{ echo "$request" | grep -o "\\"$1\\":\\"[^\\"]*\\"" | head -1 | cut -d '"' -f 4; }}
[ "$(field state)" = delete -a $0 = /opt/nri/bin/slow -a -e {HANG} ] && touch {HUNG} && exec sleep 1000000
pod=$(field io.kubernetes.pod.name)
echo "${{pod:--}} $(field state) $(field id)" >> {EVIDENCE}/${{0##*/}}
echo '{{"version": "0.1"}}'
"""
PROGRAMS = {
    "shell": SHELL,
    "slow": SHELL,
    "mark": f"""#!/bin/sh
echo "$1 $(grep -o '"id":"[0-9a-f]*"' | head -1 | cut -d '"' -f 4)" >> {EVIDENCE}/mark
""",
}
"""Programs of the node: legacy plugins, and a hook. Each writes a line for each run.

A plugin writes the pod's name, the state and the id. containerd's own deletes of pods have no labels, so no name.
"""
PLUGINS = ("shell", "slow")
CONF = {"version": "0.1", "plugins": [{"type": name} for name in PLUGINS]}
UNTIL_TERM = "trap 'exit 0' TERM; while :; do sleep 1000000 & wait $!; done"


def node(*line: str | Path, given: str | None = None) -> str:
    command = [HERE / "node.sh", *line]
    done = subprocess.run(command, capture_output=True, text=True, input=given, timeout=LIMIT, check=False)
    if done.returncode:
        raise HarnessError(f"{' '.join(map(str, line))}: {done.stderr.strip()[-1000:]}")
    return done.stdout


def shell(script: str, given: str | None = None) -> str:
    return node("ns", "sh", "-ec", f"umask 022; {script}", given=given)


def kubectl(*line: str, given: str | None = None) -> str:
    return node("k", *line, given=given)


def helm(*line: str | Path) -> str:
    return node("ns", "helm", *line)


def does_well(command: Callable[..., str], *line: str) -> bool:
    try:
        command(*line)
    except HarnessError:
        return False
    return True


until = partial(until_written, seconds=LIMIT, folder=EVIDENCE)
"""Waits for a condition; looks when a program of the node has written."""


def say(text: str) -> None:
    print(f"{time.monotonic() - STARTED:6.1f} s  {text}", flush=True)


STARTED = time.monotonic()


# ---- the node


def prepare(image: str) -> None:
    shutil.rmtree(EVIDENCE, ignore_errors=True)
    EVIDENCE.mkdir()
    node("stop")
    node("build")
    node("start")
    for name, text in PROGRAMS.items():
        (EVIDENCE / name).touch()
        shell(f"mkdir -p /opt/nri/bin; cd /opt/nri/bin; cat > {name}; chmod 755 {name}", given=text)
    node("ctr", "images", "import", "--base-name", IMAGE, image)


def footprint() -> set[str]:
    """Returns what an adapter could leave on the node: files, mounts, processes."""
    places = "find /etc/nri /opt/nri /etc/containers /run/nri* -not -type s -not -type d 2>/dev/null"
    processes = "ps -eo args | grep -E 'v010-adapter|/opt/nri/' | grep -v grep"
    return set(shell(f"{places} || true; grep v010 /proc/mounts || true; {processes} || true").splitlines())


# ---- the chart


def hook_file(word: str) -> dict[str, Any]:
    hook = {"path": "/opt/nri/bin/mark", "args": ["mark", word]}
    return {"version": "1.0.0", "hook": hook, "stages": ["prestart"], "when": {"always": True}}


def chart(verb: str, **values: Any) -> None:
    """Installs or upgrades the chart, by default with the profile `legacy`; waits until its pods are ready."""
    profile = values.get("profile", "legacy")
    given = {
        "profile": profile,
        "image": {"pullPolicy": "Never"},
        "legacy": {"conf": CONF if profile == "legacy" else {}},
    }
    file = EVIDENCE / "values.json"
    file.write_text(json.dumps(given | values))
    helm(verb, RELEASE, CHART, "--namespace", "kube-system", "--wait", "--timeout", f"{LIMIT:g}s", "-f", file)


def uninstall() -> None:
    helm("uninstall", RELEASE, "--namespace", "kube-system", "--wait")
    until(lambda: not adapters(), "the adapter's pods to go")


def adapters() -> list[str]:
    selector = f"app.kubernetes.io/instance={RELEASE}"
    return kubectl("-n", "kube-system", "get", "pods", "-l", selector, "-o", "name").split()


def in_adapter(*line: str) -> str:
    return kubectl("-n", "kube-system", "exec", f"daemonset/{RELEASE}", "--", *line)


# ---- pods


def apply(name: str, replicas: int) -> None:
    def container(name: str, script: str) -> dict[str, Any]:
        command = ["/bin/sh", "-c", script]
        return {"name": name, "image": "localhost/bb:1", "imagePullPolicy": "Never", "command": command}

    spec = {
        "terminationGracePeriodSeconds": 60,
        "initContainers": [container("init", "true")],
        "containers": [container("one", UNTIL_TERM), container("two", UNTIL_TERM)],
    }
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    wanted = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": wanted}
    kubectl("apply", "-f", "-", given=json.dumps(deployment))


def ready(name: str) -> None:
    kubectl("rollout", "status", f"deployment/{name}", f"--timeout={LIMIT:g}s")


def delete(*names: str) -> None:
    kubectl("delete", "deployment", *names)
    for name in names:
        kubectl("wait", "--for=delete", "pod", "-l", f"app={name}", f"--timeout={LIMIT:g}s")


def containers(*names: str) -> set[str]:
    found = set()
    for pod in json.loads(kubectl("get", "pods", "-l", f"app in ({','.join(names)})", "-o", "json"))["items"]:
        for kind in ("initContainerStatuses", "containerStatuses"):
            found |= {status.get("containerID", "").rpartition("/")[2] for status in pod["status"].get(kind, ())}
    return found - {""}


def failures() -> Iterator[str]:
    """Yields the containers that Kubernetes had to start again, and what it could not start at all."""
    for event in json.loads(kubectl("get", "events", "--field-selector", "type=Warning", "-o", "json"))["items"]:
        if event["reason"] in ("Failed", "FailedCreatePodSandBox", "BackOff"):
            yield f"{event['involvedObject']['name']}: {event['message']}"
    for pod in json.loads(kubectl("get", "pods", "-o", "json"))["items"]:
        for status in pod["status"]["containerStatuses"]:
            if status["restartCount"]:
                yield f"{pod['metadata']['name']}: {status['name']} was restarted"


# ---- what came of it


def calls(plugin: str, *names: str) -> list[list[str]]:
    """Returns the runs of a plugin for the pods of Deployments: the pod's name, the state, the id."""
    prefixes = tuple(f"{name}-" for name in names)
    lines = [line.split() for line in (EVIDENCE / plugin).read_text().splitlines()]
    ids = {id_ for pod, _, id_ in lines if pod.startswith(prefixes)}
    return [line for line in lines if line[2] in ids]


def count(state: str, *names: str) -> int:
    return sum(call[1] == state for call in calls(PLUGINS[-1], *names))


def marks(word: str) -> Counter[str]:
    lines = (line.split() for line in (EVIDENCE / "mark").read_text().splitlines())
    return Counter(id_ for written, id_ in lines if written == word)


def not_once(ids: Iterable[str], *names: str) -> Iterator[str]:
    """Yields the plugins that have not had one create and one delete for each of these ids of Deployments' pods."""
    for plugin in PLUGINS:
        runs = Counter((id_, state) for _, state, id_ in calls(plugin, *names))
        for id_ in ids:
            if (runs[id_, "create"], runs[id_, "delete"]) != (1, 1):
                yield f"{plugin}, {id_}: {runs[id_, 'create']} creates, {runs[id_, 'delete']} deletes"
