"""`v010-adapter hooks match`: what it says about hooks and containers, as text and as JSON, and its exit codes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.rig.command import Command, Terminal
from v010_adapter.cli import command_line as cli

CONTAINER = {
    "name": "c",
    "annotations": {"a": "1"},
    "args": ["/bin/sh", "-c", "x"],
    "mounts": [{"destination": "/srv", "type": "bind", "source": "/srv", "options": ["rbind"]}],
}
TRUE = {"path": "/bin/true"}


class Matched(Command):
    """Hooks directories, a container, and what the command said of them."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        super().__init__(folder, capsys)
        self.container = self.write("container.json", CONTAINER)

    def hook(self, name: str, *, directory: str = "hooks.d", **keys: object) -> Path:
        hook = {"version": "1.0.0", "hook": TRUE, "when": {"always": True}, "stages": ["createRuntime"], **keys}
        return self.write(f"{directory}/{name}", hook)

    def __call__(self, *words: object, directories: Sequence[str] = ("hooks.d",), container: Path | None = None) -> int:
        places = [word for name in directories for word in ("-directory", self.folder / name)]
        return self.run("hooks", "match", "-container", container or self.container, *places, *words)

    def of_id(self, id_: str) -> int:
        return self.run("hooks", "match", id_, "-directory", self.folder / "hooks.d")

    def json(self, *words: object, **keys: Any) -> Any:
        self("-o", "json", *words, **keys)
        return self.told()


@pytest.fixture
def node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Matched:
    return Matched(tmp_path, capsys)


def test_json_has_exactly_this_shape(node: Matched) -> None:
    hook = {"path": "/bin/true", "args": ["true", "x"], "env": ["A=b"], "timeout": 3}
    good = node.hook("good.json", hook=hook, stages=["createRuntime", "poststop"])
    other = node.hook("other.json", when={"commands": ["nginx"]})
    bad = node.write("hooks.d/bad.json", '{"version": "1.0.0",\n "stages": ["never"]}')
    injected = {"path": "/bin/true", "args": ["true", "x"], "env": ["A=b"], "timeout": {"value": 3}}
    told = node.json()
    assert "" not in [one.pop("reason") for one in told["hooks"]]
    assert told["errors"][0].pop("error")
    assert told == {
        "hooks": [
            {
                **{"file": str(good), "name": "good.json", "matched": True, "stages": ["createRuntime", "poststop"]},
                "places": [{"stage": "createRuntime", "number": 0}, {"stage": "poststop", "number": 0}],
            },
            {"file": str(other), "name": "other.json", "matched": False, "stages": ["createRuntime"], "places": []},
        ],
        "errors": [{"file": str(bad)}],
        "unknown": [],
        "adjustment": {"hooks": {"create_runtime": [injected], "poststop": [injected]}},
    }


def test_text_says_at_a_glance_what_is_injected_and_why(node: Matched) -> None:
    (node.folder / "hooks.d").mkdir()
    assert node() == 0
    assert "\nthere are no hooks\n\nnothing is injected\n" in node.out
    assert node(container=node.write("bare.json", {"args": []})) == 0
    bare = "command      none\nannotations  0\nbind mounts  none but those of the runtime\n"
    assert node.out.startswith(f"container    without a name, from an NRI container\n{bare}")
    node.hook("always.json", hook={"path": "/bin/true", "args": ["true", "x"]}, stages=["prestart", "poststop"])
    node.hook("nginx.json", when={"commands": ["nginx"]})
    node.write("hooks.d/bad.json", "{")
    node.hook("z.json", hook={"path": "/bin/true", "args": ["true", "\033[2J\u202e"]}, stages=["poststop"])
    assert node() == 1
    head, verdicts, injected = node.out.split("\n\n")
    assert head.splitlines() == [
        "container    c, from an NRI container",
        "command      /bin/sh",
        "annotations  1",
        "bind mounts  yes",
    ]
    assert verdicts.splitlines() == [
        "yes  always.json  prestart, poststop: always is true",
        "no   nginx.json   the command '/bin/sh' matches none of 'nginx'",
        "yes  z.json       poststop: always is true",
        f"BAD  {node.folder}/hooks.d/bad.json: line 1, column 2: unexpected end",
    ]
    assert injected.splitlines() == [
        "injected, in this order:",
        "createRuntime #0  always.json  /bin/true x",
        "poststop #0       always.json  /bin/true x",
        "poststop #1       z.json       /bin/true \\x1b[2J\\u202e",
    ]
    assert node.err == ""
    for when, painted in (("always", True), ("never", False)):
        assert node("-color", when) == 1
        assert (f"\n\033[31mBAD\033[0m  {node.folder}" in node.out) is painted


