"""The legacy plugin of the conformance scenarios: it notes every event, and does what files in its folder ask for.

`refuse` names the event that it refuses; `other` has the id of a container whose CPU shares it asks for at each event
of another one.
"""

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
SHARES = {event: 300 + number for number, event in enumerate(EVENTS)}  # what the plugin asks for at each event
REFUSAL = "refused for once"


def event_of(request: dict[str, str]) -> str:
    """The event of a request; the requests of the original's events do not name it."""
    what = "PodSandbox" if request["id"] == request["sandboxID"] else "Container"
    when = {"create": "Run" if what == "PodSandbox" else "Start", "delete": "Stop"}
    return request.get("event") or when[request["state"]] + what


def main(folder: Path) -> None:
    request = json.load(sys.stdin)
    event = event_of(request)
    with (folder / "events").open("a") as events:
        print(request["id"], event, file=events)
    refuse, other = ((folder / name).read_text() if (folder / name).exists() else "" for name in ("refuse", "other"))
    if event == refuse:
        print(json.dumps({"error": REFUSAL}))
    elif other in ("", request["id"]):
        print("{}")
    else:
        print(json.dumps({"updates": [{"id": other, "resources": {"cpu": {"shares": SHARES[event]}}}]}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
