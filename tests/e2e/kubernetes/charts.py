"""What helm makes of the chart: the kustomizations are its own, the profile `hooks` and metrics work."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from . import node as k8s

KUSTOMIZE = k8s.CHART.parents[1] / "kustomize"
UPGRADES, KEPT = 5, 5
"""The second: the configuration, the list of now, and those of three revisions."""
OPTIONS = "--namespace", "kube-system", "--kube-version", "1.34", "--skip-tests"


def play() -> Iterator[str]:
    for profile in ("hooks", "legacy"):
        rendered = k8s.helm("template", k8s.RELEASE, k8s.CHART, *OPTIONS, "--set", f"profile={profile}")
        if rendered != (KUSTOMIZE / profile / "manifests.yaml").read_text():
            yield f"deploy/kustomize/{profile} is not what the chart renders: make kustomize"
    k8s.say("the kustomizations are the chart's")
    files = {"unprivileged.json": k8s.hook_file("unprivileged")}
    quoted = {"legacy": {"environment": {"SEPARATOR": "="}}}  # helm writes it without quotes in YAML
    policy = {"enabled": True, "from": [{"namespaceSelector": {}}]}
    named = {"digest": k8s.digest(), "pullPolicy": "Never"}
    given: dict[str, Any] = {"hooks": {"files": files}, "networkPolicy": policy, "config": quoted, "image": named}
    k8s.chart("install", profile="hooks", metrics={"enabled": True}, **given)
    k8s.apply("hooked", 1)
    k8s.ready("hooked")
    marks = k8s.marks("unprivileged")
    if [*marks.values()] != [1, 1, 1]:
        yield f"in the profile `hooks` a pod of three containers had the hooks {marks}"
    page = f"/api/v1/namespaces/kube-system/{k8s.adapters()[0].replace('/', 's/')}:8891/proxy/metrics"
    told = 'hooks_injected_total{file="/etc/nri-hooks.d/unprivileged.json"} 3.0\n'
    if told not in k8s.kubectl("get", "--raw", page):
        yield "the metrics do not tell the hooks"
    k8s.say("the profile `hooks` injects hooks, and metrics tell it")
    if k8s.does_well(partial(k8s.edit, more={}), k8s.maps()[0]):
        yield "the files that name what runs as root can be edited"
    k8s.delete("hooked")
    k8s.uninstall()
    yield from _mend()


def _mend() -> Iterator[str]:
    """An upgrade whose program is missing stops, and the node keeps what it had; another upgrade mends it."""
    k8s.chart("install")
    wrong = {**k8s.CONF, "plugins": [{"type": "missing"}]}
    if k8s.does_well(partial(k8s.chart, "upgrade", 30, legacy={"conf": wrong})):
        yield "an upgrade whose program is missing succeeds"
    if len(k8s.adapters()) != 2:
        yield f"while the upgrade has failed: {k8s.adapters()}"
    reason = "jsonpath={range .items[*]}{.message}{'\\n\\n'}{end}"
    told = k8s.kubectl("-n", "kube-system", "get", "events", "--field-selector", "reason=Unhealthy", "-o", reason)
    messages = [message for message in told.split("\n\n") if message.strip()]
    k8s.say(f"events of the upgrade: {len(messages)}, the first one: {messages[:1]}")
    yield from (f"an event without the reason: {one}" for one in messages if "missing: not found" not in one)
    if "missing" not in k8s.check():
        yield "`helm test` does not name the missing program"
    k8s.apply("kept", 1)
    k8s.ready("kept")
    k8s.say("the rollout has stopped, pods start with the plugins that they had")
    k8s.chart("upgrade")
    k8s.helm("rollback", k8s.RELEASE, "1", "--namespace", "kube-system", "--wait")
    if wrong_now := k8s.check():
        yield f"`helm test` after all: {wrong_now}"
    k8s.delete("kept")
    yield from k8s.wrong("kept")
    k8s.uninstall()


def play_lists() -> Iterator[str]:
    """Upgrades change the list of plugins: the ConfigMaps of the last three revisions stay, and none after all."""
    k8s.chart("install")
    counts = [len(k8s.maps())]
    for number in range(UPGRADES):
        plugins = [{"type": name, "conf": {"number": number}} for name in k8s.PLUGINS]
        k8s.chart("upgrade", legacy={"conf": {**k8s.CONF, "plugins": plugins}})
        counts.append(len(k8s.maps()))
    k8s.say(f"ConfigMaps after {UPGRADES} upgrades: {counts}")
    if max(counts) > KEPT:
        yield f"ConfigMaps of earlier lists stay: {k8s.maps()}"
    k8s.helm("rollback", k8s.RELEASE, "1", "--namespace", "kube-system", "--wait")
    if wrong := k8s.check():
        yield f"`helm test` after a rollback to the first list: {wrong}"
    k8s.uninstall()
    if left := k8s.maps():
        yield f"ConfigMaps stay after an uninstall: {left}"
