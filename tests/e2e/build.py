"""The runtimes of the end-to-end runs, built from their Go modules into the user's cache. The rest is Debian's."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path

from tests.peers.build import cache, find_go

CACHE = cache() / "e2e"
CONTAINERD_TAGS = "no_btrfs no_zfs no_devmapper urfave_cli_no_docs"
CRIO_TAGS = (
    "containers_image_openpgp exclude_graphdriver_btrfs exclude_graphdriver_devicemapper containers_image_ostree_stub"
)
DOCKER_TAGS = (
    "no_embedded_containerd exclude_disk_quota"
    " exclude_graphdriver_btrfs exclude_graphdriver_zfs exclude_graphdriver_fuseoverlayfs"
)


class BuildError(Exception):
    """A peer cannot be had here; the text says which command failed and how."""


@dataclass(frozen=True)
class Recipe:
    """What is built: commands of one Go module, and C programs of it that have a Makefile of their own."""

    name: str
    module: str
    version: str
    commands: tuple[str, ...]
    tags: str = ""
    cgo: bool = False
    c_folders: tuple[str, ...] = ()

    def cached_at(self) -> Path:
        """Where the binaries of exactly this recipe stand once they are built."""
        digest = hashlib.sha256(repr(astuple(self)).encode()).hexdigest()[:12]
        return CACHE / f"{self.name}-{digest}"


def containerd(version: str) -> Recipe:
    """containerd with shim and ctr; the module's path changed with 2.0."""
    module = "github.com/containerd/containerd" + ("" if version.startswith("1.") else "/v2")
    commands = ("cmd/containerd", "cmd/containerd-shim-runc-v2", "cmd/ctr")
    return Recipe(f"containerd-{version}", module, f"v{version}", commands, CONTAINERD_TAGS)


def crio(version: str) -> Recipe:
    """CRI-O with pinns, which pins a pod's namespaces."""
    module = "github.com/cri-o/cri-o"
    return Recipe(f"cri-o-{version}", module, f"v{version}", ("cmd/crio",), CRIO_TAGS, True, ("pinns",))


def dockerd(version: str) -> Recipe:
    """Docker Engine's daemon, which starts the containerd in its PATH."""
    return Recipe("docker-29", "github.com/moby/moby/v2", version, ("cmd/dockerd",), DOCKER_TAGS)


CRICTL = Recipe("crictl", "sigs.k8s.io/cri-tools", "v1.36.0", ("cmd/crictl",))


def built(recipe: Recipe) -> Path:
    """The folder with the recipe's binaries; builds them first when they are not there."""
    return _made(recipe.cached_at(), recipe.name, lambda scratch: _build(recipe, scratch))


def debian(package: str) -> Path:
    """The folder with the programs of a package of Debian, which is not installed."""

    def unpack(scratch: Path) -> Path:
        _run("apt-get", "-qq", "update")
        _run("apt-get", "-qq", "download", package, cwd=scratch)
        _run("dpkg-deb", "-x", *map(str, scratch.glob("*.deb")), f"{scratch}/all")
        return scratch / "all/usr/bin"

    return _made(CACHE / f"{package}-debian", package, unpack)


def _made(target: Path, name: str, make: Callable[[Path], Path]) -> Path:
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two runs at once build once
        if not target.exists():
            print(f"building {name} …", flush=True)
            with tempfile.TemporaryDirectory(dir=CACHE, prefix=".build-") as scratch:
                make(Path(scratch)).rename(target)
    return target


def _build(recipe: Recipe, scratch: Path) -> Path:
    """Builds through a module that requires it: `go install` refuses modules with replace or exclude lines.

    That starts with the module's own go.sum: the checksum database does not know all that CRI-O is made of.
    """
    binaries, requiring = scratch / "bin", scratch / "requiring"
    binaries.mkdir()
    requiring.mkdir()
    go = find_go()
    environment = os.environ | {"CGO_ENABLED": str(int(recipe.cgo)), "GOFLAGS": "-mod=mod", "GOWORK": "off"}

    def run(*command: str) -> str:
        return _run("nice", *command, cwd=requiring, env=environment)

    run(go, "mod", "init", "requiring")
    origin = f"{recipe.module}@{recipe.version}"
    run(go, "mod", "edit", f"-require={origin}")
    source = Path(json.loads(run(go, "mod", "download", "-json", origin))["Dir"])
    (requiring / "go.sum").write_bytes((source / "go.sum").read_bytes())
    packages = [f"{recipe.module}/{command}" for command in recipe.commands]
    run(go, "build", "-trimpath", "-tags", recipe.tags, "-ldflags", "-s -w", "-o", f"{binaries}/", *packages)
    for folder in recipe.c_folders:
        run("cp", "-r", str(source / folder), str(scratch))
        run("chmod", "-R", "u+w", str(scratch / folder))
        run("make", "-C", str(scratch / folder))  # writes to ../bin
    return binaries


PACKAGES_OF_ALL = {"runc": "runc", "busybox": "busybox-static"}
PACKAGES_OF_CRIO = {
    "conmon": "conmon",
    "podman": "podman",
    "gcc": "gcc",
    "make": "make",
    "pkg-config": "pkg-config",
    "/usr/include/seccomp.h": "libseccomp-dev",
    "/usr/include/stdio.h": "libc6-dev",
}


def install_packages(wanted: dict[str, str]) -> None:
    missing = [package for probe, package in wanted.items() if not (shutil.which(probe) or Path(probe).is_file())]
    if not missing:
        return
    if not shutil.which("apt-get"):
        raise BuildError(f"not installed, and no apt-get to install them: {' '.join(missing)}")
    print(f"installing {' '.join(missing)} …", flush=True)
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    apt = ("apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300")
    _run(*apt, "update", env=environment)
    _run(*apt, "install", "-y", "--no-install-recommends", *missing, env=environment)


def _run(*command: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    try:
        done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=1200, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(str(error)) from error
    if done.returncode:
        raise BuildError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-1000:]}")
    return done.stdout
