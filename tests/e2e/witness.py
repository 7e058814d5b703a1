"""A legacy plugin that bears witness: it records the request, who sent it, and what the pid was just then."""

import json
import os
import sys
from pathlib import Path


def text_of(path: str) -> str:
    """What is in the file, or nothing where there is no such process (any more)."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def main(record: str) -> None:
    request = sys.stdin.read()
    pid = json.loads(request).get("pid", 0)
    caller = f"/proc/{os.getppid()}"
    call = {
        "request": request,
        "cgroups": text_of(f"/proc/{pid}/cgroup"),
        "caller": Path(os.readlink(f"{caller}/exe")).name,
        "caller_pid": os.getppid(),
    }
    with Path(record).open("a") as out:
        out.write(json.dumps(call) + "\n")
    print(json.dumps({"plugin": "witness", "version": "0.1"}))


main(sys.argv[1])
