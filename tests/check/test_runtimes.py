"""What runtimes' own configuration says: is NRI on, who may join, what if the adapter is missing; what to expect."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from nri.address import address
from tests.rig.sockets import listening
from tests.rig.waiting import limit
from v010_adapter.cli.check import runtimes
from v010_adapter.cli.check.nri import main_file
from v010_adapter.cli.systems import NAMES

from .conftest import HOOK, REQUIRED, REQUIRED_OF_CRIO, Checked

REAL = Path(__file__).parent / "configurations"
"""Default configurations that the runtimes print themselves, CRI-O's without its comments."""
TABLE = "[plugins.'io.containerd.nri.v1.nri']\n"
HINT = "; to switch it on: disable = false under [plugins.'io.containerd.nri.v1.nri']"
ON = "ok config.toml: containerd: NRI is on"
OFF = f"PROBLEM config.toml: containerd: NRI is off{HINT}"
DISABLED = "PROBLEM config.toml: containerd: disabled_plugins in config.toml switches NRI off"
UNKNOWN = f"note config.toml: containerd: NRI is on since containerd 2.0, off in 1.7{HINT}"
CRIO_ON = "ok crio.conf: CRI-O: NRI is on"
CRIO_HINT = "to switch it on: enable_nri = true under [crio.nri] in crio.conf.d/99-nri.conf"
CRIO_OFF = f"PROBLEM crio.conf: CRI-O: NRI is off; {CRIO_HINT}"


def told(node: Checked, file: str) -> list[str]:
    """What is said of a runtime's configuration."""
    node.write("containerd" if file == "config.toml" else "CRI-O", "")
    return [line for line in node.part("runtime") if f" {file}:" in line]


# ---- whether NRI is on


def test_containerds_switch_decides_else_its_version(node: Checked) -> None:
    for text, said in (
        ("", UNKNOWN),
        ("version = 2", UNKNOWN),
        ("version = 3", ON),
        (TABLE, UNKNOWN),
        (f"{TABLE}disable = false", ON),
        (f"version = 3\n{TABLE}disable = true", OFF),
        (f"disabled_plugins = ['cri', 'io.containerd.nri.v1.nri']\n{TABLE}disable = false", DISABLED),
        (f"disabled_plugins = ['cri']\n{TABLE}disable = false", ON),
    ):
        node.write("config.toml", text)
        assert told(node, "config.toml") == [said], text
        assert node.code == said.startswith("PROBLEM")
    (node.folder / "config.toml").unlink()
    assert told(node, "config.toml") == [UNKNOWN.replace("NRI is", "there is no such file; NRI is", 1)]


def test_what_containerd_imports_overrides_and_adds_disabled_plugins(node: Checked) -> None:
    """As containerd 2.4.2 merges files: measured with its own LoadConfig."""
    for pattern in (f"{node.folder}/more/*.toml", "more/*.toml", "./more/.a.toml"):
        imports = f"imports = ['{pattern}', 'missing.toml', 'more/b.toml', 'more/c.toml']\n"
        node.write("config.toml", f"{imports}{TABLE}disable = true")
        node.write("more/.a.toml", f"{imports}{TABLE}disable = false")  # which imports itself
        assert told(node, "config.toml") == [ON]
    node.write("more/b.toml", f"{TABLE}disable = true")
    assert told(node, "config.toml") == [DISABLED.replace("disabled_plugins in config", "disable in more/b")]
    node.write("more/b.toml", "disabled_plugins = ['io.containerd.nri.v1.nri']")
    node.write("more/c.toml", "disabled_plugins = []")
    assert told(node, "config.toml") == [DISABLED.replace("in config", "in more/b")]


def test_crios_drop_ins_override_in_the_order_of_their_paths(node: Checked) -> None:
    assert told(node, "crio.conf") == [f"note crio.conf: CRI-O: NRI is on since CRI-O 1.30, off before; {CRIO_HINT}"]
    node.write("crio.conf", "[crio.nri]\nenable_nri = false")
    assert told(node, "crio.conf") == [CRIO_OFF]
    node.write("crio.conf.d/50/on", "[crio.nri]\nenable_nri = true")
    assert told(node, "crio.conf") == [CRIO_ON]
    node.write("crio.conf.d/60-off", "[crio.nri]\nenable_nri = false")
    node.write("crio.conf.d/.70", "")
    off = "PROBLEM crio.conf: CRI-O: enable_nri in crio.conf.d/60-off switches NRI off"
    assert told(node, "crio.conf") == [off]


