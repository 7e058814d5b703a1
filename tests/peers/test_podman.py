"""podman, whose hooks.d is the original: what it writes into a container's config.json is what we would inject."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from adapter import container_files
from adapter.hooks import inject, precreate
from adapter.hooks.directory import Directories
from adapter.hooks.facts import facts
from adapter.hooks.match import NamedHook
from adapter.nri import api
from adapter.oci.spec import apply, spec_from
from adapter.programs.runner import Runner
from tests.debian import missing
from tests.e2e.build import BuildError, install_packages
from tests.processes import SteppedLoop

PACKAGES = {"podman": "podman", "conmon": "conmon", "runc": "runc", "busybox": "busybox-static"}
SAMPLES = Path(__file__).resolve().parents[2] / "hooks.d"
EDITOR = Path(__file__).resolve().parents[1] / "e2e" / "adjuster.py"
CGROUP = f"/hooks-test-{os.getpid()}"
UNSHARE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
STAGES = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart")
"""What stands in a config.json; poststop is podman's own affair."""


class Podman:
    """Debian's podman with a store of its own, and a root file system of nothing but busybox."""

    def __init__(self, folder: Path, busybox: Path) -> None:
        self.folder = folder
        self.rootfs = folder / "rootfs"
        (self.rootfs / "bin").mkdir(parents=True)
        shutil.copy(busybox, self.rootfs / "bin/busybox")
        for name in ("sh", "sleep", "true"):
            (self.rootfs / "bin" / name).symlink_to("busybox")
        (folder / "containers.conf").write_text('[engine]\nlock_type = "file"\n')

    def config(self, name: str, directories: Sequence[Path], options: Sequence[str], command: Sequence[str]) -> Path:
        """The config.json of a container that is initialised, as far as the machine permits that."""
        podman = ["podman", "--root", f"{self.folder}/store", "--runroot", f"{self.folder}/run"]
        podman += ["--tmpdir", f"{self.folder}/state", "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs"]
        podman += ["--events-backend", "file", "--runtime", "runc"]
        podman += [word for directory in directories for word in ("--hooks-dir", str(directory))]
        create = [*podman, "create", "--name", name, "--network", "host", "--cgroup-parent", CGROUP, *options]
        create += ["--rootfs", str(self.rootfs), *command]
        id_ = self._run(f"{shlex.join(create)} && {{ {shlex.join(podman)} init {name} >/dev/null || :; }}").strip()
        return self.folder / f"store/vfs-containers/{id_}/userdata/config.json"

    def _run(self, script: str) -> str:
        """Runs it in namespaces of its own: whatever podman leaves running or mounted ends with them."""
        environment = os.environ | {"CONTAINERS_CONF": f"{self.folder}/containers.conf"}
        command = [*UNSHARE, "sh", "-c", script]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def podman() -> Iterator[Podman]:
    if os.geteuid() != 0:
        missing("podman writes a config.json for root only")
    if subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode != 0:
        missing("podman needs namespaces, which are not permitted here")
    try:
        install_packages(PACKAGES)
    except BuildError as error:
        missing(f"podman cannot be had: {error}")
    busybox = shutil.which("busybox")
    assert busybox
    with tempfile.TemporaryDirectory(prefix="podman-") as folder:  # short: podman allows its runroot 50 characters
        yield Podman(Path(folder), Path(busybox))
    for left in sorted(Path("/sys/fs/cgroup").glob(f"**{CGROUP}/**"), reverse=True):
        with suppress(OSError):
            left.rmdir()


class Case(NamedTuple):
    """A container, and the samples that it is to get."""

    name: str
    hooks: set[str]
    command: Sequence[str]
    options: Sequence[str] = ()


TRACE, RECORD = "hooks.example.com/trace", "hooks.example.com/record"
CASES = (
    Case("shell", {"always-inject"}, ["/bin/sh", "-c", "exit"]),
    Case("mount", {"always-inject", "by-command"}, ["/bin/sh"], ["-v", "/usr:/srv:ro"]),
    Case("nginx", {"always-inject", "old-style"}, ["/usr/sbin/nginx"], ["--annotation", f"{RECORD}=no"]),
    Case("web", {"always-inject", "old-style"}, ["/bin/sleep", "1"], ["--annotation", "any=web"]),
    Case("traced", {"always-inject", "by-annotation"}, ["/bin/true"], ["--annotation", f"{TRACE}=yes"]),
    Case("recorded", {"always-inject", "record"}, ["/bin/true"], ["--annotation", f"{RECORD}=true"]),
)


@pytest.fixture(scope="module")
def samples(podman: Podman) -> Path:
    """The samples, whose hook `record` is where they say."""
    directory = podman.folder / "hooks.d"
    directory.mkdir()
    for file in SAMPLES.glob("*.json"):
        text = file.read_text().replace("/usr/local/libexec/oci", str(SAMPLES))
        (directory / file.name).write_text(text.replace("/var/log", str(podman.folder)))
    return directory


