"""`v010-adapter hooks list`: the hooks in force, what they wait for, and how many containers got them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.rig.command import Command
from v010_adapter.errors import ConfigError
from v010_adapter.host.trust import Trust
from v010_adapter.monitoring import status

FILES: dict[str, dict[str, Any]] = {
    "b.json": {"when": {"always": True}, "stages": ["prestart", "poststop"]},
    "A.json": {"when": {"annotations": {"^k$": "v"}, "commands": ["sh$", "^/x"]}, "stages": []},
    "c.json": {"when": {"hasBindMounts": True, "always": False}, "stages": ["poststart"]},
    "d.json": {"when": {}, "stages": ["poststart"]},
}
OLD = {"hook": "/bin/true", "stages": ["prestart"], "cmds": ["sh"], "hasbindmounts": True}


class List(Command):
    """Hook files, the adapters that run, or why they cannot be asked, and what the command said."""

    fault = ""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        super().__init__(folder, capsys)
        self.adapters: list[dict[str, Any]] = []
        for name, keys in FILES.items():
            hook = {"path": "/bin/true", **({"timeout": 3} if name == "b.json" else {})}
            self.write(name, {"version": "1.0.0", "hook": hook, **keys})
        self.write("e.json", OLD)

    def __call__(self, *words: str, settings: str = "") -> list[str]:
        state = f"state: {{directory: {self.folder}/no}}\n"
        config = self.write("own.yaml", f"hooks: {{directories: [{self.folder}]{settings}}}\n{state}")
        self.run("hooks", "list", "-config", config, *words)
        return self.out.splitlines()


@pytest.fixture
def listed(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> List:
    made = List(tmp_path, capsys)

    def ask(directory: str, _: Trust) -> Iterator[dict[str, Any]]:
        if made.fault:
            raise ConfigError(directory, made.fault)
        return iter(made.adapters)

    monkeypatch.setattr(status, "ask", ask)
    return made


def test_hooks_are_listed_in_their_order_with_the_containers_of_all_adapters(listed: List) -> None:
    listed.adapters = [{"hooks": {f"{listed.folder}/b.json": 3, f"{listed.folder}/A.json": 0}}, {"faults": ["x"]}]
    listed.adapters.append({"hooks": {f"{listed.folder}/b.json": 4}})
    lines = listed(settings=", timeout: 20, notIn: [kube-system, a], files: {b.json: {notIn: []}}")
    assert lines == [
        "FILE    CONTAINERS  LIMIT  STAGES              WAITS FOR",
        "A.json  0           20 s   no stage            an annotation that matches '^k$': 'v' and a command that"
        " matches 'sh$' or '^/x'; not in a, kube-system",
        "b.json  7           3 s    prestart, poststop  every container",
        "c.json  -           20 s   poststart           always is false and bind mounts; not in a, kube-system",
        "d.json  -           20 s   poststart           no condition is given, so it never matches; not in a,"
        " kube-system",
        "e.json  -           20 s   prestart            bind mounts or a command that matches 'sh'; not in a,"
        " kube-system",
    ]
    assert (listed.code, listed.err) == (0, "")


def test_json_has_exactly_this_shape_and_a_bad_file_is_in_both_outputs(listed: List) -> None:
    listed.adapters = [{"hooks": {f"{listed.folder}/b.json": 3}}]
    for name in ("A.json", "c.json", "d.json", "e.json"):
        (listed.folder / name).unlink()
    (listed.folder / "bad.json").write_text("{")
    listed("-o", "json", settings=", notIn: [x]")
    hook = {"file": f"{listed.folder}/b.json", "name": "b.json", "containers": 3, "timeout": 3, "path": "/bin/true"}
    hook |= {"stages": ["prestart", "poststop"], "waitsFor": "every container", "notIn": ["x"]}
    bad = {"file": f"{listed.folder}/bad.json", "error": "line 1, column 2: unexpected end"}
    assert (json.loads(listed.out), listed.code) == ({"hooks": [hook], "errors": [bad]}, 1)
    assert f"BAD  {bad['file']}: {bad['error']}" in listed()


def test_without_an_adapter_the_number_of_containers_is_not_known(listed: List) -> None:
    lines = listed()
    assert lines[2].startswith("b.json  -           3 s    prestart, poststop")
    assert lines[1].startswith("A.json  -           none   no stage")
    no = f"no adapter runs with the state directory {listed.folder}/no"
    assert lines[-2:] == ["", f"the number of containers is not known: {no}"]
    listed.fault = "others can write to it"
    assert listed()[-1] == f"the number of containers is not known: {listed.folder}/no: others can write to it"
    assert listed.code == 0


def test_hooks_that_are_switched_off_or_missing_are_named(listed: List) -> None:
    assert listed(settings=", enabled: false")[0] == "hooks are switched off (hooks.enabled)"
    for file in listed.folder.glob("*.json"):
        file.unlink()
    assert listed()[0] == "there are no hooks"