def test_where_there_is_little_room_the_verdict_stays(node: Matched, monkeypatch: pytest.MonkeyPatch) -> None:
    node.hook("a.json")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("sys.stdout", terminal := Terminal())
    assert node("-color", "never") == 0
    assert "\nyes  a.json\n    createRuntime: always is true\n" in terminal.getvalue()


def test_a_long_pattern_is_cut(node: Matched) -> None:
    for length, shown in ((98, f"'{'x' * 98}'"), (99, f"'{'x' * 99}…")):
        node.hook("a.json", when={"commands": ["x" * length]})
        assert node.json()["hooks"][0]["reason"] == f"the command '/bin/sh' matches none of {shown}"


def test_precreate_hooks_are_named_apart(node: Matched) -> None:
    config = node.write("own.yaml", "hooks: {precreate: true}")
    node.hook("a.json", hook={"path": "/bin/true", "args": ["true", "x"]}, stages=["precreate"])
    assert node("-config", config) == 0
    precreate = "run before the creation, in this order:\nprecreate  a.json  /bin/true x\n"
    assert node.out.endswith(f"\n\n{precreate}")
    node.hook("b.json", stages=["precreate", "poststop"])
    node("-config", config)
    injected = "injected, in this order:\npoststop #0  b.json  /bin/true\n"
    assert node.out.endswith(f"\n\n{injected}{precreate}precreate  b.json  /bin/true\n")


# ---- the numbers of hooks, as the OCI runtime's errors have them


def numbered(node: Matched, *words: object, container: Path | None = None) -> list[str]:
    """The lines about what is injected."""
    assert node(*words, container=container) == 0
    return node.out.rpartition("\n\n")[2].splitlines()


def test_hooks_are_numbered_behind_those_that_the_container_has(node: Matched) -> None:
    node.hook("a.json", stages=["createRuntime", "poststop"])
    node.hook("b.json", stages=["createRuntime"])
    cdi = {"path": "/cdi"}
    created = node.write("c.json", json.dumps(CONTAINER | {"hooks": {"createRuntime": [cdi], "prestart": [cdi]}}))
    assert numbered(node, container=created) == [
        "injected, in this order:",
        "createRuntime #1  a.json  /bin/true",
        "createRuntime #2  b.json  /bin/true",
        "poststop #0       a.json  /bin/true",
    ]


def test_the_hooks_of_a_container_that_has_them_have_the_numbers_of_that_container(node: Matched) -> None:
    """Others may have added hooks in between."""
    node.hook("a.json")
    node.hook("b.json", hook=TRUE | {"timeout": 5})
    node.hook("c.json", hook=TRUE | {"timeout": 5})
    node.hook("d.json", hook=TRUE | {"args": ["true", "d"]})
    config = node.write("own.yaml", "hooks: {timeout: 9}")
    a, b, d = TRUE | {"timeout": 9}, TRUE | {"timeout": 5}, TRUE | {"args": ["true", "d"], "timeout": 9}
    own: list[dict[str, Any]] = [a, b, {"path": "/cdi"}, d, {"path": "/other"}, a]
    told = crictl({})
    told["info"]["runtimeSpec"]["hooks"] = {"createRuntime": own}
    told["status"]["id"] = "1f"
    container = node.write("c.json", json.dumps(told))
    assert numbered(node, "-config", config, container=container) == [
        "injected, in this order:",
        "createRuntime #0                      a.json  /bin/true",
        "createRuntime #1                      b.json  /bin/true",
        "createRuntime (not in the container)  c.json  /bin/true",
        "createRuntime #3                      d.json  /bin/true d",
    ]
    own[:] = [one for one in own if one not in (a, b, d)]
    container = node.write("c.json", json.dumps(told))
    assert numbered(node, "-config", config, container=container) == [
        "the container lacks these hooks: it is older than they are, or was created without the adapter",
        "injected, in this order:",
        "createRuntime #2  a.json  /bin/true",
        "createRuntime #3  b.json  /bin/true",
        "createRuntime #4  c.json  /bin/true",
        "createRuntime #5  d.json  /bin/true d",
    ]