JOINING = {
    "config.toml": ("containerd", f"{TABLE}disable = false", "disable_connections", "plugin_path"),
    "crio.conf": ("CRI-O", "[crio.nri]\nenable_nri = true", "nri_disable_connections", "nri_plugin_dir"),
}


def test_who_cannot_join_and_where_plugins_are_is_said(node: Checked) -> None:
    for file, (runtime, table, connections, plugins) in JOINING.items():
        node.write(file, f"{table}\n{connections} = false\n{plugins} = '{node.folder}/plugins'")
        assert told(node, file) == [f"ok {file}: {runtime}: NRI is on"]
        link = node.folder / "plugins/00-v010-adapter"
        link.symlink_to(node.program("v010-adapter"))
        node.write(file, f"{table}\n{plugins} = '/elsewhere'")
        elsewhere = f"{file}: {runtime}: it launches the plugins in /elsewhere, not in plugins"
        assert f"{elsewhere}, where the adapter is" in node.problems()
        link.unlink()
        node.write(file, f"{table}\n{connections} = true\n{plugins} = '/elsewhere'")
        assert told(node, file)[1:] == [
            f"note {file}: {runtime}: {connections} is set: only a launched adapter can join, and it cannot join again",
            f"note {file}: {runtime}: it launches the plugins in /elsewhere, not in plugins",
        ]


# ---- the runtimes' own defaults


CRI = "plugins.'io.containerd.grpc.v1.cri'.nri"
# A default configuration, what is inserted before which line, the key, and where it belongs.
MISPLACED = [
    ("containerd-2.4.2.toml", "", "[timeouts]", "plugin_request_timeout", "timeouts", TABLE.strip()),
    ("containerd-1.7.35.toml", f"[{CRI}]\n", "[proxy_plugins]", "plugin_registration_timeout", CRI, TABLE.strip()),
    ("cri-o-1.36.3.conf", "", "[crio.runtime]", "nri_plugin_request_timeout", "crio.runtime", "[crio.nri]"),
    ("cri-o-1.36.3.conf", "", "[crio.nri]", "plugin_request_timeout", "crio.nri", "[crio.nri]"),
]


def test_the_runtimes_own_defaults_are_understood_and_timeouts_in_the_wrong_place_named(node: Checked) -> None:
    for default, table, before, key, place, right in MISPLACED:
        runtime, file = ("CRI-O", "crio.conf") if "crio" in place else ("containerd", "config.toml")
        text = (REAL / default).read_text()
        line = f"{key} = '9s'\n"
        node.write(file, text.replace("/opt/nri/plugins", f"{node.folder}/plugins"))
        assert told(node, file) == [OFF if "1.7" in default else CRIO_ON if "cri-o" in default else ON]
        assert f"\n{before}\n" in text
        node.write(file, text.replace(f"{before}\n", f"{table}{line}{before}\n" if table else f"{before}\n{line}"))
        known = f"nri_{key.removeprefix('nri_')}" if runtime == "CRI-O" else key
        said = f"PROBLEM {file}: {runtime}: it ignores {place}.{key}; it reads {known} in {right}"
        assert said in told(node, file)
        assert node.code == 1


# ---- whether containers are created while the adapter is missing


CREATED = "note config.toml: containerd: containers are also created while the adapter is missing: default_validator."
NOT_LISTED = f"{CREATED}required_plugins does not list it"
NOT_ENABLED = f"{CREATED}enable is not true"
REQUIRES = "ok config.toml: containerd >= 2.2 creates no container while the adapter is missing"
CRIO_CREATED = "note crio.conf: CRI-O: containers are also created while the adapter is missing: default_validator."
CRIO_NOT_LISTED = f"{CRIO_CREATED}nri_validator_required_plugins does not list it"


@pytest.fixture
def needed(node: Checked) -> Checked:
    """A node with a hook, so that the adapter matters."""
    node.write("one/a.json", HOOK)
    node.settings["hooks"]["enabled"] = True
    return node


