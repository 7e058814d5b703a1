"""A pod's life, with lanes for the runtime, NRI's events, legacy plugins and hooks: from a recorded life."""

from __future__ import annotations

from docs.drawing import BOLD, CODE, Picture
from nri.testing import POD_LIFE
from v010_adapter.container_files.recording import read
from v010_adapter.legacy.plan import ORIGINAL, REMOVALS, STATES

TITLE = "The life of a pod with one container, on containerd"
DESCRIPTION = (
    "From top to bottom, in time. Legacy plugins run at RunPodSandbox (create of the pod), StartContainer (create of "
    "the container), StopContainer (delete of the container) and StopPodSandbox (delete of the pod); a delete that is "
    "still owed runs at RemoveContainer and RemovePodSandbox. Hooks are injected at CreateContainer. The runtime runs "
    "createRuntime and createContainer hooks before StartContainer, startContainer and poststart hooks "
    "after it, and poststop hooks after StopContainer."
)
LANES = {"containerd": 20, "NRI event": 200, "legacy plugins": 380, "OCI hooks": 560}
ROW, TOP = 30, 62
BEFORE = {
    "RunPodSandbox": ("has started the pod", ""),
    "CreateContainer": ("makes a container", ""),
    "StartContainer": ("creates its process", "createRuntime,\ncreateContainer"),
    "PostStartContainer": ("starts its program", "startContainer,\npoststart"),
    "UpdateContainer": ("changes its limits", ""),
    "StopContainer": ("sees its end", ""),
    "RemoveContainer": ("deletes it", "poststop"),
    "StopPodSandbox": ("has stopped the pod", ""),
}
"""What containerd does before an event, and which hooks it runs then."""
HOOKS = {"CreateContainer": "are injected"}


def picture() -> str:
    """Returns the picture."""
    drawn = Picture(TITLE, DESCRIPTION, 700, size=14)
    events = [message.event for message in read(POD_LIFE) if message.event in STATES]
    y = TOP
    marks = list[tuple[float, str, str, str]]()
    for event in events:
        if event in BEFORE:
            does, hooks = BEFORE[event]
            drawn.text(LANES["containerd"], y + 5, does)
            for number, line in enumerate(hooks.splitlines()):
                drawn.text(LANES["OCI hooks"], y + 5 + 17 * number, line, "violet")
            y += ROW + 17 * hooks.count("\n")
        marks.append((y, event, *_plugins(event)))
        y += ROW
    for name, x in LANES.items():
        drawn.text(x, 28, name, "faint", BOLD)
        drawn.line([(x - 8, 40), (x - 8, y - 8)], "rule")
    for y_of, event, plugins, colour in marks:
        drawn.bar(LANES["NRI event"] - 8, y_of - 11, drawn.width - LANES["NRI event"] - 4, 24, "blue", 0.08)
        drawn.text(LANES["NRI event"], y_of + 5, event, "blue", CODE)
        drawn.text(LANES["legacy plugins"], y_of + 5, plugins, colour)
        drawn.text(LANES["OCI hooks"], y_of + 5, HOOKS.get(event, ""), "violet")
    return drawn.svg(y + 8)


def _plugins(event: str) -> tuple[str, str]:
    """Returns what legacy plugins do at an event, and its colour."""
    about = "pod" if "Pod" in event else "container"
    if event in ORIGINAL:
        return f"{STATES[event]} of the {about}", "green"
    return ("delete, if still owed" if event in REMOVALS else ""), "faint"
