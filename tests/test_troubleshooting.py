"""The page of symptoms shows what the commands print: each fault is planted, and each line of the page is found."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from nri.errors import NRIError
from nri.testing import Node

from .rig.waiting import limit, running
from .test_docs import DOCS, blocks

COMMAND = Path(sys.executable).with_name("v010-adapter")
RESULT = '#!/bin/sh\ncat >/dev/null\necho "{}"\n'
HOOK = {
    "version": "1.0.0",
    "hook": {"path": "/bin/true"},
    "when": {"annotations": {r"^example\.com/trace$": "^yes$"}},
    "stages": ["createRuntime"],
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "annotations": {"example.com/traced": "yes"}},
    "spec": {"containers": [{"name": "nginx", "image": "nginx", "command": ["/usr/sbin/nginx"]}]},
}
LEFT = (
    "  note     plugins for pods are left to the runtime: containerd v2.4.2 runs them itself; "
    "1 pod gets its delete from the runtime"
)
"""The line of the page that needs a list in this machine's /etc/nri/conf.json."""


class Planted:
    """A node with faults below a directory, and what commands and adapters print there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.printed = ""
        self.adapters: list[subprocess.Popen[bytes]] = []
        self.stack = ExitStack()

    def write(self, path: str, content: Any, mode: int = 0o644) -> str:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        file.chmod(mode)
        return str(file)

    def listed(self, name: str, *types: str, **legacy: Any) -> str:
        """Writes a list of plugins and a configuration for it; returns the configuration's path."""
        own = self.write(f"etc/nri/{name}.json", {"version": "0.1", "plugins": [{"type": type_} for type_ in types]})
        settings = {"legacy": {"config": own, "path": [f"{self.root}/opt/nri/bin"], **legacy}}
        state = {"directory": f"{self.root}/run", "owner": "one"}
        hooks = {"directories": [f"{self.root}/hooks.d"]}
        return self.write(f"etc/nri/{name}.yaml", yaml.dump(settings | {"state": state, "hooks": hooks}))

    def run(self, *words: str) -> str:
        line = [str(COMMAND), *words]
        done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self.printed += done.stdout
        return done.stdout

    def start(self, node: Node, configuration: str) -> None:
        line = [str(COMMAND), "-idx", "00", "-socket", str(node.socket), "-config", configuration]
        with (self.root / "log").open("ab") as log:
            self.adapters.append(self.stack.enter_context(running(line, stderr=log)))

    def status(self, configuration: str, until: Callable[[str], bool] = bool) -> None:
        with limit(lambda: self.printed):
            while not until(self.run("status", "-config", configuration)):
                pass

    def lines(self) -> list[str]:
        """All that was printed and logged, with the paths of a node."""
        text = self.printed + (self.root / "log").read_text()
        return [" ".join(line.split()) for line in text.replace(str(self.root), "").splitlines()]


@pytest.fixture
def planted(tmp_path: Path) -> Any:
    made = Planted(tmp_path)
    with made.stack:
        yield made


def without_an_adapter(planted: Planted) -> None:
    planted.write("etc/containerd/config.toml", 'version = 2\n[plugins."io.containerd.nri.v1.nri"]\n  disable = true\n')
    planted.write("run/containerd/containerd.sock", "")
    planted.write("opt/nri/plugins/backup", "", 0o755)
    planted.write("etc/nri/conf.json", '{"version": "0.1", "plugins": [{"type": "konfine"},]}')
    planted.run("check", "-root", str(planted.root))
    planted.write("hooks.d/trace.json", HOOK)
    planted.run("hooks", "match", "-container", planted.write("pod.yaml", POD), "-directory", f"{planted.root}/hooks.d")
    planted.listed("rehearsed", "konfine")
    planted.run("simulate", "-conf", f"{planted.root}/etc/nri/rehearsed.json")


def with_adapters(planted: Planted) -> None:
    planted.write("opt/nri/bin/clearcfs", RESULT, 0o755)
    planted.write("opt/nri/bin/slow", "#!/bin/sh\nexec sleep 20\n", 0o755)
    for types, timeout in ((("clearcfs", "konfine"), 2), (("slow",), 1)):
        with Node() as node:
            played = planted.listed(types[0], *types, sandboxes="always")
            planted.start(node, played)
            node.accept()
            for event in ("RunPodSandbox", "StartContainer"):
                node.event(event, timeout=timeout)
            planted.status(played)
            planted.adapters[-1].kill()
            planted.adapters[-1].wait()
            subprocess.run(["rm", "-r", planted.root / "run"], check=True)
    with Node() as node:
        serving, waiting = planted.listed("serving", "clearcfs"), planted.listed("waiting", "missing")
        planted.start(node, serving)
        node.accept()
        node.event("RunPodSandbox")
        planted.start(node, waiting)
        planted.status(serving, lambda shown: "FAULT" in shown and "note" in shown)
        node.lose()
        with suppress(NRIError):
            node.accept()


def pattern(line: str) -> str:
    """The lines of which one of the page's is the pattern: numbers, times and what the page leaves out may differ."""
    escaped = re.escape(" ".join(line.split())).replace("…", ".*")
    escaped = re.sub(r"\d{4}\\-\d\d\\-\d\dT\S+Z", r"\\S+", escaped)
    return f".*{re.sub('<?[0-9]+', '<?[0-9.]+', escaped)}.*"


@pytest.mark.deadline
def test_each_line_that_the_page_shows_is_printed_where_its_fault_is(planted: Planted) -> None:
    without_an_adapter(planted)
    with_adapters(planted)
    found = planted.lines()
    page = [line for block in blocks(DOCS / "troubleshooting.md", "text") for line in block.splitlines()]
    page.remove(LEFT)
    assert len(page) > 15
    assert [line for line in page if not any(re.fullmatch(pattern(line), one) for one in found)] == []