def test_both_settings_of_the_validator_decide(needed: Checked) -> None:
    for old, new, expected in (
        ("", "", REQUIRES),
        (REQUIRED, "", NOT_LISTED),
        ("v010-adapter", "v010", NOT_LISTED),
        ("v010-adapter", "00-v010-adapter", REQUIRES),
        ("v010-adapter", "10-v010-adapter", NOT_LISTED),
        ("true", "false", NOT_ENABLED),
        ("enable = true", "", NOT_ENABLED),
        ("io.containerd.nri.v1.nri", "io.containerd.grpc.v1.cri", NOT_LISTED),
        ("required_plugins", "required_plugins = 3\n#", NOT_LISTED),
        ("required_plugins", "required_plugins = 'v010-adapter'\n#", NOT_LISTED),
        ("required_plugins", "required_plugins = [[], {}]\n#", NOT_LISTED),
    ):
        needed.write("config.toml", REQUIRED.replace(old, new))
        assert told(needed, "config.toml")[1:] == [expected], (old, new)
        assert needed.code == 0
    (needed.folder / "one/a.json").rename(needed.folder / "a.json")
    assert told(needed, "config.toml")[1:] == [], "without plugins and hooks it does not matter"
    (needed.folder / "a.json").rename(needed.folder / "one/a.json")
    needed.write("config.toml", f"imports = ['on.toml']\n{REQUIRED.replace('true', 'false')}")
    needed.write("on.toml", REQUIRED)
    assert told(needed, "config.toml")[1:] == [REQUIRES], "a later file overrides each key"
    for text, said in (
        (REQUIRED_OF_CRIO, "ok crio.conf: CRI-O >= 1.36 creates no container while the adapter is missing"),
        (REQUIRED_OF_CRIO.replace("true", "false"), f"{CRIO_CREATED}nri_enable_default_validator is not true"),
        (REQUIRED_OF_CRIO.replace("v010", "x"), CRIO_NOT_LISTED),
        (REQUIRED, CRIO_NOT_LISTED),
    ):
        needed.write("crio.conf", text)
        assert said in told(needed, "crio.conf")


def test_the_required_names_are_those_of_the_links(needed: Checked) -> None:
    (needed.folder / "plugins/10-bridge").symlink_to(needed.program("v010-adapter"))
    for name, expected in (("v010-adapter", NOT_LISTED), ("bridge", REQUIRES), ("10-bridge", REQUIRES)):
        needed.write("config.toml", REQUIRED.replace("v010-adapter", name))
        assert told(needed, "config.toml")[1:] == [expected]


def test_a_file_that_cannot_be_understood_or_read_is_named(needed: Checked) -> None:
    needed.write("config.toml", "imports = ['more.toml']\n" + REQUIRED)
    wrong = ["plugins = 3", f"{TABLE}default_validator = 3", f"{TABLE}default_validator = 'abc'", "imports = [3]"]
    for text, reason in (
        (b"imports = [", ": Invalid value (at end of document)"),
        (b"a = " + b"[" * 5000, ": nested too deeply"),
        (b"\xff", ":1: not a text: the byte 0xff is not UTF-8"),
        *((text.encode(), ": a value has the wrong type") for text in wrong),
    ):
        needed.write("more.toml", text)
        assert needed.problems() == [f"more.toml{reason}: containerd may not start"]
    for place in ("more.toml", "config.toml"):
        (needed.folder / place).unlink()
        os.mkfifo(needed.folder / place)
        assert needed.problems() == [f"{place}: not a regular file: containerd may not start"]
    (needed.folder / "config.toml").unlink()
    for text in (b"crio = 3", b"[crio]\nnri = 3", b"crio = ["):
        needed.write("crio.conf", text)
        [problem] = needed.problems()
        assert problem.startswith("crio.conf: ")
        assert problem.endswith("CRI-O may not start")


# ---- what is to be expected of the runtimes


def caveats(node: Checked) -> list[str]:
    """What is said of runtimes, but whether NRI is on, and what versions leak."""
    notes = [line.removeprefix("note ") for line in node.part("runtime")[1:] if line.startswith("note ")]
    return [note for note in notes if "NRI is" not in note and runtimes.LEAK not in note]


