"""The guides on a real runtime: their commands run one by one, and pods keep their plugins and hooks.

What a guide leaves to other pages is done before: the adapter is installed at /opt/v010-adapter.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from tests.e2e import build, hooks
from tests.e2e.checks import Json
from tests.e2e.guarded import KINDS, Calls, Pods, Times, has_run, unequal
from tests.e2e.pod import STATE, command, until
from tests.e2e.runtimes import PATH, Containerd, Runtime
from tests.peers.build import peer
from tests.peers.hook_cases import PACKAGE as PODMANS_HOOKS
from tests.rig.layouts import K3S
from v010_adapter.cli.install import example

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
GUIDES = {
    "installing": DOCS / "install.md",
    "on-k3s": DOCS / "install.md",
    "without-list": DOCS / "install.md",
    "from-adapter": DOCS / "migration/v010-adapter.md",
    "from-injector": DOCS / "migration/hook-injector.md",
    "from-1.6": DOCS / "migration/containerd-1.6.md",
    "from-cri-o": DOCS / "migration/podman-and-cri-o.md",
}
"""The setups of this module, and the pages that they follow."""
INSTALLED = Path("/opt/v010-adapter")
COMMAND = Path("/usr/local/bin/v010-adapter")
K3S_SOCKET = "/run/k3s/containerd/containerd.sock"
PLUGINS = Path("/opt/nri/plugins")
CONFIG = Path("/etc/containerd/config.toml")
CONF = Path("/etc/nri/conf.json")
NRI = "[plugins.'io.containerd.nri.v1.nri']"  # the last section of the configurations that runs use
ELSEWHERE = "kubectl", "-container pod.yaml", "-m venv", "/pip install"
"""What is in commands that need a cluster, or a package index."""
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TOML = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Guided:
    def __init__(self, runtime: Runtime, has: Callable[[str], bool], calls: Calls) -> None:
        shutil.rmtree("/var/lib/nri-v010-adapter", ignore_errors=True)  # no adapter has been on this node
        self.runtime = runtime
        self.calls = calls
        self.pods = Pods(runtime.cri())
        self._has = has
        install(INSTALLED)
        COMMAND.symlink_to(INSTALLED / "bin/v010-adapter")
        if isinstance(runtime, Containerd):
            CONFIG.parent.mkdir(exist_ok=True)
            runtime.config = CONFIG

    def follow(self, guide: str, *sections: str) -> None:
        """Runs the commands of some sections of a guide. Raises HarnessError for one that fails."""
        for step in steps(GUIDES[guide].read_text(), *sections):
            logged = re.fullmatch(r"journalctl -t v010-adapter \| grep '(.*)'", step)
            if step in ("systemctl restart containerd", "systemctl restart crio"):
                self.runtime.stop()
                self.runtime.start()
            elif logged:
                if "hooks for container" in step:  # of one that starts now
                    self.pods.start("after")
                until(partial(self._has, logged[1]), step)
            else:
                command("env", "-i", f"PATH={PATH}", "sh", "-ec", step)

    def end(self) -> None:
        for name in list(self.pods.running):
            self.pods.end(name)

    def judge(self, kinds: Sequence[str] = ("container",), right: Mapping[str, Times] = {}) -> Iterator[str]:
        """Ends all pods; yields what legacy plugins have not had as they should."""
        self.end()
        containers = {container for _, container in self.pods.ids.values()}
        until(lambda: has_run(self.calls, "delete", containers), "the deletes of all containers")
        yield from unequal(self.calls, self.pods, kinds, right)


def install(folder: Path) -> None:
    """Makes what pip makes of the command."""
    program = folder / "bin/v010-adapter"
    program.parent.mkdir(parents=True)
    program.write_text(Path(sys.executable).with_name("v010-adapter").read_text())
    program.chmod(0o755)
    python = program.with_name("python3")
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')  # a link would lose the environment
    python.chmod(0o755)


def section_of(page: str, title: str) -> str:
    return page[page.index(f"\n## {title}\n") + 1 :].split("\n## ", maxsplit=1)[0]


def steps(page: str, *sections: str) -> Iterator[str]:
    """Yields the commands of some sections of a page that are for root on a node."""
    for section in sections:
        for line in "".join(CONSOLE.findall(section_of(page, section))).splitlines():
            if not any(text in line for text in ELSEWHERE):
                yield line.removeprefix("# ").partition("  #")[0].strip()


def _installing(node: Guided) -> Iterator[str]:
    """The adapter comes, is exchanged for a newer one, and goes, while a pod runs."""
    node.runtime.start()
    node.pods.start("before")
    node.follow("installing", "Let the runtime launch it", "Verify it")
    node.pods.start("after")
    install(Path("/opt/v010-adapter-new"))
    node.follow("installing", "Upgrade")
    if PLUGINS.joinpath("00-v010-adapter").readlink().parts[:3] != ("/", "opt", "v010-adapter-new"):
        yield "the link is not exchanged"
    node.pods.start("upgraded")
    yield from node.judge(right={"before": [(0, 1)]})  # counts as created
    ran_before = len(node.calls()["witness"])
    node.follow("installing", "Uninstall")
    node.pods.start("without")
    node.end()
    if any(not call.by_runtime for call in node.calls()["witness"][ran_before:]):
        yield "the adapter runs plugins after it was uninstalled"
    left = [*PLUGINS.glob("*"), *Path("/etc/nri").glob("v010-adapter*"), *Path("/run").glob("nri-*")]
    yield from (f"left behind by the way back: {path}" for path in left)


def _without_list(node: Guided) -> Iterator[str]:
    """On a node without a list of plugins, the adapter runs those of its own list, also for pods."""
    text, own = CONF.read_text(), Path(example.LIST)
    CONF.unlink()
    node.runtime.start()
    node.follow("without-list", "Let the runtime launch it", "Verify it")
    own.write_text(text)
    node.pods.start("whole")
    install(Path("/opt/v010-adapter-new"))
    node.follow("without-list", "Upgrade")
    node.pods.start("upgraded")
    yield from node.judge(KINDS)
    if any(call.by_runtime for call in node.calls()["witness"]):
        yield "containerd has run plugins in a list that it should not know"
    node.follow("without-list", "Uninstall")
    left = [*PLUGINS.glob("*"), *Path("/etc/nri").glob("v010-adapter*")]
    yield from (f"left behind by the way back: {path}" for path in left if path != own)
    if own.read_text() != text:
        yield "uninstall has changed a list with plugins"


def _on_k3s(node: Guided) -> Iterator[str]:
    """The same on a node that is laid out as K3s's, whose configuration switches NRI off."""
    upper, work = STATE / "layers/var/upper", STATE / "layers/var/work"
    for folder in (upper, work):
        folder.mkdir(parents=True)
    command("mount", "-t", "overlay", "e2e", "-o", f"lowerdir=/var/lib,upperdir={upper},workdir={work}", "/var/lib")
    for folder in (Path(K3S), Path(K3S_SOCKET).parent):
        folder.mkdir(parents=True)
    (STATE / "cri.sock").symlink_to(K3S_SOCKET)
    text = (Path(__file__).parent / node.runtime.template).read_text()
    text = text.replace("'$state/cri.sock'", f"'{K3S_SOCKET}'").replace("  disable = false\n", "  disable = true\n")
    file = STATE / "k3s.toml"
    file.write_text(text.replace("imports = []", f'imports = ["{K3S}/config-v3.toml.d/*.toml"]'))
    node.runtime.template, node.runtime.config = str(file), Path(K3S) / "config.toml"
    yield from _installing(node)
    if list(Path(K3S).rglob("*nri*")):
        yield "uninstall leaves the drop-in behind"
    with socket.socket(socket.AF_UNIX) as adapter:  # the file is left
        if adapter.connect_ex("/run/nri/nri.sock") == 0:
            yield "NRI is on after uninstall"


