"""End to end on Kubernetes: the chart's adapter serves a node whose pods start while hooks, adapter and runtime change.

`python -m tests.e2e.kubernetes IMAGE`, the image's archive. The node is made by kubernetes.sh, in $K8S.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from inotify_simple import INotify, flags  # type: ignore[import-untyped]

HERE = Path(__file__).resolve().parent
CHART = HERE.parents[1] / "deploy/helm/nri-v010-adapter"
KUSTOMIZE = HERE.parents[1] / "deploy/kustomize"
K8S = Path(os.environ["K8S"])
EVIDENCE = K8S / "evidence"
"""What the node's programs write. The node sees it at the same path."""
RELEASE = "nri-v010-adapter"
IMAGE = f"localhost/{RELEASE}"
PODS = 30
LIMIT = 300.0
HANG, HUNG = EVIDENCE / "hang", EVIDENCE / "hung"
"""While the first exists, deletes of the plugin `slow` do not end; the second tells that there is one."""
SHELL = f"""#!/bin/sh
request=$(cat)
field() {{ echo "$request" | grep -o "\\"$1\\":\\"[^\\"]*\\"" | head -1 | cut -d '"' -f 4; }}
[ "$(field state)" = delete -a $0 = /opt/nri/bin/slow -a -e {HANG} ] && touch {HUNG} && exec sleep 1000000
echo "$(field io.kubernetes.pod.name) $(field state) $(field id)" >> {EVIDENCE}/${{0##*/}}
echo '{{"version": "0.1"}}'
"""
PROGRAMS = {
    "shell": SHELL,
    "snake": f"""#!/usr/bin/python3 -I
import json, sys
request = json.load(sys.stdin)
with open("{EVIDENCE}/snake", "a") as file:
    print(request["labels"]["io.kubernetes.pod.name"], request["state"], request["id"], file=file)
print(json.dumps({{"plugin": "snake", "version": "0.1"}}))
""",
    "slow": SHELL,
    "mark": f"""#!/bin/sh
echo "$1 $(grep -o '"id":"[0-9a-f]*"' | head -1 | cut -d '"' -f 4)" >> {EVIDENCE}/mark
""",
}
"""Programs of the node: legacy plugins, and a hook. Each writes a line for each run."""
PLUGINS = ("shell", "snake", "slow")
UNTIL_TERM = "trap 'exit 0' TERM; while :; do sleep 1000000 & wait $!; done"


class Wrong(Exception):
    """The run itself went wrong."""


def run(*line: str | Path, given: str | None = None) -> str:
    """Runs a command; returns its output."""
    done = subprocess.run(line, capture_output=True, text=True, input=given, timeout=LIMIT, check=False)
    if done.returncode:
        raise Wrong(f"{' '.join(map(str, line))}: {done.stderr.strip()[-1000:]}")
    return done.stdout


def node(*line: str | Path, given: str | None = None) -> str:
    """Runs kubernetes.sh."""
    return run(HERE / "kubernetes.sh", *line, given=given)


def kubectl(*line: str, given: str | None = None) -> str:
    """Runs kubectl on the node."""
    return node("k", *line, given=given)


def helm(*line: str | Path) -> str:
    """Runs helm on the node."""
    return node("ns", "helm", *line)


def until(condition: Callable[[], bool], what: str, seconds: float = 120) -> None:
    """Waits for a condition: looks when a program of the node has written, and five times a second in any case."""
    end = time.monotonic() + seconds
    with INotify() as written:
        written.add_watch(EVIDENCE, flags.MODIFY | flags.CREATE)
        while not condition():
            if time.monotonic() > end:
                raise Wrong(f"waited {seconds:g} s in vain for {what}")
            written.read(timeout=200)


def say(text: str) -> None:
    """Tells how far the run is."""
    print(f"{time.monotonic() - STARTED:6.1f} s  {text}", flush=True)


STARTED = time.monotonic()


# ---- the node


def prepare(image: str) -> None:
    """Starts a node with the programs and the image."""
    shutil.rmtree(EVIDENCE, ignore_errors=True)
    EVIDENCE.mkdir()
    node("stop")
    node("build")
    node("start")
    node("ns", "mkdir", "-p", "/opt/nri/bin")
    for name, text in PROGRAMS.items():
        (EVIDENCE / name).touch()
        node("ns", "sh", "-c", f"umask 022; cat > /opt/nri/bin/{name}; chmod 755 /opt/nri/bin/{name}", given=text)
    node("ctr", "images", "import", "--base-name", IMAGE, image)