def test_a_hook_that_spares_the_namespace_of_the_pod_is_named_with_that(node: Matched) -> None:
    node.hook("a.json")
    config = node.write("own.yaml", "hooks: {files: {a.json: {notIn: [kube-system]}}}")
    for namespace, matched, reason in (
        ("kube-system", False, "the pod's namespace is 'kube-system' (notIn)"),
        ("default", True, "always is true"),
        ("", None, "the pod's namespace is not known (-pod FILE has it)"),
    ):
        pod = node.write("pod.json", json.dumps({"name": "p", "namespace": namespace}))
        [told] = node.json("-config", config, "-pod", pod)["hooks"]
        assert (told["matched"], told["reason"]) == (matched, reason)
        assert bool(told["places"]) is bool(matched)


# ---- a container of this node


CRICTL = """\
#!/bin/sh
echo "$*" >>"$0.calls"
case $1 in inspect) cat "$0.container" ;; *) cat "$0.pod" ;; esac 2>/dev/null || {
    echo 'time="now" level=fatal' >&2
    echo "$1 $4: not found" >&2
    exit 1
}
"""


def test_a_container_is_found_by_its_id_with_its_pod(node: Matched, monkeypatch: pytest.MonkeyPatch) -> None:
    node.hook("a.json", when={"annotations": {"^note$": "yes"}})
    monkeypatch.setenv("PATH", f"{node.folder}/bin:/usr/bin:/bin")
    node.write("bin/crictl", CRICTL).chmod(0o755)
    told = crictl(CONTAINERDS)
    told["info"]["sandboxID"] = "5a"
    node.write("bin/crictl.container", json.dumps(told))
    pod = {"status": {"id": "5a", "metadata": {"namespace": "default"}, "annotations": {"note": "yes"}}, "info": {}}
    node.write("bin/crictl.pod", json.dumps(pod))
    for id_ in ("1f", "containerd://1f"):
        assert node.of_id(id_) == 0
        assert "not known" not in node.out
        assert "\nyes  a.json  createRuntime: the annotation 'note': 'yes' matches" in node.out
    calls = (node.folder / "bin/crictl.calls").read_text().splitlines()
    assert calls == ["inspect -o json 1f", "inspectp -o json 5a"] * 2
    for name, error in (("pod", "crictl inspectp 5a: inspectp 5a: not found"), ("container", "crictl inspect 1f: ")):
        (node.folder / f"bin/crictl.{name}").unlink()
        assert node.of_id("1f") == 2
        assert node.err.startswith(f"v010-adapter: {error}")
    node.write("bin/crictl", "#!/bin/sh\nexit 3\n")
    assert (node.of_id("1f"), node.err) == (2, "v010-adapter: crictl inspect 1f: exit code 3\n")
    node.write("bin/crictl", CRICTL)
    node.write("bin/crictl.container", "{}")
    assert (node.of_id("1f"), node.err) == (2, "v010-adapter: crictl inspect: its output has no info.sandboxID\n")


def test_without_crictl_the_commands_are_printed(node: Matched, monkeypatch: pytest.MonkeyPatch) -> None:
    node.hook("a.json")
    monkeypatch.setenv("PATH", str(node.folder))
    assert (node.of_id("1f"), node.out) == (2, "")
    assert node.err.splitlines() == [
        "crictl is not in PATH. Where it is, these commands show the container and its pod:",
        "  crictl inspect 1f >container.json",
        "  crictl inspectp $(crictl inspect -o go-template --template '{{.info.sandboxID}}' 1f) >pod.json",
        "  v010-adapter hooks match -container container.json -pod pod.json",
    ]


