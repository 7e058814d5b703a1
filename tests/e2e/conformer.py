"""The legacy plugin of the conformance scenarios: it notes every event; a file `refuse` names the one it refuses."""

import json
import sys
from pathlib import Path

# fmt: off
EVENTS = (
    "RunPodSandbox", "CreateContainer", "PostCreateContainer", "StartContainer", "PostStartContainer",
    "UpdateContainer", "PostUpdateContainer", "StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox",
)
# fmt: on
"""The events that all runtimes know, in the order of a life."""
REFUSAL = "refused for once"


def event_of(request: dict[str, str]) -> str:
    """The event of a request; the requests of the original's events do not name it."""
    what = "PodSandbox" if request["id"] == request["sandboxID"] else "Container"
    when = {"create": "Run" if what == "PodSandbox" else "Start", "delete": "Stop"}
    return request.get("event") or when[request["state"]] + what


def main(folder: Path) -> None:
    request = json.load(sys.stdin)
    event, refuse = event_of(request), folder / "refuse"
    with (folder / "events").open("a") as events:
        print(request["id"], event, file=events)
    print(json.dumps({"error": REFUSAL} if refuse.exists() and refuse.read_text() == event else {}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