def _from_adapter(node: Guided) -> Iterator[str]:
    """Upstream's adapter, launched by the runtime, is exchanged while a pod runs."""
    configuration: Json = {"config": "/etc/nri/conf.json", "path": f"/opt/nri/bin:{PATH}"}
    settings = _link("00-v010-adapter", peer("reference"), configuration)
    node.runtime.start()
    text = settings.read_text()
    settings.unlink()  # before our adapter takes it for its own
    node.pods.start("before")
    node.follow("from-adapter", "If it is a link in the plugin directory")
    node.pods.start("after")
    node.pods.end("before")
    settings.write_text(text)
    node.follow("from-adapter", "Roll back")
    node.pods.start("back")
    yield from node.judge()


def _from_injector(node: Guided) -> Iterator[str]:
    """Upstream's injector, launched by the runtime, is exchanged while a pod runs."""
    hooks.prepare()
    hooks.record()
    _link("10-hook-injector", peer("hookplugin", PODMANS_HOOKS), {"directories": [str(hooks.HOOKS)]})
    node.runtime.start()
    node.pods.start("before")
    node.follow("from-injector", "Exchange it", "Roll back")
    node.pods.start("back")
    yield from _hooks_of(node)


def _hooks_of(node: Guided) -> Iterator[str]:
    """Ends all pods; yields the containers whose hook has not run once at each stage."""
    node.end()
    yield from hooks.differences(container for _, container in node.pods.ids.values())