ONE_OF = "match takes one of CONTAINER-ID and -container"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        *(("match", ONE_OF), ("match 1f -container x", ONE_OF), ("match 1f -pod x", "-pod is for -container")),
        *(("match 1f -name x", "-name is for -container"), ("list 1f", "list takes no CONTAINER-ID")),
        *(("list -container x", "list takes no -container"), ("list -command x", "list takes no -command")),
        *(("", "the following arguments are required: match | list"), ("other", "argument match | list: invalid")),
    ],
)
def test_arguments_that_exclude_each_other_are_refused(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["hooks", *words.split()])
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith(f"v010-adapter hooks: {said}")


# ---- what is not known


def test_a_hook_on_the_command_is_undecided_where_the_image_decides(node: Matched) -> None:
    """Each of these would be decided wrongly if the container were taken to have no command."""
    commands = {"commands": ["^/bin/server$"]}
    old = {"version": "0.1.0", "hook": "/bin/true", "stages": ["prestart"]}
    node.hook("a.json", when=commands)
    node.hook("b.json", when={"annotations": {"^no$": "."}, **commands})
    node.hook("c.json", when={"always": True, **commands})
    node.write("hooks.d/d.json", json.dumps(old | {"cmds": ["server"], "annotations": ["^x$"]}))
    node.write("hooks.d/e.json", json.dumps(old | {"cmds": ["server"], "hasbindmounts": True}))
    mounts = "volumeMounts: [{name: v, mountPath: /v}]"
    spec = f"containers: [{{name: a}}, {{name: c, args: [-v], {mounts}}}]"
    manifest = node.write("pod.yaml", f"apiVersion: v1\nkind: Pod\nspec: {{{spec}}}")
    told = node.json("-name", "c", container=manifest)
    assert [hook["matched"] for hook in told["hooks"]] == [None, False, None, None, True]
    assert told["hooks"][1]["reason"] == "no annotation matches '^no$': '.'"
    assert "the command: the image decides (-command sets it)" in told["unknown"]
    assert len(told["adjustment"]["hooks"]["create_runtime"]) == 1
    node("-name", "c", container=manifest)
    assert "command      unknown: the image decides\n" in node.out
    assert "not known    the annotations that the kubelet and the runtime add\n" in node.out
    assert "not known    the command: the image decides (-command sets it)\n" in node.out
    assert "\nunknown  a.json  the image decides on the command (-command sets it)\nno       b.json" in node.out
    told = node.json("-name", "c", "-command", "/bin/server", container=manifest)
    assert [hook["matched"] for hook in told["hooks"]] == [True, False, True, True, True]


CONTAINERDS = {"io.kubernetes.cri.container-name": "web", "io.kubernetes.cri.sandbox-id": "1"}
CRIOS = {"io.kubernetes.container.name": "web", "io.kubernetes.cri-o.SandboxID": "1", "note": "yes"}
POD = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"annotations": {"known": "yes"}},
    "spec": {"containers": [{"name": "c", "command": ["/c"]}]},
}
HINT = "io.kubernetes.container.name is a key of CRI-O; containerd has io.kubernetes.cri.container-name"


def test_a_container_that_is_not_there_yet_lacks_no_hook(node: Matched) -> None:
    node.hook("a.json")
    for container in (bundle({}), {"id": "1f", "args": ["/c"]}):
        assert node(container=node.write("c.json", json.dumps(container))) == 0
        assert "\ncreateRuntime #0  a.json" in node.out
        assert "lacks these hooks" not in node.out


def crictl(annotations: dict[str, str]) -> dict[str, Any]:
    spec = {"process": {"args": ["/c"]}, "annotations": annotations}
    return {"status": {"metadata": {"name": "c"}}, "info": {"runtimeSpec": spec}}


