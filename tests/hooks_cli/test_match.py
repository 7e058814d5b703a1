"""`v010-adapter hooks match`: what it says about hooks and containers, as text and as JSON, and its exit codes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format

from adapter.cli import command_line as cli
from adapter.hooks import inject
from adapter.hooks.directory import Directories
from adapter.hooks.facts import Facts
from adapter.proto import nri_pb2 as api

CONTAINER = {"name": "c", "annotations": {"a": "1"}, "args": ["/bin/sh", "-c", "x"],
    "mounts": [{"destination": "/srv", "type": "bind", "source": "/srv", "options": ["rbind"]}]}  # fmt: skip
TRUE = {"path": "/bin/true"}


class Node:
    """Hooks directories, a container, and what the command said of them."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.container = folder / "container.json"
        self.container.write_text(json.dumps(CONTAINER))
        self._capsys = capsys

    def hook(self, name: str, *, directory: str = "hooks.d", text: str | None = None, **keys: object) -> Path:
        file = self.folder / directory / name
        file.parent.mkdir(exist_ok=True)
        hook = {"version": "1.0.0", "hook": TRUE, "when": {"always": True}, "stages": ["createRuntime"], **keys}
        file.write_text(json.dumps(hook) if text is None else text)
        return file

    def __call__(self, *words: object, directories: Sequence[str] = ("hooks.d",), container: Path | None = None) -> int:
        self.code = cli.main(
            ["hooks", "match", "-container", str(container or self.container)]
            + [word for name in directories for word in ("-directory", str(self.folder / name))]
            + [str(word) for word in words]
        )
        self.out, self.err = self._capsys.readouterr()
        return self.code

    def json(self, *words: object, **keys: Any) -> Any:
        self("-o", "json", *words, **keys)
        return json.loads(self.out)


@pytest.fixture
def node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Node:
    return Node(tmp_path, capsys)


def test_json_has_exactly_this_shape(node: Node) -> None:
    hook = {"path": "/bin/true", "args": ["true", "x"], "env": ["A=b"], "timeout": 3}
    good = node.hook("good.json", hook=hook, stages=["createRuntime", "poststop"])
    other = node.hook("other.json", when={"commands": ["nginx"]})
    bad = node.hook("bad.json", text='{"version": "1.0.0",\n "stages": ["never"]}')
    injected = {"path": "/bin/true", "args": ["true", "x"], "env": ["A=b"], "timeout": {"value": 3}}
    told = node.json()
    reasons = [one.pop("reason") for one in told["hooks"] + told["errors"] if "reason" in one]
    assert len(reasons) == 2
    assert all(reasons)
    assert told["errors"][0].pop("error")
    assert told == {
        "hooks": [
            {"file": str(good), "name": "good.json", "matched": True, "stages": ["createRuntime", "poststop"]},
            {"file": str(other), "name": "other.json", "matched": False, "stages": ["createRuntime"]},
        ],
        "errors": [{"file": str(bad)}],
        "unknown": [],
        "adjustment": {"hooks": {"create_runtime": [injected], "poststop": [injected]}},
    }


def test_the_adjustment_in_json_is_the_one_that_would_be_made(node: Node) -> None:
    stages = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
    for number, stage in enumerate(stages):
        node.hook(f"{9 - number}.json", stages=[stage], hook={"path": "/bin/true", "timeout": 10**9})
    node.hook("y.json", hook={"path": "/bin/true", "timeout": 1})
    node.hook("z.json", stages=list(stages), hook={"path": "/bin/true", "args": ["t", "é"], "env": ["A=b"]})
    hooks = Directories([str(node.folder / "hooks.d")]).current().match(Facts({}, None, False))
    assert len(hooks) == 8
    told = json_format.ParseDict(node.json()["adjustment"], api.ContainerAdjustment())
    assert told == inject.adjustment(hooks)


def test_nothing_to_inject_is_an_empty_adjustment(node: Node) -> None:
    node.hook("no.json", when={"always": False})
    assert (node.json()["adjustment"], node.code) == ({"hooks": {}}, 0)


def test_hooks_stand_in_the_order_of_their_injection_and_a_later_directory_masks_an_earlier_one(node: Node) -> None:
    for name in ("b.json", "A.json", "c.json"):
        node.hook(name)
    file = node.hook("b.json", directory="two", stages=["poststart"])
    told = node.json(directories=("hooks.d", "two"))
    assert [hook["name"] for hook in told["hooks"]] == ["A.json", "b.json", "c.json"]
    assert told["hooks"][1]["file"] == str(file)
    assert [*told["adjustment"]["hooks"]] == ["create_runtime", "poststart"]


def test_text_says_at_a_glance_what_is_injected_and_why(node: Node) -> None:
    node.hook("always.json", hook={"path": "/bin/true", "args": ["true", "x"]}, stages=["prestart", "poststop"])
    node.hook("nginx.json", when={"commands": ["nginx"]})
    node.hook("bad.json", text="{")
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
        f"BAD  {node.folder}/hooks.d/bad.json: line 1, column 2: unexpected end",
    ]
    assert injected.splitlines() == [
        "injected, in this order:",
        "createRuntime    /bin/true x",
        "poststop         /bin/true x",
    ]
    assert node.err == ""


def test_text_says_when_nothing_is_there(node: Node) -> None:
    (node.folder / "hooks.d").mkdir()
    assert node() == 0
    assert "\nno hooks are there\n\nnothing is injected\n" in node.out


def test_text_has_nothing_that_a_terminal_would_obey(node: Node) -> None:
    node.hook("x.json", hook={"path": "/bin/true", "args": ["true", "\033[2J\u202e"]})
    node.container.write_text(json.dumps(CONTAINER | {"args": ["\033]0;x\007"], "name": "\033c"}))
    node()
    assert not any(character != "\n" and not character.isprintable() for character in node.out)