def _link(name: str, plugin: Path, settings: Json) -> Path:
    """Puts one of our plugins, made of what upstream's is made of, in its place; returns the file with its settings."""
    file = Path(f"/etc/nri/conf.d/{name}.conf")
    for folder in (PLUGINS, file.parent):
        folder.mkdir(parents=True)
    (PLUGINS / name).symlink_to(plugin)
    file.write_text(json.dumps(settings))
    return file


def _from_1_6(node: Guided) -> Iterator[str]:
    """containerd 1.6, which runs the plugins itself, is exchanged while a pod runs, and comes back."""
    new, old = node.runtime, Containerd(build.containerd("1.6.20"))
    old.config, old.binaries = CONFIG, build.debian("containerd")
    _configure(old, "1", "")
    of_1, of_2 = TOML.findall(GUIDES["from-1.6"].read_text())[:2]
    _configure(new, *(("1", of_1) if "-1." in new.name else ("2", of_2)))
    node.runtime = old
    node.runtime.start()
    node.pods.start("before")
    node.follow("from-1.6", "Before the upgrade")
    old.stop()
    node.runtime = new
    node.runtime.start()
    node.follow("from-1.6", "The upgrade", "Verify it")
    node.pods.start("after")
    yield from node.judge()
    if new.serves_sandboxes_itself(CONF):  # containerd 2.x: with a list of its own, the adapter serves pods, too
        node.follow("from-1.6", "Pods on containerd 2.x")
        node.pods.start("whole")
        yield from node.judge()
        for call in node.calls()["witness"]:
            if call.by_runtime and call.request["sandboxID"] == node.pods.ids["whole"][0]:
                yield "containerd has run plugins in a list that it should not know"
        Path("/etc/nri/v010-adapter.json").rename(CONF)
    node.follow("from-1.6", "Roll back")
    new.stop()
    node.runtime = old
    node.runtime.start()
    node.pods.start("back")
    yield from node.judge()
    old.stop()
    new.start()


def _configure(runtime: Runtime, major: str, section: str) -> None:
    """Gives a runtime the configuration of all runs, with a guide's section about NRI in the place of its own."""
    text = (Path(__file__).parent / f"containerd-{major}.x.toml").read_text()
    file = STATE / f"{runtime.name}.toml"
    file.write_text(text[: text.index(NRI)] + section[section.index("[") :] if section else text[: text.index(NRI)])
    runtime.template = str(file)


def _from_cri_o(node: Guided) -> Iterator[str]:
    """CRI-O's hooks become the adapter's, while a pod runs."""
    hooks.prepare()
    hooks.record()
    template = Path(__file__).parent / node.runtime.template
    file = STATE / "cri-o.conf"
    file.write_text(template.read_text().replace("$state/hooks", str(hooks.HOOKS)))
    node.runtime.template, node.runtime.drop_ins = str(file), "/etc/crio/crio.conf.d"
    PLUGINS.mkdir(parents=True)
    (PLUGINS / "00-v010-adapter").symlink_to(INSTALLED / "bin/v010-adapter")
    node.runtime.start()
    node.pods.start("before")
    section = section_of(GUIDES["from-cri-o"].read_text(), "On a node with CRI-O")
    for language, path in (("toml", "/etc/crio/crio.conf.d/10-hooks.conf"), ("yaml", "/etc/nri/v010-adapter.yaml")):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(section.partition(f"```{language}\n")[2].partition("```")[0])
    node.follow("from-cri-o", "On a node with CRI-O", "Back to CRI-O's own hooks")
    node.pods.start("back")
    yield from _hooks_of(node)


PLAYS = {
    "installing": _installing,
    "on-k3s": _on_k3s,
    "without-list": _without_list,
    "from-adapter": _from_adapter,
    "from-injector": _from_injector,
    "from-1.6": _from_1_6,
    "from-cri-o": _from_cri_o,
}