def bundle(annotations: dict[str, str]) -> dict[str, Any]:
    return {"ociVersion": "1.2.0", "process": {"args": ["/c"]}, "annotations": annotations}


OTHERS = {"annotations": {"x": ""}}
TYPE = "io.kubernetes.cri.container-type"
INSPECTP = {"status": {"id": "1"}, "info": {"runtimeSpec": bundle({TYPE: "sandbox"})}}
# The container, its pod, the condition; whether the container gets the hook, the exit code and the hint.
# fmt: off
ANNOTATIONS = {
    "crictl does not show the pod": (crictl(CONTAINERDS), None, {"note": "yes"}, None, 3, ""),
    "the pod is given, and has it": (crictl(CONTAINERDS), {"annotations": {"a": "1"}}, {"a": "1"}, True, 0,
        "containerd does not tell the hook the pod's annotation a: list it in containerd's pod_annotations, or set"
        " hooks.podAnnotations"),
    "the pod is given, and lacks it": (crictl(CONTAINERDS), OTHERS, {"note": "yes"}, False, 0, ""),
    "a runtime key is the container's": (crictl({TYPE: "container"}), INSPECTP, {"type$": "sandbox"}, False, 0, ""),
    "a manifest as the pod lacks the runtime's": (crictl(CONTAINERDS), POD, {"type$": "sandbox"}, None, 3, ""),
    "a manifest as the pod has its own": (crictl(CONTAINERDS), POD, {"^known$": "no"}, False, 0, ""),
    "CRI-O copies the pod's": (crictl(CRIOS), None, {"^n$": ""}, False, 0, ""),
    "what is known suffices": (crictl(CONTAINERDS), None, {"container-name": "web"}, True, 0, ""),
    "a bundle of containerd": (bundle(CONTAINERDS), None, {"note": "yes"}, None, 3, ""),
    "a bundle of podman": (bundle({"a": "b"}), None, {"note": "yes"}, False, 0, ""),
    "an NRI container of a pod": ({"name": "c", "args": ["/c"], "podSandboxId": "1"}, None, {"note": ""}, None, 3, ""),
    "an event without a pod": ({"container": {"name": "c", "podSandboxId": "1"}}, None, {"note": ""}, None, 3, ""),
    "a manifest has what its author asks for": (POD, None, {"^kn": "no"}, False, 0, ""),
    "a manifest lacks what is added": (POD, None, {"^io[.]kubernetes[.]cri[.]sandbox": "x"}, None, 3,
        "io.kubernetes.cri.sandbox-name is a key of containerd; CRI-O has io.kubernetes.pod.name"),
    "CRI-O's key on containerd": (crictl(CONTAINERDS), OTHERS, {"container[.]name": "w"}, False, 0, HINT),
    "CRI-O's key on CRI-O": (crictl(CRIOS), None, {"container[.]name": "^no$"}, False, 0, ""),
}
# fmt: on


@pytest.mark.parametrize(("container", "pod", "when", "matched", "code", "hint"), ANNOTATIONS.values(), ids=ANNOTATIONS)
def test_annotations_that_are_not_known_leave_a_hook_undecided(
    node: Matched, container: object, pod: object, when: object, matched: bool | None, code: int, hint: str
) -> None:
    node.hook("x.json", when={"annotations": when})
    file = node.write("c.yaml" if container is POD else "c.json", json.dumps(container))
    words: list[object] = ["-pod", node.write("pod.json", json.dumps(pod))] if pod else []
    [told] = node.json(*words, container=file)["hooks"]
    assert (told["matched"], node.code, told.get("hint", "")) == (matched, code, hint)
    node(*words, container=file)
    assert {True: "\nyes ", False: "\nno ", None: "\nunknown "}[matched] in node.out
    assert hint in node.out


