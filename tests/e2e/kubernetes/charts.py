"""What helm makes of the chart: the kustomizations are its own, profile and metrics work, NRI is switched on."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from . import node as k8s

DEPLOY = k8s.CHART.parents[1]
KUSTOMIZE, ALERTS = DEPLOY / "kustomize", DEPLOY / "prometheus/alerts.yaml"
CONFIG = "/etc/containerd/config.toml"
STARTED = "cat $(pgrep -x containerd | sed 's,.*,/proc/&/stat,') | cut -d ' ' -f 22"


def play() -> Iterator[str]:
    yield from _stale()
    yield from _monitoring()
    yield from _rollouts()
    k8s.say("the kustomizations are the chart's")
    before = k8s.footprint()
    files = {"unprivileged.json": k8s.hook_file("unprivileged")}
    k8s.chart("install", profile="hooks", hooks={"files": files}, metrics={"enabled": True})
    k8s.apply("hooked", 1)
    k8s.ready("hooked")
    ids = k8s.containers("hooked")
    if k8s.marks("unprivileged") != dict.fromkeys(ids, 1) or not ids:
        yield f"in the profile `hooks` a pod had the hooks {k8s.marks('unprivileged')}"
    page = f"/api/v1/namespaces/kube-system/{k8s.adapters()[0].replace('/', 's/')}:8891/proxy/metrics"
    told = f'hooks_injected_total{{file="/etc/nri-hooks.d/unprivileged.json"}} {len(ids)}.0\n'
    if told not in k8s.kubectl("get", "--raw", page):
        yield "the metrics do not tell the hooks"
    k8s.say("the profile `hooks` injects hooks, and metrics tell it")
    k8s.delete("hooked")
    k8s.uninstall()
    yield from (f"left: {thing}" for thing in k8s.footprint() - before if not thing.startswith(f"/run/{k8s.RELEASE}"))


def _stale() -> Iterator[str]:
    for profile in ("hooks", "legacy"):
        if _rendered(f"profile={profile}") != (KUSTOMIZE / profile / "manifests.yaml").read_text():
            yield f"deploy/kustomize/{profile} is not what the chart renders: make kustomize"


def _monitoring() -> Iterator[str]:
    """Yields what is wrong with the objects of the Prometheus operator, which the node does not know."""
    switches = ("metrics.enabled=true", "metrics.podMonitor=true", "metrics.alerts=true")
    objects = {one["kind"]: one for one in yaml.safe_load_all(_rendered(",".join(switches)))}
    if "PodMonitor" not in objects:
        yield "there is no PodMonitor"
    if objects["PrometheusRule"]["spec"] != yaml.safe_load(ALERTS.read_text()):
        yield "the PrometheusRule does not have the alerts"


def _rollouts() -> Iterator[str]:
    """Yields what would end a pod before the next one is ready, or bring a list of plugins to all nodes at once."""
    pods = []
    for plugin in ("first", "second"):
        values = f"profile=legacy,metrics.enabled=true,legacy.conf.plugins[0].type={plugin}"
        objects = yaml.safe_load_all(_rendered(values))
        (spec,) = (one["spec"] for one in objects if one["kind"] == "DaemonSet")
        if spec["updateStrategy"]["rollingUpdate"] != {"maxUnavailable": 0, "maxSurge": 1}:
            yield f"with metrics an update is {spec['updateStrategy']}"
        pods.append(spec["template"])
        if any("ports" in container for container in pods[-1]["spec"]["containers"]):
            yield "a port of the node is declared: it keeps the next pod away"
    if pods[0] == pods[1]:
        yield "another list of plugins is no rollout"


def _rendered(values: str) -> str:
    options = ("--namespace", "kube-system", "--kube-version", "1.34", "--set", values)
    return k8s.helm("template", k8s.RELEASE, k8s.CHART, *options)


def play_runtime_config() -> Iterator[str]:
    """`nri.runtime.patchConfig`: an init container switches NRI on in containerd, which restarts."""
    k8s.shell(f"sed -i 's/disable = false/disable = true/' {CONFIG}; systemctl restart containerd")
    off = k8s.shell(f"cat {CONFIG}")
    for times in (1, 2):
        started = k8s.shell(STARTED)
        files = {"on.json": k8s.hook_file("on")}
        k8s.chart("install", profile="hooks", nri={"runtime": {"patchConfig": True}}, hooks={"files": files})
        if k8s.shell(f"cat {CONFIG}") != off.replace("disable = true", "disable = false"):
            yield "NRI is not switched on in containerd's configuration, or more was changed"
        if (k8s.shell(STARTED) != started) != (times == 1):
            yield "containerd has restarted where NRI was on" if times > 1 else "containerd has not restarted"
        k8s.apply(f"on{times}", 1)
        k8s.ready(f"on{times}")
        if not k8s.containers(f"on{times}") <= k8s.marks("on").keys():
            yield "a pod has no hooks"
        k8s.delete(f"on{times}")
        k8s.uninstall()
        k8s.say("NRI was off, and is on" if times == 1 else "where NRI is on, nothing is done")