def with_plugins(node: Checked, **plugins: dict[str, str]) -> None:
    node.program("a")
    node.write("conf.json", {"plugins": [{"type": "a"}]})
    node.settings["legacy"]["plugins"] = plugins


CRIO_STARTS = "CRI-O: a failed create fails a pod, but a container starts all the same, with a warning in its log"


def test_where_a_failure_is_only_a_warning_that_is_said(node: Checked) -> None:
    assert caveats(node) == []
    with_plugins(node)
    assert caveats(node) == [CRIO_STARTS]
    node.settings["legacy"]["onFailure"] = "ignore"
    assert caveats(node) == []
    with_plugins(node, a={"onFailure": "fail"})
    assert caveats(node) == [CRIO_STARTS]


def test_of_the_runtimes_that_are_there_or_else_of_those_that_are_configured_is_told(node: Checked) -> None:
    with_plugins(node)
    for socket_of, told in (("containerd", []), ("CRI-O", [CRIO_STARTS])):
        node.write(socket_of, "")
        assert caveats(node) == told
    for name in ("containerd", "CRI-O", "crio.conf"):
        (node.folder / name).unlink()
    assert caveats(node) == []
    (node.folder / "config.toml").unlink()
    none = "no runtime is here, and no configuration of one: none of containerd, CRI-O"
    assert (node.problems(), node.code) == ([none], 1)
    node.listen("nri.sock")  # a pod may see this alone
    assert caveats(node) == [none]
    assert node.code == 0


def test_a_validator_that_rejects_hooks_is_a_problem_where_hooks_are(node: Checked) -> None:
    (node.folder / "crio.conf").unlink()
    node.write("config.toml", f"{REQUIRED}reject_oci_hook_adjustment = true\n")
    with_plugins(node)
    assert node.problems() == []
    node.write("one/x.json", HOOK)
    text = "containerd: default_validator.reject_oci_hook_adjustment fails every container that gets a hook"
    assert node.problems() == [f"config.toml: {text}"]


SANDBOXES = {
    "auto": "so the adapter leaves pods to it",
    "always": "so with legacy.sandboxes: always they are run twice",
    "never": "",
}


