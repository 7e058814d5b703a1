"""The node of the runs: its commands, the programs that are installed on it, and what these have seen."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from tests.e2e.pod import HarnessError
from tests.e2e.pod import until as until_written

HERE = Path(__file__).resolve().parent
CHART = HERE.parents[2] / "deploy/helm/nri-v010-adapter"
K8S = Path(os.environ["K8S"])
EVIDENCE = K8S / "evidence"
"""What the node's programs write. The node sees it at the same path."""
RELEASE = "nri-v010-adapter"
IMAGE = f"localhost/{RELEASE}"
LIMIT = 900.0  # seconds that a command may take, and those that the node may take for anything
HANG, HUNG = EVIDENCE / "hang", EVIDENCE / "hung"
"""While the first exists, deletes of the plugin `slow` do not end; the second tells that there is one."""
SHELL = f"""#!/bin/sh
PATH=/usr/bin:/bin  # upstream's adapter gives plugins none of these
request=$(cat)
field() {{ echo "$request" | grep -o "\\"$1\\":\\"[^\\"]*\\"" | head -1 | cut -d '"' -f 4; }}
[ "$(field state)" = delete -a $0 = /opt/nri/bin/slow -a -e {HANG} ] && touch {HUNG} && exec sleep 1000000
pod=$(field io.kubernetes.pod.name)
[ "$pod $(field state) $0" = "tardy create /opt/nri/bin/slow" ] && sleep 4
echo "$(date +%s.%N) ${{pod:--}} $(field state) $(field id)" >> {EVIDENCE}/${{0##*/}}
echo '{{"version": "0.1"}}'
"""
PROGRAMS = {
    "shell": SHELL,
    "slow": SHELL,
    "mark": f"""#!/bin/sh
echo "$(date +%s.%N) - $1 $(grep -o '"id":"[0-9a-f]*"' | head -1 | cut -d '"' -f 4)" >> {EVIDENCE}/mark
""",
}
"""Programs of the node: legacy plugins, and a hook. Each writes a Line for each run, as node.sh's `runc` does."""
PLUGINS = ("shell", "slow")
CONF = {"version": "0.1", "plugins": [{"type": name} for name in PLUGINS]}
ABANDONED = "abandoned by the runtime"
"""A sandbox that has had neither a create nor a container: its runtime, or the kubelet, has ended while it started."""
CUT_OFF = "delete without create"
"""Its adapter was killed when it had noted the create, and before the plugin did its work: it counts as run."""
LATE = 5.0  # seconds after its end: a delete that comes then was not run at the end
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


def does_well(command: Callable[..., object], *line: str) -> bool:
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
    for name in ("runc", "sandboxes"):
        (EVIDENCE / name).touch()
    node("start")
    for name, text in PROGRAMS.items():
        (EVIDENCE / name).touch()
        shell(f"mkdir -p /opt/nri/bin; cd /opt/nri/bin; cat > {name}; chmod 755 {name}", given=text)
    node("ctr", "images", "import", "--digests", "--base-name", IMAGE, image)


def digest() -> str:
    """Returns the digest of the adapter's image."""
    return node("ctr", "images", "ls", "-q", f"name~={IMAGE}@").strip().rpartition("@")[2]


def footprint() -> set[str]:
    """Returns what an adapter could leave on the node: files, mounts, processes."""
    places = "find /etc/nri /opt/nri /etc/containers /run/nri* -not -type s -not -type d 2>/dev/null"
    processes = "ps -eo args | grep -E 'v010-adapter|/opt/nri/' | grep -v grep"
    return set(shell(f"{places} || true; grep v010 /proc/mounts || true; {processes} || true").splitlines())


def limit_pods(number: int) -> None:
    """Starts the kubelet with another limit of its pods."""
    file = K8S / "run/kubelet.yaml"
    kept = [line for line in file.read_text().splitlines() if not line.startswith("maxPods:")]
    file.write_text("\n".join([*kept, f"maxPods: {number}", ""]))
    node("restart", "kubelet")
    wait(f"jsonpath={{.status.allocatable.pods}}={number}", "node/node1")


# ---- the chart

USUAL: dict[str, Any] = {}
"""Values of the chart in each installation and upgrade, until they are removed."""


def hook_file(word: str) -> dict[str, Any]:
    hook = {"path": "/opt/nri/bin/mark", "args": ["mark", word]}
    return {"version": "1.0.0", "hook": hook, "stages": ["prestart"], "when": {"always": True}}


