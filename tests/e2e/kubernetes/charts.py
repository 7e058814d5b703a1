"""What helm makes of the chart: it refuses wrong values, the kustomizations are its own, the profile `hooks` works."""

from __future__ import annotations

from collections.abc import Iterator

from .node import (
    CHART,
    RELEASE,
    Wrong,
    apply,
    chart,
    containers,
    delete,
    footprint,
    helm,
    hook_file,
    marks,
    ready,
    say,
    uninstall,
)

KUSTOMIZE = CHART.parents[1] / "kustomize"
WRONG = {
    "profile=all": "profile",
    "imagee.tag=1": "imagee",
    "nri.plugin.index=100": "index",
    "metrics.port=http": "port",
    "updateStrategy.maxNode=1": "maxNode",
    "legacy.conf.version=0.1": "conf",  # in the profile `hooks`
}
"""Wrong values, each with the key that helm must name."""


def play() -> Iterator[str]:
    """Yields what is wrong."""
    yield from _accepted()
    yield from _stale()
    say("helm refuses wrong values; the kustomizations are the chart's")
    before = footprint()
    chart("install", profile="hooks", hooks={"files": {"unprivileged.json": hook_file("unprivileged")}})
    apply("hooked", 1)
    ready("hooked")
    ids = containers("hooked")
    if marks("unprivileged") != dict.fromkeys(ids, 1) or not ids:
        yield f"in the profile `hooks` a pod had the hooks {marks('unprivileged')}"
    say("the profile `hooks` injects hooks")
    delete("hooked")
    uninstall()
    yield from (f"left: {thing}" for thing in footprint() - before if not thing.startswith(f"/run/{RELEASE}"))


def _accepted() -> Iterator[str]:
    """Yields the wrong values that helm takes, or refuses without the key."""
    for value, key in WRONG.items():
        try:
            helm("template", RELEASE, CHART, "--set", value)
            yield f"helm takes {value}"
        except Wrong as error:
            if f"{key}" not in str(error).partition("Error: ")[2]:
                yield f"helm does not name {key}: {error}"


def _stale() -> Iterator[str]:
    """Yields the manifests for kustomize that are not what the chart renders."""
    for profile in ("hooks", "legacy"):
        more = ("--namespace", "kube-system", "--kube-version", "1.34", "--set", f"profile={profile}")
        if helm("template", RELEASE, CHART, *more) != (KUSTOMIZE / profile / "manifests.yaml").read_text():
            yield f"deploy/kustomize/{profile} is not what the chart renders: make kustomize"