@pytest.mark.parametrize(("sandboxes", "so"), SANDBOXES.items())
def test_who_runs_plugins_for_pods_is_said(
    node: Checked, sandboxes: str, so: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_plugins(node)
    node.settings["legacy"] |= {"sandboxes": sandboxes, "onFailure": "ignore"}
    assert caveats(node) == []  # this conf.json is not the one that containerd reads
    shared = (node.folder / "conf.json").rename(node.folder / "shared.json")
    node.settings["legacy"]["config"] = str(shared)
    runs = f"from 2.0 on it runs the plugins there for pods itself, {so}"
    of_containerd = node.write("containerd", "")
    unread = "if its executable contains shared.json (here it cannot be read: Connection refused)"
    assert caveats(node) == [f"containerd: {unread}, {runs}", f"containerd: {runtimes.DEPRECATED}"][: 2 * bool(so)]
    with listening(of_containerd):
        none = "its executable does not contain shared.json: it runs no plugins for pods, the adapter does"
        assert caveats(node) == [f"containerd: {none}", f"containerd: {runtimes.DEPRECATED}"][: 2 * bool(so)]
        monkeypatch.setattr(runtimes, "names_conf_json", lambda pid: pid == os.getpid())
        contained = f"its executable contains shared.json: {runs}"
        assert caveats(node) == [f"containerd: {contained}", f"containerd: {runtimes.DEPRECATED}"][: 2 * bool(so)]


def test_a_program_that_containerd_runs_in_place_of_the_adapters_is_named(
    node: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """containerd searches PATH first, as the original client did (client.go: New, invokePlugin)."""
    whole = node.program("b")
    plugins = [{"type": "a"}, {"type": str(whole)}, {"type": "c"}, {"type": "a"}]
    node.settings["legacy"]["config"] = str(node.write("shared.json", {"plugins": plugins}))
    node.listen("containerd")
    for name in ("a", "../system/a", "../system/b"):
        node.program(name)
    monkeypatch.setattr(runtimes, "SYSTEM_PATH", str(node.folder / "system"))
    monkeypatch.setattr(runtimes, "names_conf_json", lambda _: True)
    named = "containerd: for pods it runs system/a as a, not bin/a: write the whole path into shared.json"
    assert [line for line in caveats(node) if "not bin/" in line] == [named]
    node.settings["legacy"]["sandboxes"] = "never"
    assert named not in caveats(node)
    node.settings["legacy"]["sandboxes"] = "auto"
    monkeypatch.setattr(runtimes, "names_conf_json", lambda _: False)
    assert named not in caveats(node)


@pytest.mark.parametrize(
    ("version", "leaks"),
    [
        *(("v1.7.35", False), ("2.0.14", True), ("v2.1.9-k3s1", True), ("v2.2.5", True), ("v2.2.6", False)),
        *(("2.3.2", True), ("2.3.4", False), ("2.4.2+unknown", False), ("", True)),
    ],
)
def test_a_containerd_that_does_not_start_after_refused_pods_is_named_by_its_version(
    node: Checked, monkeypatch: pytest.MonkeyPatch, version: str, leaks: bool
) -> None:
    with_plugins(node)
    told = f"containerd github.com/containerd/containerd/v2 {version} 0123abc" if version else "no containerd"
    monkeypatch.setattr(runtimes, "EXECUTABLE", str(node.program("containerd", f"#!/bin/sh\necho '{told}'\n")))
    node.listen("containerd")
    said = f"note containerd: {version and f'it is {version}: '}{runtimes.LEAK}"
    assert node.part("runtime").count(said) == leaks
    node.settings["legacy"]["onFailure"] = "ignore"
    assert not any(runtimes.LEAK in line for line in node.part("runtime"))


def test_it_is_noted_that_a_runtime_in_another_pid_namespace_has_its_containers_not_held(
    node: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_plugins(node)
    node.listen("containerd")
    said = f"note containerd: {runtimes.NOT_HELD}"
    assert said not in node.part("runtime")
    monkeypatch.setattr("v010_adapter.cli.check.runtimes.guard.peer", lambda _: 0)
    assert node.part("runtime").count(said) == 1
    node.settings["legacy"]["holdAfter"] = "never"
    assert said not in node.part("runtime")


def test_a_socket_whose_process_has_ended_serves_nothing(node: Checked) -> None:
    node.listen("nri.sock")
    assert "ok nri.sock: a runtime serves NRI here" in node.part("runtime")
    node.sockets.close()
    assert "note nri.sock: no process listens: no runtime serves NRI here" in node.part("runtime")


def test_a_runtime_that_hangs_is_not_waited_for(node: Checked) -> None:
    """It takes no connections, and no more can wait for it."""
    with_plugins(node)
    node.listen("containerd")
    with ExitStack() as queue, address(str(node.folder / "containerd")) as short:
        with suppress(BlockingIOError):
            while True:
                client = queue.enter_context(socket.socket(socket.AF_UNIX))
                client.setblocking(False)
                client.connect(short)
        with limit("check waits for the runtime"):
            assert f"note containerd: {runtimes.LEAK}" in node.part("runtime")


def test_settings_and_events_without_effect_and_docker_are_noted(node: Checked) -> None:
    node.settings["runtime"]["failRequest"] = True
    assert caveats(node) == [runtimes.FAIL_REQUEST]
    node.settings["runtime"]["failRequest"] = False
    node.settings["legacy"]["plugins"] = {"a": {"events": ["CreateContainer", "UpdatePodSandbox"]}}
    said = "it tells the adapter no UpdatePodSandbox: the plugin a needs a newer one for its events"
    assert caveats(node) == [f"containerd: before 2.3 {said}", f"CRI-O: up to 1.36 {said}"]
    node.settings["legacy"]["plugins"] = {}
    node.write("Docker", "")
    assert f"note {runtimes.DOCKER}" in node()


def test_without_a_file_the_usual_one_is_named(tmp_path: Path) -> None:
    flatcar = NAMES["flatcar"]
    assert main_file(flatcar, str(tmp_path)) == "/etc/containerd/config.toml"
    (tmp_path / "usr/share/containerd").mkdir(parents=True)
    (tmp_path / "usr/share/containerd/config.toml").touch()
    assert main_file(flatcar, str(tmp_path)) == "/usr/share/containerd/config.toml"