def footprint() -> set[str]:
    """Returns what an adapter could leave on the node: files, mounts, processes."""
    places = "find /etc/nri /opt/nri /etc/containers /usr/share/containers /run/nri* -not -type s 2>/dev/null"
    processes = "ps -eo args | grep -E 'v010-adapter|/opt/nri/bin' | grep -v grep"
    return set(node("ns", "sh", "-c", f"{places}; grep v010 /proc/mounts; {processes}; true").splitlines())


# ---- what Kubernetes is given


def values(hook: str, revision: int, profile: str = "legacy") -> list[str]:
    """Returns helm's arguments for the values of this run."""
    marks = {"version": "1.0.0", "hook": {"path": "/opt/nri/bin/mark", "args": ["mark", hook]}, "stages": ["prestart"]}
    conf = {"version": "0.1", "plugins": [{"type": name} for name in PLUGINS]}
    given = {
        "profile": profile,
        "image": {"pullPolicy": "Never"},
        "nri": {"runtime": {"patchConfig": profile == "hooks"}},  # NRI is on: nothing to do, and no systemctl here
        "hooks": {"files": {f"{hook}.json": {**marks, "when": {"always": True}}}},
        "legacy": {"conf": conf if profile == "legacy" else {}},
        "podAnnotations": {"example.com/revision": str(revision)},
    }
    file = EVIDENCE / "values.json"
    file.write_text(json.dumps(given))
    return [RELEASE, str(CHART), "--namespace", "kube-system", "--wait", "--timeout", "200s", "-f", str(file)]


def container(name: str, script: str) -> dict[str, Any]:
    """Returns a container that runs a script."""
    command = ["/bin/sh", "-c", script]
    return {"name": name, "image": "localhost/bb:1", "imagePullPolicy": "Never", "command": command}


def deployment(name: str, replicas: int) -> str:
    """Returns a Deployment of pods with an init container and two more."""
    spec = {
        "terminationGracePeriodSeconds": 60,
        "initContainers": [container("init", "true")],
        "containers": [container("one", UNTIL_TERM), container("two", UNTIL_TERM)],
    }
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    wanted = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": wanted})


# ---- what came of it


def calls(plugin: str) -> list[list[str]]:
    """Returns the runs of a plugin for the Deployments' pods: the pod's name, the state, the id."""
    lines = (line.split() for line in (EVIDENCE / plugin).read_text().splitlines())
    return [line for line in lines if line[0].startswith(("load-", "late-"))]


def count(state: str) -> int:
    """Returns how often the last plugin of the chain has run in this state."""
    return sum(call[1] == state for call in calls(PLUGINS[-1]))


def is_ready(name: str, replicas: int) -> bool:
    """Whether all pods of a Deployment are ready."""
    return kubectl("get", "deployment", name, "-o", "jsonpath={.status.readyReplicas}") == str(replicas)


def adapters() -> list[str]:
    """Returns the names of the adapter's pods."""
    selector = f"app.kubernetes.io/instance={RELEASE}"
    return kubectl("-n", "kube-system", "get", "pods", "-l", selector, "-o", "name").split()


