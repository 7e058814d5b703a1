"""podman, whose hooks.d is the original: what it writes into a container's config.json is what we would inject."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from nri import api
from nri.runtimes import Runtime
from tests.e2e.build import install_packages
from tests.peers.build import PeerMissing
from tests.rig.debian import find, missing
from tests.rig.interpreter import PYTHON
from tests.rig.loop import SteppedLoop
from tests.rig.programs import Programs
from v010_adapter import container_files
from v010_adapter.container_files import Described
from v010_adapter.events import precreate
from v010_adapter.hooks.directory import Directories
from v010_adapter.hooks.facts import facts
from v010_adapter.hooks.match import NamedHook, adjustment
from v010_adapter.monitoring.trace import UNTRACED
from v010_adapter.oci.spec import apply, spec_from
from v010_adapter.programs.process import Runner
from v010_adapter.settings import HooksSettings

PACKAGES = {"podman": "podman", "conmon": "conmon", "runc": "runc"}
SAMPLES = Path(__file__).resolve().parents[2] / "hooks.d"
EDITOR = Path(__file__).resolve().parents[1] / "e2e" / "adjuster.py"
CGROUP = f"/hooks-test-{os.getpid()}"
LONGEST = 50
UNSHARE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


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

    def config(self, name: str, directory: Path, options: Sequence[str], command: Sequence[str]) -> Path:
        """The config.json of a container that is initialised, as far as the machine permits that."""
        podman = ["podman", "--root", f"{self.folder}/store", "--runroot", f"{self.folder}/run"]
        podman += ["--tmpdir", f"{self.folder}/state", "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs"]
        podman += ["--events-backend", "file", "--runtime", "runc", "--runtime-flag", f"root={self.folder}/runc"]
        podman += ["--hooks-dir", str(directory)]
        create = [*podman, "create", "--name", name, "--network", "host", "--cgroup-parent", CGROUP, *options]
        create += ["--http-proxy=false", "--rootfs", str(self.rootfs), *command]
        init = [*podman, "init", name]
        # In namespaces of its own: whatever podman leaves running or mounted ends with them.
        script = [*UNSHARE, "sh", "-c", f"{shlex.join(create)} && {{ {shlex.join(init)} >/dev/null || :; }}"]
        environment = os.environ | {"CONTAINERS_CONF": f"{self.folder}/containers.conf"}
        done = subprocess.run(script, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        return self.folder / f"store/vfs-containers/{done.stdout.strip()}/userdata/config.json"


@pytest.fixture(scope="module")
def podman() -> Iterator[Podman]:
    if os.geteuid() != 0:
        missing("podman writes a config.json for root only")
    if subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode != 0:
        missing("podman needs namespaces, which are not permitted here")
    try:
        install_packages(PACKAGES)
    except PeerMissing as error:
        missing(f"podman cannot be had: {error}")
    if isinstance(busybox := find("busybox", "busybox-static"), str):
        missing(busybox)
    with tempfile.TemporaryDirectory(prefix="podman-") as folder:
        if len(f"{folder}/run") > LONGEST:
            missing(f"podman allows its runroot {LONGEST} characters, which {folder}/run exceeds: TMPDIR is long")
        yield Podman(Path(folder), busybox)
    for left in sorted(Path("/sys/fs/cgroup").glob(f"**{CGROUP}/**"), reverse=True):
        with suppress(OSError):
            left.rmdir()


def ours(config: Path, directory: Path, precreate: bool = False) -> tuple[Described, list[NamedHook]]:
    """The container of a config.json, and the hooks that we would inject into it."""
    described = container_files.read(str(config))
    hooks = Directories(HooksSettings(directories=(str(directory),), watch=False, precreate=precreate))
    matcher = hooks.current()
    assert hooks.problems == {}
    return described, matcher.match(facts(described.pod, described.container))


def test_podman_injects_the_samples_that_we_inject(podman: Podman) -> None:
    """podman 4.3 writes prestart as such; later ones deliver it as createRuntime, as we do."""
    directory = podman.folder / "hooks.d"
    directory.mkdir()
    for file in SAMPLES.glob("*.json"):
        text = file.read_text().replace("/usr/local/libexec/oci", str(SAMPLES))
        (directory / file.name).write_text(text.replace("/var/log", str(podman.folder)))
    config = podman.config("all", directory, ["--annotation", "any=web", "-v", "/usr:/srv:ro"], ["/bin/sh"])
    _, hooks = ours(config, directory)
    assert {hook.file for hook in hooks} == {"always-inject.json", "by-command.json", "old-style.json"}
    theirs, adjusted = json.loads(config.read_text())["hooks"], adjustment(hooks)
    assert adjusted
    expected = apply({}, adjusted)["hooks"]
    created = theirs.pop("prestart", []) + theirs.pop("createRuntime", [])
    assert sorted(map(str, created)) == sorted(map(str, expected.pop("createRuntime", [])))
    assert theirs == {stage: expected[stage] for stage in expected if stage != "poststop"}  # podman's own affair


def test_a_precreate_hook_edits_here_what_it_edits_there(podman: Podman, loop: SteppedLoop) -> None:
    """podman gives the hook a config, which is kept; given the same container by NRI, we ask for the same edit."""
    told = podman.folder / "told.json"
    directory = podman.folder / "edit.d"
    script = f"/usr/bin/tee {told} | exec {PYTHON} -IS {shlex.quote(str(EDITOR))} edit"
    program = Programs(podman.folder).shell("edit", script)
    directory.mkdir()
    hook = {"version": "1.0.0", "hook": {"path": str(program)}, "when": {"always": True}, "stages": ["precreate"]}
    (directory / "a.json").write_text(json.dumps(hook))
    theirs = json.loads(podman.config("edited", directory, [], ["/bin/true"]).read_text())
    described, hooks = ours(told.rename(podman.folder / "given.json"), directory, precreate=True)
    request = api.CreateContainerRequest(pod=described.pod, container=described.container)
    heard: list[Any] = []
    edits = precreate.Edits(
        Runner(loop),
        hooks,
        request,
        api.CreateContainerResponse(),
        UNTRACED,
        fail=True,
        host_root="/",
        runtime=Runtime(),
    )
    edits.go()
    edits.answer_by(loop.now + 60)
    edits.answer.then(lambda response, error: heard.append(error or response))
    loop.until(lambda: bool(heard), "the hook does not end")
    [response] = heard
    edited = apply(spec_from(described.container), response.adjust)
    assert "HOOK=precreate" in theirs["process"]["env"]
    assert sorted(edited["process"]["env"]) == sorted(theirs["process"]["env"])
    assert edited["annotations"] == theirs["annotations"]
    mounts, their_mounts = ({mount["destination"]: mount for mount in spec["mounts"]} for spec in (edited, theirs))
    assert mounts == their_mounts
    devices, their_devices = ([device["path"] for device in spec["linux"]["devices"]] for spec in (edited, theirs))
    assert devices == their_devices
