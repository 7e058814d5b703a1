"""`nri.runtime.patchConfig`: an init container switches NRI on in containerd, which restarts."""

from __future__ import annotations

from collections.abc import Iterator

from .node import apply, chart, containers, delete, hook_file, marks, ready, say, shell, uninstall

CONFIG = "/etc/containerd/config.toml"
STARTED = "cat $(pgrep -x containerd | sed 's,.*,/proc/&/stat,') | cut -d ' ' -f 22"


def play() -> Iterator[str]:
    shell(f"sed -i 's/disable = false/disable = true/' {CONFIG}; systemctl restart containerd")
    off = shell(f"cat {CONFIG}")
    for times in (1, 2):
        started = shell(STARTED)
        chart(
            "install",
            profile="hooks",
            nri={"runtime": {"patchConfig": True}},
            hooks={"files": {"on.json": hook_file("on")}},
        )
        if shell(f"cat {CONFIG}") != off.replace("disable = true", "disable = false"):
            yield "NRI is not switched on in containerd's configuration, or more was changed"
        if (shell(STARTED) != started) != (times == 1):
            yield "containerd has restarted where NRI was on" if times > 1 else "containerd has not restarted"
        apply(f"on{times}", 1)
        ready(f"on{times}")
        if not containers(f"on{times}") <= marks("on").keys():
            yield "a pod has no hooks"
        delete(f"on{times}")
        uninstall()
        say("NRI was off, and is on" if times == 1 else "where NRI is on, nothing is done")
