"""The whole: the runtime, NRI's socket, the adapter, one-shot programs, hooks.d, and what a container gets."""

from __future__ import annotations

from docs.drawing import BOLD, CODE, MIDDLE, SMALL, Picture

TITLE = "What v010-adapter does"
DESCRIPTION = (
    "The runtime, containerd or CRI-O, sends an event over NRI's socket to v010-adapter, as to any NRI plugin. The "
    "adapter runs one-shot programs in /opt/nri/bin: each reads a JSON request on stdin and prints a JSON result on "
    "stdout. It reads hook files in hooks.d. Its answer to the runtime is an adjustment, with changes and OCI hooks, "
    "or an error. The runtime then starts the container with them."
)


def picture() -> str:
    """Returns the picture."""
    drawn = Picture(TITLE, DESCRIPTION, 640)
    drawn.box(20, 20, 280, 66, line="blue")
    drawn.text(160, 48, "containerd, CRI-O", more=f"{BOLD} {MIDDLE}")
    drawn.text(160, 70, "the runtime", "faint", f"{SMALL} {MIDDLE}")
    drawn.box(400, 20, 220, 66)
    drawn.text(510, 48, "container", more=f"{BOLD} {MIDDLE}")
    drawn.text(510, 70, "changed, with its OCI hooks", "faint", f"{SMALL} {MIDDLE}")
    drawn.arrow([(300, 53), (399, 53)])
    drawn.text(349, 43, "starts", "faint", f"{SMALL} {MIDDLE}")

    drawn.arrow([(80, 86), (80, 189)], "blue")
    drawn.text(92, 134, "event", "blue")
    drawn.text(92, 154, "of a pod or container", "faint", SMALL)
    drawn.arrow([(260, 190), (260, 87)], "blue")
    drawn.text(272, 134, "answer: adjustment, or error", "blue")
    drawn.text(272, 154, "changes of the container, hooks", "faint", SMALL)
    drawn.text(620, 134, "NRI's socket", "faint", f'{SMALL} text-anchor="end"')
    drawn.text(620, 154, "protobuf", "faint", f'{SMALL} text-anchor="end"')

    drawn.box(20, 190, 600, 62, line="blue")
    drawn.text(320, 217, "v010-adapter", more=f"{BOLD} {MIDDLE}")
    drawn.text(320, 238, "one NRI plugin, a daemon on each node, always in time", "faint", f"{SMALL} {MIDDLE}")

    drawn.arrow([(60, 252), (60, 341)], "green")
    drawn.text(70, 292, "JSON request", "green")
    drawn.text(70, 312, "on stdin", "faint", SMALL)
    drawn.arrow([(210, 342), (210, 253)], "green")
    drawn.text(220, 292, "JSON result", "green")
    drawn.text(220, 312, "on stdout", "faint", SMALL)
    drawn.arrow([(500, 342), (500, 253)], "violet")
    drawn.text(510, 292, "hook files", "violet")
    drawn.text(510, 312, "watched", "faint", SMALL)

    drawn.box(20, 342, 340, 84, line="green")
    drawn.text(190, 368, "one-shot programs", more=f"{BOLD} {MIDDLE}")
    drawn.text(190, 390, "legacy plugins of NRI v0.1.0, or new ones", "faint", f"{SMALL} {MIDDLE}")
    drawn.text(190, 412, "/opt/nri/bin", "faint", f"{CODE} {MIDDLE}")
    drawn.box(380, 342, 240, 84, line="violet")
    drawn.text(500, 368, "OCI hooks", more=f"{BOLD} {MIDDLE}")
    drawn.text(500, 390, "podman's files, for any runtime", "faint", f"{SMALL} {MIDDLE}")
    drawn.text(500, 412, "hooks.d/*.json", "faint", f"{CODE} {MIDDLE}")
    return drawn.svg(446)