def play() -> None:
    """Pods start and end while everything around them changes."""
    helm("install", *values("first", 1))
    say("the chart is installed")
    kubectl("apply", "-f", "-", given=deployment("load", PODS))
    until(lambda: count("create") > PODS // 2, "the first creates")
    helm("upgrade", *values("second", 2))
    say(f"upgraded: another hook, a new adapter; {count('create')} creates so far")
    until(lambda: is_ready("load", PODS), "the pods")
    say("all pods are ready")
    until(lambda: _hooks() == ["second.json"], "the ConfigMap")
    kubectl("apply", "-f", "-", given=deployment("late", 1))
    until(lambda: is_ready("late", 1), "the late pod")
    HANG.touch()
    kubectl("delete", "deployment", "late", "--wait=false")
    until(HUNG.exists, "a delete that does not end")
    kubectl("-n", "kube-system", "delete", *adapters(), "--grace-period=0", "--force")
    HANG.unlink()
    kubectl("-n", "kube-system", "rollout", "status", f"daemonset/{RELEASE}")
    say("the adapter's pod was killed, and a delete with it")
    for signal in ("TERM", "KILL"):
        node("restart", "containerd", signal)
        until(_is_well, "the adapter to join again")
        say(f"containerd was restarted by {signal}")
    helm("rollback", RELEASE, "1", "--namespace", "kube-system", "--wait", "--timeout", f"{LIMIT:g}s")
    say("rolled back")


def unprivileged() -> Iterator[str]:
    """Replaces the adapter by the other profile's; yields what its hooks lack."""
    uninstall()
    helm("install", *values("unprivileged", 3, profile="hooks"))
    kubectl("uncordon", "node1")
    kubectl("apply", "-f", "-", given=deployment("hooked", 1))
    until(lambda: is_ready("hooked", 1), "the pod of the other profile")
    ran = [line.split()[0] for line in (EVIDENCE / "mark").read_text().splitlines()[-3:]]
    if ran != ["unprivileged"] * 3:
        yield f"in the profile `hooks` a pod had the hooks {ran}"
    say("the profile `hooks` injects hooks")


def stale() -> Iterator[str]:
    """Yields the manifests for kustomize that are not what the chart renders."""
    for profile in ("hooks", "legacy"):
        more = ("--namespace", "kube-system", "--kube-version", "1.34", "--set", f"profile={profile}")
        if helm("template", RELEASE, CHART, *more) != (KUSTOMIZE / profile / "manifests.yaml").read_text():
            yield f"deploy/kustomize/{profile} is not what the chart renders: make kustomize"


def uninstall() -> None:
    """Removes the chart."""
    helm("uninstall", RELEASE, "--namespace", "kube-system", "--wait")
    until(lambda: not adapters(), "the adapter's pods to go")


def _hooks() -> list[str]:
    return _in_adapter("sh", "-c", "cd /etc/nri-hooks.d && ls").split()


def _is_well() -> bool:
    try:
        return bool(_in_adapter("v010-adapter", "status"))
    except Wrong:  # the exit code tells
        return False


def _in_adapter(*line: str) -> str:
    return kubectl("-n", "kube-system", "exec", f"daemonset/{RELEASE}", "--", *line)


def restarts() -> list[str]:
    """Returns the containers that Kubernetes had to start again."""
    pods = json.loads(kubectl("get", "pods", "-o", "json"))["items"]
    statuses = [(pod["metadata"]["name"], status) for pod in pods for status in pod["status"]["containerStatuses"]]
    return [f"{name}: {status['name']} was restarted" for name, status in statuses if status["restartCount"]]


def judge() -> Iterator[str]:
    """Yields what is wrong with the plugins' runs and the hooks' runs."""
    for plugin in PLUGINS:
        runs = Counter((id_, state) for _, state, id_ in calls(plugin))
        ids = {id_ for id_, _ in runs}
        if len(ids) != (PODS + 1) * 4:  # the pod, the init container, two more
            yield f"{plugin} ran for {len(ids)} pods and containers"
        for id_ in ids:
            if (runs[id_, "create"], runs[id_, "delete"]) != (1, 1):
                yield f"{plugin}, {id_}: {runs[id_, 'create']} creates, {runs[id_, 'delete']} deletes"
    marks = {id_: mark for mark, id_ in map(str.split, (EVIDENCE / "mark").read_text().splitlines())}
    late = {id_ for pod, _, id_ in calls("shell") if pod.startswith("late-")}
    if Counter(marks.get(id_, "") for id_ in late) != {"second": 3, "": 1}:  # a pod itself gets no hooks
        yield f"the late pod had the hooks {[marks.get(id_) for id_ in late]}"


def main(image: str) -> int:
    """Plays, and prints what is wrong; returns the exit code."""
    prepare(image)
    try:
        before = footprint()
        play()
        found = [*stale(), *restarts()]
        kubectl("drain", "node1", "--ignore-daemonsets", "--timeout", f"{LIMIT:g}s")
        say("the node is drained")
        with suppress(Wrong):
            until(lambda: count("delete") >= count("create"), "the deletes")
        found += judge()
        found += unprivileged()
        uninstall()
        journal = f"/run/{RELEASE}"
        found += [f"left: {thing}" for thing in footprint() - before if not thing.startswith(journal)]
        say(f"{count('create')} creates, {count('delete')} deletes")
    finally:
        if "KEEP" not in os.environ:
            node("stop")
    print(*(found or ["all is well"]), sep="\n")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