def ours(config: Path, directories: Sequence[Path]) -> list[NamedHook]:
    """The hooks that we would inject into the container of a config.json."""
    described = container_files.read(str(config))
    hooks = Directories([str(directory) for directory in directories], watch=False)
    matcher = hooks.current()
    assert hooks.problems == []
    return matcher.match(facts(described.pod, described.container))


def as_oci(named: NamedHook) -> dict[str, Any]:
    hook = named.hook
    given = {"path": hook.path, "args": list(hook.args), "env": list(hook.env), "timeout": hook.timeout}
    return {key: value for key, value in given.items() if value not in ([], None)}


def podmans(config: Path) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(config.read_text()).get("hooks") or {}
    assert not found.keys() - set(STAGES), "a stage that nothing here looks at"
    return found


def compare(config: Path, directories: Sequence[Path]) -> list[NamedHook]:
    """Asserts that podman and we are of one mind about all stages and their order; returns the hooks."""
    theirs, hooks = podmans(config), ours(config, directories)
    # podman 4.3 writes prestart as such; later ones deliver it as createRuntime, as we do.
    spelt = {} if "prestart" in theirs else {"prestart": "createRuntime"}
    expected: dict[str, list[dict[str, Any]]] = {}
    for named in hooks:
        for stage in named.hook.stages:
            expected.setdefault(spelt.get(stage, stage), []).append(as_oci(named))
    expected.pop("poststop", None)
    assert dict(theirs) == expected
    adjustment = inject.adjustment(hooks)
    count = len(adjustment.hooks.create_runtime) if adjustment else 0
    assert count == len(theirs.get("prestart", []) + theirs.get("createRuntime", []))
    return hooks


def test_podman_injects_the_samples_that_we_inject(podman: Podman, samples: Path, subtests: pytest.Subtests) -> None:
    for case in CASES:
        with subtests.test(case.name):
            config = podman.config(case.name, [samples], case.options, case.command)
            assert {named.file.removesuffix(".json") for named in compare(config, [samples])} == case.hooks


def hook_file(file: Path, path: str | Path, *args: str, stages: Sequence[str] = ("precreate",)) -> None:
    hook = {"path": str(path)} | ({"args": args} if args else {})
    text = {"version": "1.0.0", "hook": hook, "when": {"always": True}, "stages": stages}
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(text))


def test_a_precreate_hook_edits_here_what_it_edits_there(podman: Podman, loop: SteppedLoop) -> None:
    """podman gives the hook a config, which is kept; given the same container by NRI, we ask for the same edit."""
    directory, told = podman.folder / "precreate.d", podman.folder / "told.json"
    program = podman.folder / "edit"
    program.write_text(f"#!/bin/sh\n/usr/bin/tee {told} | exec {sys.executable} -IS {EDITOR} edit\n")
    program.chmod(0o755)
    hook_file(directory / "edit.json", program)
    config = podman.config("edited", [directory], [], ["/bin/true"])
    theirs, original = json.loads(config.read_text()), json.loads(told.read_text())
    given = podman.folder / "given.json"
    given.write_text(json.dumps(original))
    described = container_files.read(str(given))
    editors = Directories([str(directory)], watch=False, precreate=True).current()
    hooks = editors.match(facts(described.pod, described.container))
    request = api.CreateContainerRequest(pod=described.pod, container=described.container)
    heard: list[Any] = []
    edits = precreate.Edits(Runner(loop), hooks, request, api.CreateContainerResponse(), precreate.PrecreatePolicy())
    edits.go()
    edits.answer_by(loop.now + 60)
    edits.answer.then(lambda response, error: heard.append(error or response))
    loop.until(lambda: bool(heard), "the hook does not end")
    [response] = heard
    ours = apply(spec_from(described.pod, described.container), response.adjust)
    assert "HOOK=precreate" in theirs["process"]["env"]
    assert sorted(ours["process"]["env"]) == sorted(theirs["process"]["env"])
    assert ours["annotations"] == theirs["annotations"]
    assert {mount["destination"]: mount for mount in ours["mounts"]} == {
        mount["destination"]: mount for mount in theirs["mounts"]
    }
    assert [device["path"] for device in ours["linux"]["devices"]] == [
        device["path"] for device in theirs["linux"]["devices"]
    ]


def test_a_precreate_hook_that_fails_fails_the_container_there_too(podman: Podman) -> None:
    """Though it has printed a valid config."""
    directory, program = podman.folder / "failing.d", podman.folder / "fail"
    program.write_text("#!/bin/sh\n/bin/cat\nexit 1\n")
    program.chmod(0o755)
    hook_file(directory / "fail.json", program)
    assert not podman.config("failing", [directory], [], ["/bin/true"]).exists()