def chart(
    verb: str, seconds: float = LIMIT, *, release: str = RELEASE, namespace: str = "kube-system", **values: Any
) -> None:
    """Installs or upgrades the chart, by default with the profile `legacy`; waits until its pods are ready."""
    profile = values.get("profile", "legacy")
    given = {
        "profile": profile,
        "image": {"pullPolicy": "Never", "tag": values.pop("tag", "")},
        "legacy": {"conf": CONF if profile == "legacy" else {}},
    }
    file = EVIDENCE / "values.json"
    file.write_text(json.dumps(given | USUAL | values))
    helm(verb, release, CHART, "--namespace", namespace, "--wait", "--timeout", f"{seconds:g}s", "-f", file)


def uninstall(release: str = RELEASE, namespace: str = "kube-system") -> None:
    helm("uninstall", release, "--namespace", namespace, "--wait")
    until(lambda: not adapters(release, namespace), "the adapter's pods to go")


def check(release: str = RELEASE, namespace: str = "kube-system") -> str:
    """Runs `helm test`. Returns what is wrong: the end of the pod's log, or of helm's error; empty if all is well."""
    try:
        helm("test", release, "--namespace", namespace, "--timeout", "150s")
    except HarnessError as error:
        with suppress(HarnessError):
            return kubectl("-n", namespace, "logs", f"{release}-check") or str(error)
        return str(error)
    return ""


def adapters(release: str = RELEASE, namespace: str = "kube-system") -> list[str]:
    return _of_release("pods", release, namespace)


def sets() -> list[str]:
    """Returns the DaemonSets of the release: with `redundant`, two."""
    return _of_release("daemonsets", RELEASE, "kube-system")


def serving() -> str:
    """Returns the pod that runs, and not one that waits for room on the node."""
    running = "--field-selector=status.phase=Running"
    return _of_release("pods", RELEASE, "kube-system", running)[0]


def waiting() -> str:
    """Returns why pods of the release have no node."""
    pending = "--field-selector=status.phase=Pending"
    message = "jsonpath={.items[*].status.conditions[?(@.type=='PodScheduled')].message}"
    selector = f"app.kubernetes.io/instance={RELEASE}"
    return kubectl("-n", "kube-system", "get", "pods", "-l", selector, pending, "-o", message)


def kill_container(pod: str) -> None:
    """Kills all processes of an adapter's container, as the kernel does where memory is short."""
    told = kubectl("-n", "kube-system", "get", pod, "-o", "jsonpath={.status.containerStatuses[0].containerID}")
    id_ = told.rpartition("/")[2]
    processes = f"find /sys/fs/cgroup -path '*{id_}*/cgroup.procs' -exec cat {{}} + | sort -u"
    shell(f"{processes} | xargs kill -9 || true")  # some end with the others


def stop_growth(pod: str) -> None:
    """Limits the memory of an adapter's container to what it has, but for the files that the kernel has cached."""
    told = kubectl("-n", "kube-system", "get", pod, "-o", "jsonpath={.status.containerStatuses[0].containerID}")
    place = f"find /sys/fs/cgroup/memory -type d -name '*{told.rpartition('/')[2]}*'"
    shell(f"cd $({place}); echo 0 >memory.force_empty; cat memory.usage_in_bytes >memory.limit_in_bytes")


def memory(pod: str) -> tuple[int, int]:
    """Returns the most memory that the container of an adapter has used, and what is resident now."""
    told = kubectl("-n", "kube-system", "get", pod, "-o", "jsonpath={.status.containerStatuses[0].containerID}")
    place = f"find /sys/fs/cgroup/memory -type d -name '*{told.rpartition('/')[2]}*'"
    of_kernel = shell(f"cd $({place}); cat memory.max_usage_in_bytes; grep '^total_rss ' memory.stat").split()
    return int(of_kernel[0]), int(of_kernel[-1])


def maps() -> list[str]:
    return _of_release("configmaps", RELEASE, "kube-system")


def _of_release(kind: str, release: str, namespace: str, *more: str) -> list[str]:
    selector = f"app.kubernetes.io/instance={release}"
    return kubectl("-n", namespace, "get", kind, "-l", selector, *more, "-o", "name").split()


def edit(configmap: str, **files: object) -> None:
    """Changes files of a ConfigMap."""
    data = {f"{name}.json": json.dumps(content) for name, content in files.items()}
    kubectl("-n", "kube-system", "patch", configmap, "--type=merge", "-p", json.dumps({"data": data}))


# ---- pods


def container(name: str, script: str = UNTIL_TERM, **more: Any) -> dict[str, Any]:
    command = ["/bin/sh", "-c", script]
    return {"name": name, "image": "localhost/bb:1", "imagePullPolicy": "Never", "command": command} | more


