"""Containers of runc and crun, whose program is busybox: made, started and deleted by hand."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ..rig.debian import find, missing
from ..rig.mounts import refused
from ..rig.processes import gone
from ..rig.waiting import LIMIT, until

BUSYBOX = "/bin/busybox"
RUNTIMES = {"runc": ["runc"], "crun": ["crun", "--cgroup-manager=cgroupfs"]}
QUIET: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
NUMBERS = count()


def need(name: str) -> None:
    """Skips a test where a runtime cannot be tried. One that is not installed is a failure where peers are required."""
    # A runtime mounts the container's root directory.
    if reason := "root alone makes containers" if os.geteuid() else refused():
        pytest.skip(reason)
    for program in (name, "unshare"):
        if shutil.which(program) is None:
            missing(f"no {program}")


class OciRuntime:
    """A runtime with a directory of its own."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.root = folder / "state"
        self._folder = folder
        self._enter: list[str] = []
        if name == "crun" and not Path("/sys/fs/cgroup/cgroup.controllers").exists():
            # crun refuses a machine with both versions of cgroups
            self._enter = ["unshare", "--mount", "sh", "-ec", 'mount -t cgroup2 none /sys/fs/cgroup; exec "$@"', "sh"]
        rootfs = folder / "bundle/rootfs"
        for one in ("bin", "dev", "proc"):
            (rootfs / one).mkdir(parents=True)
        if isinstance(busybox := find("busybox", "busybox-static"), str):
            missing(busybox)
        shutil.copy(busybox, rootfs / "bin/busybox")
        self.made: list[Container] = []

    @property
    def line(self) -> list[str]:
        """The command line without a command."""
        return [*self._enter, *RUNTIMES[self.name], "--root", str(self.root)]

    def run(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*self.line, *words], check=False, text=True, timeout=LIMIT, **{**QUIET, **options})

    def create(self, *program: str, uid: int = 0) -> Container:
        """Creates a container, whose program writes a line to `ran` first, as a user."""
        container = Container(self, f"held-{os.getpid()}-{next(NUMBERS)}", program, uid)
        self.made.append(container)
        return container

    def clear(self) -> None:
        """Deletes what is left."""
        with ExitStack() as stack:
            for container in reversed(self.made):
                stack.callback(container.delete)


class Container:
    """A container that has been created."""

    def __init__(self, runtime: OciRuntime, id_: str, program: tuple[str, ...], uid: int) -> None:
        self.id = id_
        self._uid = uid
        self.runtime = runtime
        self.ran = runtime.root.parent / f"{id_}.ran"
        self.cgroup = f"/held/{id_}"
        self.bundle = runtime.root.parent / id_
        self.bundle.mkdir()
        self.ran.touch()
        words = " ".join(program) or f"exec {BUSYBOX} sleep 1000"
        self._write_config([BUSYBOX, "sh", "-c", f"echo ran >>/ran; {words}"])
        pid_file = self.bundle / "pid"
        done = runtime.run("create", "--bundle", str(self.bundle), "--pid-file", str(pid_file), id_, stderr=None)
        assert done.returncode == 0
        self.pid = int(pid_file.read_text())
        self.process = os.pidfd_open(self.pid)

    @property
    def has_run(self) -> int:
        """How often its program has been executed."""
        return self.ran.read_text().count("ran")

    @property
    def state(self) -> str:
        """What the runtime says."""
        done = self.runtime.run("state", self.id, stdout=subprocess.PIPE)
        return str(json.loads(done.stdout)["status"]) if done.returncode == 0 else "none"

    def start(self) -> Start:
        """Starts it in the background, as a runtime's CRI server does."""
        return Start(self)

    def delete(self) -> None:
        """Ends it, and removes it."""
        self.runtime.run("delete", "--force", self.id)
        gone(self.pid)

    def until_run(self) -> None:
        until(lambda: self.has_run > 0, "the program has run")

    def _write_config(self, words: list[str]) -> None:
        namespaces = [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")]
        config = {
            "ociVersion": "1.0.2",
            "process": {"args": words, "cwd": "/", "user": {"uid": self._uid, "gid": 0}, "env": []},
            "root": {"path": str(self.runtime.root.parent / "bundle/rootfs"), "readonly": False},
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                # TMPDIR is often mounted nodev.
                {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
                {"destination": "/ran", "type": "bind", "source": str(self.ran), "options": ["bind"]},
            ],
            "linux": {"namespaces": namespaces, "cgroupsPath": self.cgroup},
        }
        (self.bundle / "config.json").write_text(json.dumps(config))


class Start(threading.Thread):
    """A `start` that runs."""

    def __init__(self, container: Container) -> None:
        super().__init__(daemon=True)
        self._container = container
        self._done: subprocess.CompletedProcess[str] | None = None
        self.start()

    def run(self) -> None:
        self._done = self._container.runtime.run("start", self._container.id)

    def ended(self) -> tuple[int, str]:
        """Waits for its end; returns the exit code and what it has said."""
        self.join(LIMIT)
        assert self._done is not None, "the start does not end"
        return self._done.returncode, self._done.stderr
