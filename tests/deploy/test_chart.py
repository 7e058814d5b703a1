"""The Helm chart: its values are those of the schema, and documented; a release: one version, and the bundle's command.

What the chart renders is tested on Kubernetes.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import nri
from nri.events import BY_EVENT
from tests.rig.programs import Programs
from tests.test_settings import VALUES
from v010_adapter import __version__, settings
from v010_adapter.cli import systems

from .chart import CHART, commented, formats, schema, table, values

ROOT = Path(__file__).parents[2]
KUSTOMIZE = CHART.parents[1] / "kustomize"
HOOK = {"version": "1.0.0", "hook": {"path": "/usr/bin/trace"}, "when": {"always": True}, "stages": ["prestart"]}
PRECREATE = HOOK | {"stages": ["precreate"]}
OLD_HOOK = {"hook": "/usr/bin/trace", "stage": ["prestart"], "cmds": [".*"]}
CONF = {"version": "0.1", "plugins": [{"type": "clearcfs"}, {"type": "konfine", "conf": {"any": [1]}}]}
OF_THE_CHART = {"hostRoot", "mountNamespace", "runtime.socket", "state.directory", "state.owner", "metrics.listen"}
"""Keys of the adapter's configuration that the chart sets: with others, its mounts or its probes do not work."""

WRONG: list[tuple[dict[str, object], str]] = [  # values, and what the error names
    ({"profile": "all"}, "profile"),
    ({"hooks": {"files": {"x.txt": {}}}}, "x.txt"),
    ({"legacy": {"conf": {"version": "0.1"}}}, "profile"),
    ({"metrics": {"enabled": False, "podMonitor": {"enabled": True}}}, "enabled"),
    ({"metrics": {"enabled": False, "alerts": {"enabled": True}}}, "enabled"),
    ({"metrics": {"podMonitor": {"interval": "30"}}}, "interval"),
    ({"commonLabels": {"app.kubernetes.io/instance": "x"}}, "commonLabels"),
    ({"updateStrategy": {"maxNodes": 0}}, "maxNodes"),
    ({"terminationGracePeriodSeconds": 5}, "terminationGracePeriodSeconds"),
    ({"nri": {"socketDirectory": "/"}}, "socketDirectory"),
    ({"config": {"nosuch": 1}}, "nosuch"),
    ({"resources": {"limit": {"cpu": 1}}}, "limit"),
    ({"profile": "legacy", "legacy": {"conf": {"plugins": "x"}}}, "plugins"),
    ({"profile": "legacy", "legacy": {"conf": {"plugins": [{"typ": "x"}]}}}, "typ"),
    ({"hooks": {"files": {"x.json": {**HOOK, "stages": ["start"]}}}}, "stages"),
    ({"hooks": {"files": {"x.json": {**OLD_HOOK, "hook": "trace"}}}}, "hook"),
    ({"hooks": {"files": {"x.json": PRECREATE}}}, "precreate"),
    ({"hooks": {"nodeDirectories": ["/usr/.."]}}, "nodeDirectories"),
    ({"metrics": {"address": "localhost"}}, "address"),
    ({"metrics": {"address": "1::2::3"}}, "address"),
    ({"metrics": {"port": None}}, "port"),
    ({"nri": {"socketDirectory": "/run/../etc"}}, "socketDirectory"),
    ({"config": {"legacy": {"timeout": 1e21}}}, "timeout"),  # helm writes 1e+21: a text for the adapter
    ({"hooks": {"files": {"x.json": {**HOOK, "when": {"annotations": {"(": "x"}}}}}}, "annotations"),
    ({"hooks": {"files": {"x.json": {**OLD_HOOK, "cmds": ["x", "*"]}}}}, "cmds"),
    ({"profile": "legacy", "metrics": {"enabled": True, "podMonitor": {"enabled": True}, "address": ""}}, "address"),
    ({"image": {"digest": "sha256:0"}}, "digest"),
    ({"hooks": {"configMap": "own", "files": {"x.json": HOOK}}}, "files"),
    ({"profile": "legacy", "networkPolicy": {"enabled": True}}, "profile"),  # the node's network has none
    ({"networkPolicy": {"from": [{}]}}, "from"),
    # The kubelet would refuse the image's name, in a pod that exists already.
    ({"image": {"registry": "example.com/"}}, "registry"),
    ({"image": {"registry": "https://example.com"}}, "registry"),
    ({"image": {"repository": "nri-v010-adapter:0.1.0"}}, "repository"),
    ({"image": {"repository": ""}}, "repository"),
    ({"image": {"tag": ":0.1.0"}}, "tag"),
    ({"extraEnv": [{"name": "A", "value": 1}]}, "extraEnv"),
    ({"extraEnv": [{"name": "A", "valeu": "1"}]}, "valeu"),
    ({"metrics": {"podMonitor": {"interval": "30s1m"}}}, "interval"),
    # The adapter would not read what the other value has.
    ({"hooks": {"files": {"x.json": HOOK}}, "config": {"hooks": {"directories": ["/host/x"]}}}, "directories"),
    ({"hooks": {"configMap": "own"}, "config": {"hooks": {"directories": []}}}, "directories"),
    ({"profile": "legacy", "legacy": {"conf": CONF}, "config": {"legacy": {"config": "/host/x"}}}, "config"),
]