def test_a_hook_on_the_command_is_undecided_where_the_image_decides(node: Node) -> None:
    """Each of these would be decided wrongly if the container were taken to have no command."""
    commands = {"commands": ["^/bin/server$"]}
    old = {"version": "0.1.0", "hook": "/bin/true", "stages": ["prestart"]}
    node.hook("a.json", when=commands)
    node.hook("b.json", when={"annotations": {"^no$": "."}, **commands})
    node.hook("c.json", when={"always": True, **commands})
    node.hook("d.json", text=json.dumps(old | {"cmds": ["server"], "annotations": ["^x$"]}))
    node.hook("e.json", text=json.dumps(old | {"cmds": ["server"], "hasbindmounts": True}))
    manifest = node.folder / "pod.yaml"
    mounts = "volumeMounts: [{name: v, mountPath: /v}]"
    manifest.write_text(f"apiVersion: v1\nkind: Pod\nspec: {{containers: [{{name: c, args: [-v], {mounts}}}]}}")
    told = node.json(container=manifest)
    assert [hook["matched"] for hook in told["hooks"]] == [None, False, None, None, True]
    assert told["hooks"][1]["reason"] == "no annotation matches '^no$': '.'"
    assert "the command: the image decides (-command gives it)" in told["unknown"]
    assert len(told["adjustment"]["hooks"]["create_runtime"]) == 1
    node(container=manifest)
    assert "command      unknown: the image decides\n" in node.out
    assert "not known    the annotations that the kubelet and the runtime add\n" in node.out
    assert "not known    the command: the image decides (-command gives it)\n" in node.out
    assert "\nunknown  a.json  the image decides on the command (-command gives it)\nno       b.json" in node.out
    told = node.json("-command", "/bin/server", container=manifest)
    assert [hook["matched"] for hook in told["hooks"]] == [True, False, True, True, True]


def test_name_and_pod_are_passed_on(node: Node) -> None:
    node.hook("x.json", when={"annotations": {"^p$": "^1$"}})
    manifest, pod = node.folder / "pod.yaml", node.folder / "pod.json"
    manifest.write_text("{apiVersion: v1, kind: Pod, spec: {containers: [{name: a}, {name: b, command: [/b]}]}}")
    pod.write_text('{"annotations": {"p": "1"}}')
    assert node("--name", "b", "--pod", pod, container=manifest) == 2  # JSON begins with a brace: this is none
    manifest.write_text("apiVersion: v1\nkind: Pod\nspec: {containers: [{name: a}, {name: b, command: [/b]}]}")
    assert node("--name", "b", "--pod", pod, container=manifest) == 0
    assert "yes  x.json" in node.out
    assert "command      /b\n" in node.out


def test_flags_may_have_one_dash_or_two(node: Node, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node.hook("x.json")
    config = tmp_path / "own.yaml"
    config.write_text("{}")
    given = {"container": node.container, "directory": tmp_path / "hooks.d", "name": "c", "config": config}
    for dash in ("-", "--"):
        words = [word for key, value in given.items() for word in (dash + key, str(value))]
        assert cli.main(["hooks", "match", *words]) == 0
        assert "yes  x.json" in capsys.readouterr().out


def test_without_directories_those_of_the_configuration_count(node: Node) -> None:
    node.hook("x.json", directory="own")
    config = node.folder / "own.yaml"
    config.write_text(f"hooks: {{directories: [{node.folder}/none, {node.folder}/own]}}\n")
    assert [hook["name"] for hook in node.json("-config", config, directories=())["hooks"]] == ["x.json"]


def test_programs_are_looked_for_where_the_node_is(node: Node) -> None:
    node.hook("x.json", hook={"path": "/opt/only/on/the/node"})
    program = node.folder / "host/opt/only/on/the/node"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    config = node.folder / "own.yaml"
    config.write_text(f"hostRoot: {node.folder}/host\n")
    assert node("-config", config) == 0
    assert node() == 1
    assert "/opt/only/on/the/node" in node.out


USELESS = {
    ("-config", "none.yaml"): "none.yaml: No such file or directory",
    ("-config", "bad.yaml"): "bad.yaml:1: legacy.paht: unknown key; did you mean `path`?",
    ("-pod", "none.json"): "none.json: No such file or directory",
    ("-directory", "none"): "none: No such file or directory",
    ("-directory", "container.json"): "container.json: Not a directory",
    ("-name", "x"): "container.json:1: no container is called 'x'; there are: c",
}


def test_what_cannot_be_used_is_named_and_ends_with_2(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(node.folder)
    node.hook("x.json")
    Path("bad.yaml").write_text("legacy: {paht: [/x]}")
    for words, message in USELESS.items():
        assert node(*words, container=Path("container.json")) == 2
        assert node.err.startswith(f"v010-adapter: {message}")
        assert (node.err.count("\n"), node.out) == (1, "")
    node.container.write_text('{"name": "c",\n"args": [}')
    assert (node(), node.err) == (2, f"v010-adapter: {node.container}:2: unexpected '}}'\n")


@pytest.mark.parametrize("words", [[], ["match"], ["mitch"], ["match", "-container"], ["match", "-o", "xml"]])
def test_wrong_usage_ends_with_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["hooks", *words])
    assert ended.value.code == 2
    assert "usage: v010-adapter hooks" in capsys.readouterr().err


def test_it_tells_that_it_reads_many_files(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.hook("x.json")
    told: list[str] = []
    monkeypatch.setattr("adapter.cli.hooks_match.announce_if_slow", lambda doing: told.append(doing) or nullcontext())  # type: ignore[func-returns-value]
    assert node() == 0
    assert told == ["reading the hook files"]
