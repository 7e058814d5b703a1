"""`hooks match` where annotations are not known; the hints of `hooks match` and `check` on the other runtime's keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adapter.cli.check import hook_files
from adapter.settings import HooksSettings
from tests.hooks_cli.test_match import Node, node

__all__ = ["node"]

CONTAINERDS = {"io.kubernetes.cri.container-name": "web", "io.kubernetes.cri.sandbox-id": "1"}
CRIOS = {"io.kubernetes.container.name": "web", "io.kubernetes.cri-o.SandboxID": "1", "note": "yes"}
POD = {"kind": "Pod", "apiVersion": "v1", "metadata": {"annotations": {"known": "yes"}},
    "spec": {"containers": [{"name": "c", "command": ["/c"]}]}}  # fmt: skip
HINT = "io.kubernetes.container.name is a key of CRI-O; containerd has io.kubernetes.cri.container-name"


def crictl(annotations: dict[str, str]) -> dict[str, Any]:
    spec = {"process": {"args": ["/c"]}, "annotations": annotations}
    return {"status": {"metadata": {"name": "c"}}, "info": {"runtimeSpec": spec}}


def spec(annotations: dict[str, str]) -> dict[str, Any]:
    return {"ociVersion": "1.2.0", "process": {"args": ["/c"]}, "annotations": annotations}


# The container, its pod, the condition; whether the container gets the hook, the exit code and the hint.
# fmt: off
ANNOTATIONS = {
    "crictl does not show the pod": (crictl(CONTAINERDS), None, {"note": "yes"}, None, 3, ""),
    "the pod is given, and has it": (crictl(CONTAINERDS), {"annotations": {"note": "yes"}}, {"note": "yes"}, True, 0,
        ""),
    "the pod is given, and lacks it": (crictl(CONTAINERDS), {"annotations": {"x": ""}}, {"note": "yes"}, False, 0, ""),
    "CRI-O copies the pod's": (crictl(CRIOS), None, {"^n$": ""}, False, 0, ""),
    "what is known suffices": (crictl(CONTAINERDS), None, {"container-name": "web"}, True, 0, ""),
    "a bundle of containerd": (spec(CONTAINERDS), None, {"note": "yes"}, None, 3, ""),
    "a bundle of podman": (spec({"a": "b"}), None, {"note": "yes"}, False, 0, ""),
    "an NRI container of a pod": ({"name": "c", "args": ["/c"], "podSandboxId": "1"}, None, {"note": ""}, None, 3, ""),
    "an event without a pod": ({"container": {"name": "c", "podSandboxId": "1"}}, None, {"note": ""}, None, 3, ""),
    "a manifest has what its author asks for": (POD, None, {"^kn": "no"}, False, 0, ""),
    "a manifest lacks what is added": (POD, None, {"^io[.]kubernetes[.]cri[.]sandbox": "x"}, None, 3,
        "io.kubernetes.cri.sandbox-name is a key of containerd; CRI-O has io.kubernetes.pod.name"),
    "any key": (POD, None, {".*": "^web$"}, None, 3, ""),
    "CRI-O's key on containerd": (crictl(CONTAINERDS), {"annotations": {"x": ""}}, {"container[.]name": "w"}, False, 0,
        HINT),
    "CRI-O's key on CRI-O": (crictl(CRIOS), None, {"container[.]name": "^no$"}, False, 0, ""),
}
# fmt: on


@pytest.mark.parametrize(("container", "pod", "when", "matched", "code", "hint"), ANNOTATIONS.values(), ids=ANNOTATIONS)
def test_annotations_that_are_not_known(
    node: Node, container: object, pod: object, when: object, matched: bool | None, code: int, hint: str
) -> None:
    node.hook("x.json", when={"annotations": when})
    is_manifest = container is POD
    file = node.folder / ("c.yaml" if is_manifest else "c.json")
    file.write_text(json.dumps(container))
    words: list[object] = ["-pod", node.folder / "pod.json"] if pod else []
    (node.folder / "pod.json").write_text(json.dumps(pod))
    [told] = node.json(*words, container=file)["hooks"]
    assert (told["matched"], node.code, told.get("hint", "")) == (matched, code, hint)
    node(*words, container=file)
    assert {True: "\nyes ", False: "\nno ", None: "\nunknown "}[matched] in node.out
    assert hint in node.out


@pytest.mark.parametrize(("runtimes", "told"), [(["containerd"], True), (["CRI-O"], False), ([], False)])
def test_check_names_a_key_of_a_runtime_that_is_not_there(tmp_path: Path, runtimes: list[str], told: bool) -> None:
    when = {"annotations": {"^io\\.kubernetes\\.container\\.name$": "^web$", ".*": "x"}}
    hook = {"version": "1.0.0", "hook": {"path": "/bin/true"}, "stages": ["poststop"], "when": when}
    (tmp_path / "x.json").write_text(json.dumps(hook))
    files = hook_files.HookFiles(HooksSettings(directories=(str(tmp_path),)), "/", runtimes)
    assert [HINT in entry.message for entry in files.entries() if entry.status == "note"] == [True] * told