USUAL_POD: dict[str, Any] = {
    "terminationGracePeriodSeconds": 60,
    "initContainers": [container("init", "true")],
    "containers": [container("one"), container("two")],
}
"""Three containers."""


def apply(name: str, replicas: int, spec: dict[str, Any] = USUAL_POD) -> None:
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    wanted = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": wanted}
    kubectl("apply", "-f", "-", given=json.dumps(deployment))


def ready(name: str) -> None:
    kubectl("rollout", "status", f"deployment/{name}", f"--timeout={LIMIT:g}s")


def wait(condition: str, *what: str) -> None:
    kubectl("wait", f"--for={condition}", f"--timeout={LIMIT:g}s", *what)


def delete(name: str) -> None:
    kubectl("delete", "deployment", name)
    wait("delete", "pod", "-l", f"app={name}")


# ---- what came of it


class Line(NamedTuple):
    """A run of a program, and the state or command that it was given. Without labels, the pod is `-`."""

    at: float
    pod: str
    word: str
    id: str


def lines(program: str, *names: str, since: float = 0) -> list[Line]:
    """Returns the runs of a program for pods with names that begin with one of these, in their order.

    With `since`, for those only that were not seen before that time. A program that was given no request, because its
    adapter was killed first, names no id.
    """
    written = map(str.split, (EVIDENCE / program).read_text().splitlines())
    split = (line for line in written if len(line) == len(Line._fields))
    found = [Line(float(at), pod, word, id_) for at, pod, word, id_ in split]
    ids = {line.id for line in found if line.pod.startswith(names)} - {line.id for line in found if line.at < since}
    return [line for line in found if line.id in ids]


def count(state: str, *names: str) -> int:
    return sum(line.word == state for line in lines(PLUGINS[-1], *names))


def marks(word: str) -> Counter[str]:
    return Counter(line.id for line in lines("mark", "-") if line.word == word)


def wrong(*names: str) -> Iterator[str]:
    """Yields what is wrong; a late delete is not: something may have been killed."""
    yield from (f"{id_}: {kind}" for kind, id_ in sorted(judge(*names)) if kind not in ("delete late", ABANDONED))


def _owed(*names: str, since: float) -> set[tuple[str, str]]:
    """Returns the creates without a delete so far: the plugin, and the id."""
    runs = {(plugin, line.id, line.word) for plugin in PLUGINS for line in lines(plugin, *names, since=since)}
    return {(plugin, id_) for plugin, id_, word in runs if word == "create" and (plugin, id_, "delete") not in runs}


def judge(*names: str, since: float = 0, with_hooks: bool = False) -> set[tuple[str, str]]:
    """Returns what is wrong with the runs of plugins for these pods: the kind of it, and the id.

    Whatever runc has started must have one create and, after it, one delete; also what fails before runc starts it.
    With `with_hooks`, each container must have had a hook.
    """
    with suppress(HarnessError):
        until(lambda: not _owed(*names, since=since), "the deletes", seconds=60)
    ended = {line.id: line.at for line in reversed(lines("runc", *names, since=since)) if line.word == "delete"}
    started = {line.id for line in lines("runc", *names, since=since) if line.word == "start"}
    homes = dict(line.split() for line in (EVIDENCE / "sandboxes").read_text().splitlines())
    used = {homes.get(id_) for id_ in started if homes.get(id_) != id_}
    hooked = {line.id for line in lines("mark", "-")}
    found = {("no hook", id_) for id_ in started - hooked if with_hooks and homes.get(id_) != id_}
    for plugin in PLUGINS:
        runs: dict[str, list[Line]] = {id_: [] for id_ in started}
        for line in lines(plugin, *names, since=since):
            runs.setdefault(line.id, []).append(line)
        for id_, of_id in runs.items():
            words = [line.word for line in of_id]
            creates, deletes = words.count("create"), words.count("delete")
            kinds = {
                ABANDONED if homes.get(id_) == id_ and id_ not in used else "no create": creates == deletes == 0,
                "creates doubled": creates > 1,
                "no delete": creates > 0 and not deletes,
                "deletes doubled": deletes > 1,
                "delete before create": creates > 0 and words[0] == "delete",
                CUT_OFF: deletes > creates == 0,
                "delete late": deletes > 0 and of_id[words.index("delete")].at > ended.get(id_, inf) + LATE,
            }
            found |= {(kind, id_) for kind, is_so in kinds.items() if is_so}
    return found
