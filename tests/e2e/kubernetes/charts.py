"""What helm makes of the chart: the kustomizations are its own, the profile `hooks` and metrics work."""

from __future__ import annotations

from collections.abc import Iterator

from . import node as k8s

KUSTOMIZE = k8s.CHART.parents[1] / "kustomize"
OPTIONS = "--namespace", "kube-system", "--kube-version", "1.34"


def play() -> Iterator[str]:
    for profile in ("hooks", "legacy"):
        rendered = k8s.helm("template", k8s.RELEASE, k8s.CHART, *OPTIONS, "--set", f"profile={profile}")
        if rendered != (KUSTOMIZE / profile / "manifests.yaml").read_text():
            yield f"deploy/kustomize/{profile} is not what the chart renders: make kustomize"
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
