"""What helm makes of the chart: it refuses wrong values, the kustomizations are its own, profile and metrics work."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from tests.e2e.pod import HarnessError

from .node import (
    CHART,
    RELEASE,
    adapters,
    apply,
    chart,
    containers,
    delete,
    footprint,
    helm,
    hook_file,
    kubectl,
    marks,
    ready,
    say,
    uninstall,
)

DEPLOY = CHART.parents[1]
KUSTOMIZE, ALERTS = DEPLOY / "kustomize", DEPLOY / "prometheus/alerts.yaml"
WRONG = {
    "profile=all": "profile",
    "imagee.tag=1": "imagee",
    "nri.plugin.index=100": "index",
    "metrics.port=http": "port",
    "updateStrategy.maxNode=1": "maxNode",
    "legacy.conf.version=0.1": "/profile",  # in the profile `hooks`
}
"""Wrong values, each with the key that helm must name."""


def play() -> Iterator[str]:
    """Yields what is wrong."""
    yield from _accepted()
    yield from _stale()
    yield from _monitoring()
    say("helm refuses wrong values; the kustomizations are the chart's")
    before = footprint()
    files = {"unprivileged.json": hook_file("unprivileged")}
    chart("install", profile="hooks", hooks={"files": files}, metrics={"enabled": True})
    apply("hooked", 1)
    ready("hooked")
    ids = containers("hooked")
    if marks("unprivileged") != dict.fromkeys(ids, 1) or not ids:
        yield f"in the profile `hooks` a pod had the hooks {marks('unprivileged')}"
    page = f"/api/v1/namespaces/kube-system/{adapters()[0].replace('/', 's/')}:8891/proxy/metrics"
    if f'hooks_injected_total{{file="/etc/nri-hooks.d/unprivileged.json"}} {len(ids)}.0\n' not in kubectl(
        "get", "--raw", page
    ):
        yield "the metrics do not tell the hooks"
    say("the profile `hooks` injects hooks, and metrics tell it")
    delete("hooked")
    uninstall()
    yield from (f"left: {thing}" for thing in footprint() - before if not thing.startswith(f"/run/{RELEASE}"))


def _accepted() -> Iterator[str]:
    """Yields the wrong values that helm takes, or refuses without the key."""
    for value, key in WRONG.items():
        try:
            _rendered(value)
            yield f"helm takes {value}"
        except HarnessError as error:
            if key not in str(error).partition("Error: ")[2]:
                yield f"helm does not name {key}: {error}"


def _stale() -> Iterator[str]:
    """Yields the manifests for kustomize that are not what the chart renders."""
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


def _rendered(values: str) -> str:
    return helm("template", RELEASE, CHART, "--namespace", "kube-system", "--kube-version", "1.34", "--set", values)
