"""The container runtimes under which the adapter runs: how each is configured, started and stopped."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from shutil import which
from string import Template

from tests.e2e import build, crun, image
from tests.e2e.pod import IMAGE, STATE, UNHURRIED, Cri, HarnessError, command, until
from tests.peers.build import program

OLDEST, NEWEST = "containerd-1.7.35", "containerd-2.4.2"
CRIOS = "cri-o-1.34.0", "cri-o-1.36.3"
ONLY = {
    **dict.fromkeys(("guarded", "from-adapter", "from-1.6"), (OLDEST, NEWEST)),
    "hooks": (NEWEST, "cri-o-1.34.0"),
    **dict.fromkeys(("installing", "large", "on-k3s", "without-list", "from-injector", "traced"), (NEWEST,)),
    "from-cri-o": ("cri-o-1.34.0",),
    "held": (OLDEST, NEWEST, f"{NEWEST}-crun", *CRIOS, *(f"{crio}-crun" for crio in CRIOS)),
    "around-holds": (OLDEST, NEWEST, *CRIOS),
    "holding": (OLDEST, NEWEST, f"{NEWEST}-crun", *CRIOS, *(f"{crio}-crun" for crio in CRIOS)),
    **dict.fromkeys(("held-kills", "docker"), ()),
}
"""The setups that are tried with these runtimes only."""
IMAGES = {IMAGE: STATE / "image.tar", UNHURRIED: STATE / "unhurried.tar"}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Runtime:
    """One runtime of one version; a family says what is particular to it."""

    packages = build.PACKAGES_OF_ALL
    more_recipes: tuple[build.Recipe, ...] = ()  # what it needs besides its own
    template: str
    pods_have_a_process = True
    tells_pids = True  # whether it tells the pids of containers, also of those that have ended
    takes_every_adjustment = False  # whether its NRI is 0.12.0 or later; some adjustments end older ones
    drop_ins = ""  # the directory of CRI-O's drop-in configurations, if it has one

    def __init__(self, recipe: build.Recipe, oci: str = "runc") -> None:
        """Takes what is built, and the OCI runtime: runc, or crun, with which few setups are tried."""
        self.recipe = recipe
        self.oci = oci
        self.name = recipe.name + ("-crun" if oci == "crun" else "")
        self.binaries = recipe.cached_at()
        self.config = STATE / "runtime.conf"
        self.log = STATE / "runtime.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.variables: dict[str, str] = {}

    def serves_sandboxes_itself(self, conf: Path) -> bool:
        """Whether the runtime runs the legacy plugins of this conf.json for sandboxes, without the adapter."""
        return False

    def can(self, setup: str) -> bool:
        """Whether the runtime has what a setup is about, and is tried with it."""
        return self.name in ONLY.get(setup, (self.name,) if self.oci == "runc" else ())

    def start(self) -> Cri:
        self.write_images()
        oci = crun.prepared() if self.oci == "crun" else which(self.oci)
        template = Template((Path(__file__).parent / self.template).read_text())
        self.config.write_text(
            template.substitute(
                state=STATE,
                binaries=self.binaries,
                image=IMAGE,
                oci=self.oci,
                oci_path=oci,
                conmon=which("conmon"),
            )
        )
        self.prepare()
        cri = self.cri()
        self.spawn_until(cri.answers)
        self.finish()
        return cri

    def cri(self) -> Cri:
        return Cri(build.CRICTL.cached_at() / "crictl", STATE / "cri.sock", STATE)

    def write_images(self) -> None:
        busybox = f"bin/busybox={program('busybox', 'busybox-static')}"
        for name, file in IMAGES.items():
            # What is killed at once, rather than asked first, dies faster.
            image.main(str(file), name, busybox, stop_signal="SIGTERM" if name == UNHURRIED else "SIGKILL")

    def spawn_until(self, answers: Callable[[], bool]) -> None:
        environment = {"PATH": self.path(), "HOME": str(STATE), **self.variables}
        with self.log.open("ab") as log:  # after a restart, too
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log, env=environment, cwd="/")
        until(lambda: self.died() or answers(), f"{self.name} to be ready")
        if self.died():
            raise HarnessError(f"{self.name} ended at its start")

    def path(self) -> str:
        return f"{self.binaries}:{PATH}"

    def died(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def stop(self) -> None:
        try:
            self._end(signal.SIGTERM)
        except subprocess.TimeoutExpired:
            self._end(signal.SIGKILL)
            raise HarnessError(f"{self.name} did not end within 60 s of SIGTERM") from None

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self.process is None or self.died():
            raise HarnessError(f"{self.name} is not running any more")
        self.process.send_signal(how)
        self.process.wait(60)

    def last_words(self) -> list[str]:
        return self.log.read_text(errors="replace").splitlines()[-10:] if self.log.exists() else []

    def command(self) -> list[str]:
        raise NotImplementedError

    def prepare(self) -> None:
        """What is to be done before the start."""

    def finish(self) -> None:
        """What is to be done when it is up, before it can run pods."""


class Containerd(Runtime):
    def __init__(self, recipe: build.Recipe, oci: str = "runc") -> None:
        super().__init__(recipe, oci)
        self.is_1 = recipe.version.startswith("v1.")
        self.takes_every_adjustment = not self.is_1 and recipe.version >= "v2.3"
        self.template = "containerd-1.x.toml" if self.is_1 else "containerd-2.x.toml"

    def serves_sandboxes_itself(self, conf: Path) -> bool:
        """From 2.0 on, the original client is back in it, for sandboxes alone and for its one path alone."""
        return not self.is_1 and conf == Path("/etc/nri/conf.json")

    def command(self) -> list[str]:
        return [str(self.binaries / "containerd"), "--config", str(self.config)]

    def finish(self) -> None:
        """Imports the image; 1.7 notices that only when the image is touched again."""
        ctr = [str(self.binaries / "ctr"), "--address", str(STATE / "cri.sock"), "--namespace", "k8s.io", "images"]
        for name, file in IMAGES.items():
            command(*ctr, "import", str(file))
            command(*ctr, "label", name, "e2e=touched")


class Crio(Runtime):
    """CRI-O with runc and conmon. It drops its pods' infra containers: pods have no process."""

    packages = build.PACKAGES_OF_ALL | build.PACKAGES_OF_CRIO
    template = "cri-o.conf"
    pods_have_a_process = False

    def __init__(self, recipe: build.Recipe, oci: str = "runc") -> None:
        super().__init__(recipe, oci)
        self.tells_pids = recipe.version >= "v1.36"

    def command(self) -> list[str]:
        return [str(self.binaries / "crio"), "--config", str(self.config), "--config-dir", self.drop_ins]

    def prepare(self) -> None:
        """Puts the image straight into its store, and makes what it wants to be there."""
        policy = STATE / "policy.json"
        policy.write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
        for folder in ("cni/net.d", "cni/bin", "hooks"):
            os.makedirs(STATE / folder, exist_ok=True)
        store = ["--root", f"{STATE}/root", "--runroot", f"{STATE}/run", "--storage-driver", "vfs"]
        command("podman", *store, "load", "--signature-policy", str(policy), "-i", str(STATE / "image.tar"))