@pytest.mark.parametrize(
    ("token", "matched", "code"), [({}, None, 3), ({"automountServiceAccountToken": False}, False, 0)]
)
def test_a_hook_on_bind_mounts_is_undecided_where_kubernetes_may_add_the_volume_of_a_token(
    node: Matched, token: dict[str, object], matched: bool | None, code: int
) -> None:
    node.hook("x.json", when={"hasBindMounts": True})
    file = node.write("c.yaml", json.dumps({**POD, "spec": {**POD["spec"], **token}}))  # type: ignore[dict-item]
    [told] = node.json(container=file)["hooks"]
    assert (told["matched"], node.code) == (matched, code)
    assert (told["reason"] == "Kubernetes may add the volume of the service account's token") is (matched is None)


UNSEEN = "containerd does not tell the hook the pod's annotation note: list it in containerd's pod_annotations, or set"


def test_a_hook_is_named_that_will_not_see_the_annotation_for_which_it_runs(node: Matched) -> None:
    node.hook("x.json", when={"annotations": {"^note$": "."}})
    pod = node.write("pod.json", json.dumps({"annotations": {"note": "yes", "other": "no"}}))
    for container, is_seen in ((CONTAINERDS, False), ({**CONTAINERDS, "note": ""}, True), (CRIOS, True)):
        words: list[object] = ["-pod", pod]
        [told] = node.json(*words, container=node.write("c.json", json.dumps(crictl(container))))["hooks"]
        assert (told["matched"], node.code) == (True, 0)
        assert told.get("hint") == (None if is_seen else f"{UNSEEN} hooks.podAnnotations")
        config = node.write("own.yaml", "hooks: {podAnnotations: true}")
        told = node.json(*words, "-config", config, container=node.write("c.json", json.dumps(crictl(container))))
        assert "hint" not in told["hooks"][0]
        assert told["adjustment"].get("annotations") == (None if is_seen else {"note": "yes"})
        node(*words, "-config", config, container=node.write("c.json", json.dumps(crictl(container))))
        assert ("\nannotation  note: yes\n" in node.out) is not is_seen


# ---- what the command is given


def test_directories_trust_and_the_root_of_programs_are_those_of_the_configuration(node: Matched) -> None:
    node.hook("x.json", directory="own", hook={"path": "/opt/only/on/the/node"})
    node.write("host/opt/only/on/the/node", "#!/bin/sh\n").chmod(0o755)
    text = f"hooks: {{directories: [{node.folder}/none, {node.folder}/own]}}\nhostRoot: {node.folder}/host\n"
    config = node.write("own.yaml", text)
    assert [hook["name"] for hook in node.json("-config", config, directories=())["hooks"]] == ["x.json"]
    assert node(directories=("own",)) == 1
    assert "/opt/only/on/the/node" in node.out
    node.hook("everybodys.json", directory="own", hook={"path": "/opt/only/on/the/node"}).chmod(0o666)
    for trust, used in (("strict", ["x.json"]), ("off", ["everybodys.json", "x.json"])):
        config = node.write("own.yaml", f"{text}trust: {trust}\n")
        assert [hook["name"] for hook in node.json("-config", config, directories=())["hooks"]] == used


USELESS = {
    ("-config", "none.yaml"): "none.yaml: No such file or directory",
    ("-config", "bad.yaml"): "bad.yaml:1: legacy.paht: unknown key; did you mean `path`?",
    ("-pod", "none.json"): "none.json: No such file or directory",
    ("-directory", "none"): "none: No such file or directory",
    ("-directory", "container.json"): "container.json: Not a directory",
    ("-name", "x"): "container.json:1: no container is called 'x'; there are: c",
}


def test_what_cannot_be_used_is_named_and_ends_with_2(node: Matched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(node.folder)
    node.hook("x.json")
    node.write("bad.yaml", "legacy: {paht: [/x]}\nlog: 5\n")
    for words, message in USELESS.items():
        assert node(*words, container=Path("container.json")) == 2
        assert node.err.startswith(f"v010-adapter: {message}")
        assert (node.err.count("\n"), node.out) == (1, "")
    node.container.write_text('{"name": "c",\n"args": [}')
    assert (node(), node.err) == (2, f"v010-adapter: {node.container}:2: unexpected '}}'\n")