@functools.cache
def validator() -> jsonschema.Draft7Validator:
    return jsonschema.Draft7Validator(schema(), format_checker=jsonschema.FormatChecker())


def errors(own: Mapping[str, Any]) -> list[str]:
    """What helm has against values of a user: each error with its place."""
    found = validator().iter_errors(merged(values(), own))
    return [f"{list(error.absolute_path)} {error.message}" for error in found]


def merged(defaults: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """As helm merges values: null removes a default."""
    both = {key: value for key, value in {**defaults, **own}.items() if value is not None or key not in defaults}
    objects = (key for key, value in both.items() if isinstance(value, dict) and defaults.get(key))
    return both | {key: merged(defaults[key], both[key]) for key in objects}


def test_a_wrong_value_is_named() -> None:
    for wrong, at in WRONG:
        assert any(at in error for error in errors(wrong)), wrong


def test_the_default_values_and_what_belongs_together_are_valid() -> None:
    legacy: dict[str, object] = {"profile": "legacy", "legacy": {"conf": CONF}}
    pod_monitor = {"enabled": True, "labels": {"release": "x"}, "interval": "1m30s"}
    monitored = {"metrics": {"enabled": True, "podMonitor": pod_monitor, "alerts": {"enabled": True}}}
    of_node = {"profile": "legacy", "metrics": {"enabled": True, "podMonitor": pod_monitor, "address": "::"}}
    hooks: dict[str, object] = {"hooks": {"files": {"a.json": HOOK, "old.json": OLD_HOOK}, "nodeDirectories": ["/"]}}
    places = {"nri": {"socketDirectory": "/run/.nri/"}, "hooks": {"nodeDirectories": ["/usr/", "/etc/..hooks"]}}
    precreate = {"config": {"hooks": {"precreate": True}}, "hooks": {"files": {"x.json": PRECREATE}}}
    resources = {"requests": {"cpu": 0.5, "memory": "32Mi"}, "limits": {"cpu": "2"}}
    enough: dict[str, object] = {"resources": resources, "updateStrategy": {"maxNodes": "100%"}}
    peers = [{"namespaceSelector": {"matchLabels": {"a": "b"}}, "podSelector": {}}, {"ipBlock": {"cidr": "10.0.0.0/8"}}]
    alone: dict[str, object] = {"networkPolicy": {"enabled": True, "from": peers}, "hooks": {"configMap": "own"}}
    exact: dict[str, object] = {"image": {"digest": f"sha256:{'0' * 64}"}}
    named: dict[str, object] = {"image": {"registry": "example.com:5000/a/b", "repository": "c/d_e", "tag": "v1.0_x"}}
    by_digest: dict[str, object] = {"image": {"registry": "", "digest": f"sha256:{'0' * 64}"}}
    field: dict[str, object] = {"fieldRef": {"fieldPath": "spec.nodeName"}}
    variables: dict[str, object] = {"extraEnv": [{"name": "TZ", "value": "1"}, {"name": "N", "valueFrom": field}]}
    of_both = {"directories": ["/host/x", "/etc/nri-hooks.d"]}
    directories: dict[str, object] = {"config": {"hooks": of_both}, "hooks": {"configMap": "own"}}
    rights: list[Mapping[str, Any]] = [{}, legacy, monitored, of_node, hooks, places, precreate, enough, alone, exact]
    for right in (*rights, named, by_digest, variables, directories):
        assert errors(right) == []


def allows(key: str, value: Any) -> bool:
    """Whether the chart takes a value of a key of the adapter's configuration."""
    for name in reversed(key.split(".")):
        value = {name: value}
    return errors({"config": value}) == []


def as_json(texts: Iterable[str]) -> Iterator[Any]:
    """Yields the values of YAML texts that helm passes on as they are: its numbers are float64."""
    for text in texts:
        with suppress(yaml.YAMLError, ValueError):
            value = yaml.safe_load(text)
            is_large = isinstance(value, int) and abs(value) > 1 << 53
            if not is_large and json.loads(json.dumps(value, allow_nan=False, ensure_ascii=False).encode()) == value:
                yield value


def test_the_chart_takes_the_configurations_that_the_adapter_takes() -> None:
    for key, texts in VALUES.items():
        for is_good, of in zip((True, False), texts, strict=True):
            for value in as_json(of):
                assert allows(key, value) is (is_good and key not in OF_THE_CHART), (key, value)


def test_the_chart_takes_each_of_the_events_at_which_a_plugin_may_run() -> None:
    for event in ("Configure", *(call.method for call in BY_EVENT.values())):
        is_taken = settings.parse(f"legacy: {{plugins: {{a: {{events: [{event}]}}}}}}", "x")[1] == []
        assert allows("legacy.plugins.a.events", [event]) is is_taken, event


def test_the_formats_of_files_and_the_table_and_comments_of_values_are_as_they_are_written() -> None:
    """`python -m tests.deploy.chart` writes them."""
    assert {name: schema()["definitions"][name] for name in formats()} == formats()
    assert table() in (CHART / "README.md").read_text()
    assert commented() == (CHART / "values.yaml").read_text()


def test_a_limit_of_memory_that_kills_the_adapter_at_its_start_is_refused() -> None:
    less: tuple[object, ...] = ("16Mi", "63.9Mi", "67M", "0.05Gi", "65535Ki", "67108863", "67999k", "6e7", 1 << 24)
    enough: tuple[object, ...] = (
        "64.5Mi",
        "100Mi",
        "68M",
        "0.5Gi",
        "1G",
        "2Ti",
        "100000Ki",
        "65536Ki",
        "64Mi",
        "0.0625Gi",
        "67108864",
        "68000k",
        "7e7",
        "68000000",
        "1e9",
        1 << 26,
    )
    for limits in (less, enough):
        for memory in limits:
            found = errors({"resources": {"limits": {"memory": memory}}})
            assert any("memory" in error for error in found) is (limits is less), memory


def test_in_the_profile_legacy_the_namespace_of_the_release_is_exempt() -> None:
    objects = yaml.safe_load_all((KUSTOMIZE / "legacy/manifests.yaml").read_text())
    (text,) = (one["data"]["v010-adapter.yaml"] for one in objects if "v010-adapter.yaml" in (one.get("data") or {}))
    own, errors = settings.parse(text, "v010-adapter.yaml")
    assert (own.legacy.exempt, errors) == (frozenset(["kube-system"]), [])


def test_two_releases_have_two_owners() -> None:
    """Of adapters of two owners, one joins a node's runtime."""
    for profile in ("hooks", "legacy"):
        documents = yaml.safe_load_all((KUSTOMIZE / profile / "manifests.yaml").read_text())
        (text,) = (
            one["data"]["v010-adapter.yaml"] for one in documents if "v010-adapter.yaml" in (one.get("data") or {})
        )
        assert settings.parse(text, "x")[0].state_owner == "kube-system/nri-v010-adapter"


def test_in_the_profile_hooks_the_pod_does_not_see_the_whole_node() -> None:
    """It is root: it could read the kubelet's keys."""
    objects = yaml.safe_load_all((KUSTOMIZE / "hooks/manifests.yaml").read_text())
    (pod,) = (one["spec"]["template"]["spec"] for one in objects if one["kind"] == "DaemonSet")
    seen = {volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
    assert seen == {"/var/run/nri", "/run/nri-v010-adapter", "/etc/containers/oci/hooks.d", "/usr", "/bin", "/opt"}
    assert values()["hooks"]["nodeDirectories"] == []


HELM = shutil.which("helm") or shutil.which("helm", path=f"{os.environ.get('K8S', '')}/bin")
SEEN = {
    "talos": {"/usr", "/opt"},
    "bottlerocket": {"/usr", "/opt"},
    "cos": {"/usr"},
}
"""What the profile `hooks` sees of nodes that can make no directory."""


@pytest.mark.skipif(not HELM, reason="no helm, in the PATH or in K8S/bin")
def test_on_each_system_the_pod_sees_directories_that_exist_and_the_init_container_is_told_the_system() -> None:
    for name in ("auto", *systems.NAMES):
        pod = rendered("--set", f"distribution={name},nri.runtime.patchConfig=true")
        seen = {volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
        usual = {"/usr", "/bin", "/opt", "/etc/containers/oci/hooks.d"}
        assert seen - {"/", "/var/run/nri", "/run/nri-v010-adapter"} == SEEN.get(name, usual), name
        assert pod["initContainers"][0]["command"] == ["switch-nri-on", "/host", "/var/run/nri/nri.sock", name]
    own = rendered("--set", "distribution=talos,hooks.nodeDirectories={/var/lib/hooks},seLinuxOptions.type=spc_t")
    mounts = [mount["mountPath"] for mount in own["containers"][0]["volumeMounts"]]
    assert [path for path in mounts if path.startswith("/host")] == ["/host/var/lib/hooks"]
    assert own["containers"][0]["securityContext"]["seLinuxOptions"] == {"type": "spc_t"}


@pytest.mark.skipif(not HELM, reason="no helm, in the PATH or in K8S/bin")
def test_an_update_preempts_no_pod_and_lingers_only_for_a_successor_that_can_come() -> None:
    beside, in_place = objects(), objects("--set", "updateStrategy.surge=false,updateStrategy.maxNodes=10%")
    assert beside["PriorityClass"]["preemptionPolicy"] == "Never"
    assert "PriorityClass" not in objects("--set", "priorityClassName=system-node-critical")
    strategies = [one["DaemonSet"]["spec"]["updateStrategy"]["rollingUpdate"] for one in (beside, in_place)]
    assert strategies == [{"maxUnavailable": 0, "maxSurge": 1}, {"maxUnavailable": "10%", "maxSurge": 0}]
    (first,), (second,) = (one["DaemonSet"]["spec"]["template"]["spec"]["containers"] for one in (beside, in_place))
    assert (first["args"][-2:], second["args"][-2:]) == (["-linger", "18"], ["-linger", "0"])


@pytest.mark.skipif(not HELM, reason="no helm, in the PATH or in K8S/bin")
def test_a_directory_of_the_socket_that_somebody_has_named_is_not_made() -> None:
    pods = rendered(), rendered("--set", "nri.socketDirectory=/run/misspelt")
    types = [pod["volumes"][0]["hostPath"] for pod in pods]
    assert types[0] == {"path": "/var/run/nri", "type": "DirectoryOrCreate"}
    assert types[1] == {"path": "/run/misspelt", "type": "Directory"}


@pytest.mark.skipif(not HELM, reason="no helm, in the PATH or in K8S/bin")
def test_a_redundant_instance_is_in_a_daemonset_that_has_other_pods_and_the_same_work() -> None:
    first, second = (one for one in listed("--set", "redundant=true") if one["kind"] == "DaemonSet")
    assert (first["metadata"]["name"], second["metadata"]["name"]) == ("x", "x-second")
    for one in (first, second):
        selected = one["spec"]["selector"]["matchLabels"]
        assert selected.items() <= one["spec"]["template"]["metadata"]["labels"].items()
    assert first["spec"]["selector"] != second["spec"]["selector"]
    assert first["spec"]["template"]["spec"] == second["spec"]["template"]["spec"]


@pytest.mark.skipif(not HELM, reason="no helm, in the PATH or in K8S/bin")
def test_labels_names_variables_and_volumes_are_where_the_values_want_them() -> None:
    monitoring = "metrics.enabled=true,metrics.address=::,metrics.podMonitor.enabled=true,metrics.alerts.enabled=true"
    labels = "commonLabels.a=common,podLabels.a=pod,metrics.podMonitor.labels.a=monitor,metrics.dashboard.enabled=true"
    more = "extraEnv[0].name=TZ,extraVolumes[0].name=v,extraVolumeMounts[0].name=v,extraVolumeMounts[0].mountPath=/v"
    found = listed("--set", f"profile=legacy,nameOverride=other,{monitoring},{labels},{more}")
    assert all(one["metadata"]["name"].removeprefix("default-").startswith("other") for one in found)
    by_kind = {one["kind"]: one for one in found}
    values = {kind: one["metadata"]["labels"]["a"] for kind, one in by_kind.items()}
    assert {**values, "PodMonitor": ""} == {**dict.fromkeys(values, "common"), "PodMonitor": ""}
    assert values["PodMonitor"] == "monitor"
    template = by_kind["DaemonSet"]["spec"]["template"]
    assert template["metadata"]["labels"]["a"] == "pod"
    (adapter,) = template["spec"]["containers"]
    assert (adapter["env"], template["spec"]["volumes"][-1]) == ([{"name": "TZ"}], {"name": "v"})
    assert adapter["volumeMounts"][-1] == {"name": "v", "mountPath": "/v"}
    assert template["spec"]["serviceAccountName"] == by_kind["ServiceAccount"]["metadata"]["name"] == "other"
    (endpoint,) = by_kind["PodMonitor"]["spec"]["podMetricsEndpoints"]
    assert {"regex": "pod|container", "action": "labeldrop"} in endpoint["relabelings"]
    sets = [rule["expr"] for rule in by_kind["PrometheusRule"]["spec"]["groups"][0]["rules"] if "kube_" in rule["expr"]]
    assert all('daemonset=~"other(-second)?"' in query for query in sets)
    assert "ServiceAccount" not in objects("--set", "serviceAccountName=own")


@pytest.mark.skipif(not HELM, reason="no helm, in the PATH or in K8S/bin")
def test_the_pod_of_helm_test_has_the_labels_that_a_cluster_may_ask_of_all() -> None:
    line = [str(HELM), "template", "x", str(CHART), "--kube-version", "1.34", "--show-only", "templates/check.yaml"]
    done = subprocess.run([*line, "--set", "commonLabels.a=b"], check=True, capture_output=True, text=True)
    assert yaml.safe_load(done.stdout)["metadata"]["labels"] == {"a": "b"}


@pytest.mark.skipif(not HELM, reason="no helm, in the PATH or in K8S/bin")
def test_the_notes_name_the_directories_that_the_adapter_reads(tmp_path: Path) -> None:
    usual = notes(tmp_path)
    assert "in /usr/share/containers/oci/hooks.d\n" in usual
    assert "in /etc/containers/oci/hooks.d\n" in usual
    talos = notes(tmp_path, "--set", "distribution=talos")
    assert "in /usr/share/containers/oci/hooks.d\n" in talos
    assert "/etc/containers" not in talos
    own = notes(
        tmp_path, "--set", "profile=legacy,config.legacy.config=/host/x.json,config.hooks.directories={/host/y}"
    )
    assert "the node's /x.json." in own
    assert re.findall("on each node, in (.*)", own) == ["/y"]


def notes(tmp_path: Path, *words: str) -> str:
    """What helm says after an installation: without a cluster, in an object of a copy of the chart."""
    chart = shutil.copytree(CHART, tmp_path, dirs_exist_ok=True)
    text = (chart / "templates/NOTES.txt").read_text()
    (chart / "templates/notes.yaml").write_text(
        f'{{{{- define "notes" }}}}{text}{{{{ end }}}}\nnotes: {{{{ include "notes" . | toJson }}}}\n'
    )
    line = [str(HELM), "template", "x", str(chart), "--kube-version", "1.34", "--show-only", "templates/notes.yaml"]
    done = subprocess.run([*line, *words], check=True, capture_output=True, text=True)
    found: str = yaml.safe_load(done.stdout)["notes"]
    return found


def rendered(*words: str) -> dict[str, Any]:
    """The DaemonSet's pod as helm renders it without a cluster."""
    found: dict[str, Any] = objects(*words)["DaemonSet"]["spec"]["template"]["spec"]
    return found


def objects(*words: str) -> dict[str, Any]:
    """What helm renders without a cluster, by its kind: the last one of each."""
    return {one["kind"]: one for one in listed(*words)}


def listed(*words: str) -> list[dict[str, Any]]:
    """What helm renders without a cluster."""
    line = [str(HELM), "template", "x", str(CHART), "--kube-version", "1.34", "--skip-tests", *words]
    done = subprocess.run(line, check=True, capture_output=True, text=True)
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def test_the_chart_knows_the_systems_that_the_adapter_knows() -> None:
    assert schema()["properties"]["distribution"]["enum"] == ["auto", *systems.NAMES]
    section = (CHART / "README.md").read_text().partition("\n## Systems\n")[2].partition("\n## ")[0]
    columns = re.findall(r"^\| [^|]* \| ([^|]*) \|", section, re.MULTILINE)
    names = {name for column in columns for name in re.findall(r"`([a-z0-9]+)`", column)} - {"distribution"}
    assert names == set(systems.NAMES)


def test_the_files_that_name_what_runs_as_root_cannot_be_edited_in_place() -> None:
    """Whoever may edit ConfigMaps could run programs on every node. A change has another name: it is a rollout."""
    for profile in ("hooks", "legacy"):
        objects = list(yaml.safe_load_all((KUSTOMIZE / profile / "manifests.yaml").read_text()))
        maps = [one for one in objects if one["kind"] == "ConfigMap"]
        assert all(one["immutable"] is True and re.search("-[0-9a-f]{10}$", one["metadata"]["name"]) for one in maps)
        (pod,) = (one["spec"]["template"]["spec"] for one in objects if one["kind"] == "DaemonSet")
        mounted = {volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume}
        assert mounted == {one["metadata"]["name"] for one in maps}


# ---- a release


def test_whatever_names_a_version_names_the_adapters() -> None:
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in configuration["project"]["dynamic"]
    assert configuration["tool"]["hatch"]["version"] == {"path": "adapter/v010_adapter/__init__.py"}
    assert nri.__version__ == __version__
    command = Path(sys.executable).with_name("v010-adapter")
    said = subprocess.run([command, "--version"], check=True, capture_output=True, text=True)
    assert said.stdout.startswith(f"v010-adapter {__version__}, ")
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    changes = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert changes[0] == __version__
    for profile in ("hooks", "legacy"):
        text = (ROOT / f"deploy/kustomize/{profile}/manifests.yaml").read_text()
        assert set(re.findall(r"image: \S*nri-v010-adapter:(\S+?)\"?$", text, re.M)) == {__version__}, profile
    pages = "".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    assert set(re.findall(r"v010-adapter-(\d[\d.]*\d)", pages)) == {__version__}


def test_the_command_runs_the_python_beside_it(tmp_path: Path) -> None:
    """Called by a link to a link, without PATH, from a directory with a space."""
    directory = tmp_path / "a bundle"
    python = Programs(directory).shell("python3", 'printf "%s\\n" "$0" "$@"')
    command = shutil.copy(ROOT / "deploy/v010-adapter", directory)
    (tmp_path / "link").symlink_to(command)
    (tmp_path / "00-v010-adapter").symlink_to("link")
    run = subprocess.run(
        ["./00-v010-adapter", "a b", ""], cwd=tmp_path, env={}, check=True, capture_output=True, text=True
    )
    assert run.stdout.split("\n") == [str(python), "-I", "./00-v010-adapter", "a b", "", ""]
