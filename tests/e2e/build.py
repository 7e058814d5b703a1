"""The runtimes of the end-to-end runs, built from their Go modules into the user's cache. The rest is Debian's."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import astuple, dataclass
from pathlib import Path

from tests.peers.build import PeerMissing, cache, find_go, made, run, tell, unpack

CACHE = cache() / "e2e"
CONTAINERD_TAGS = "no_btrfs no_zfs no_devmapper urfave_cli_no_docs"
CRIO_TAGS = (
    "containers_image_openpgp exclude_graphdriver_btrfs exclude_graphdriver_devicemapper containers_image_ostree_stub"
)
DOCKER_TAGS = (
    "no_embedded_containerd exclude_disk_quota"
    " exclude_graphdriver_btrfs exclude_graphdriver_zfs exclude_graphdriver_fuseoverlayfs"
)


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
    return made(recipe.cached_at(), lambda staged: _build(recipe, staged))


def debian(package: str) -> Path:
    """The folder with the programs of a package of Debian, which is not installed."""

    def take(staged: Path) -> None:
        (unpack(package, staged.parent) / "usr/bin").rename(staged)

    return made(CACHE / f"{package}-debian", take)


def _build(recipe: Recipe, target: Path) -> None:
    """Builds through a module that requires it: `go install` refuses modules with replace or exclude lines.

    That starts with the module's own go.sum: the checksum database does not know all that CRI-O is made of.
    """
    scratch = target.parent
    binaries, requiring = scratch / "bin", scratch / "requiring"
    binaries.mkdir()
    requiring.mkdir()
    go = find_go()
    environment = os.environ | {"CGO_ENABLED": str(int(recipe.cgo)), "GOFLAGS": "-mod=mod", "GOWORK": "off"}

    def step(*command: str) -> str:
        return run(["nice", *command], PeerMissing, requiring, environment)

    parts = 2 + len(recipe.c_folders)
    step(go, "mod", "init", "requiring")
    origin = f"{recipe.module}@{recipe.version}"
    step(go, "mod", "edit", f"-require={origin}")
    tell(f"{recipe.name}, 1 of {parts}: downloading {origin}")
    source = Path(json.loads(step(go, "mod", "download", "-json", origin))["Dir"])
    (requiring / "go.sum").write_bytes((source / "go.sum").read_bytes())
    packages = [f"{recipe.module}/{command}" for command in recipe.commands]
    tell(f"{recipe.name}, 2 of {parts}: compiling {', '.join(recipe.commands)}")
    step(go, "build", "-trimpath", "-tags", recipe.tags, "-ldflags", "-s -w", "-o", f"{binaries}/", *packages)
    for number, folder in enumerate(recipe.c_folders, start=3):
        tell(f"{recipe.name}, {number} of {parts}: compiling {folder}")
        step("cp", "-r", str(source / folder), str(scratch))
        step("chmod", "-R", "u+w", str(scratch / folder))
        step("make", "-C", str(scratch / folder))  # writes to ../bin
    binaries.rename(target)


PACKAGES_OF_ALL = {"runc": "runc", "crun": "crun", "systemd-cat": "systemd"}
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
        raise PeerMissing(f"not installed, and no apt-get to install them: {' '.join(missing)}")
    print(f"installing {' '.join(missing)} …", flush=True)
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    apt = ("apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300")
    for words in (["update"], ["install", "-y", "--no-install-recommends", *missing]):
        run([*apt, *words], PeerMissing, env=environment)
