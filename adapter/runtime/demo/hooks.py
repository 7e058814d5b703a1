"""The sample hooks of the demo: where they are, who should get them, and what the adapter did about it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from google.protobuf import json_format

from adapter.errors import ConfigError
from adapter.nri import api
from adapter.runtime.demo.scene import Hooks, Json

HOOKS = {
    "always-inject.json": True,
    "by-annotation.json": False,
    "by-command.json": False,
    "old-style.json": False,
    "record.json": True,
}
"""The sample hooks in the order of their injection, and whether the recorded container is to get them."""
INJECTED = {"create_runtime": ["true", "record"], "poststop": ["true", "record"]}
"""Which programs that comes to, by NRI's name of the stage."""
RECORD = "record"
"""The program of record.json, which stands beside it; the file itself says where it is on a node."""
SECONDS = 30


def install(samples: Path, directory: Path, records: Path) -> str:
    """Copies the samples into a new directory; returns where record.json has its program on a node.

    There is no such program on most machines, and a hook without one is not used: the copy runs the one beside it.
    """
    directory.mkdir()
    for name in (*HOOKS, RECORD):
        shutil.copy(samples / name, directory / name)
    file = directory / "record.json"
    content = json.loads(file.read_bytes())
    on_node: str = content["hook"]["path"]
    content["hook"] |= {"path": str(directory / RECORD), "args": [RECORD, str(records)]}
    file.write_text(json.dumps(content))
    return on_node


def explain(command: Path, config: Path, request: api.CreateContainerRequest, scratch: Path) -> Json:
    """Returns what `v010-adapter hooks match` says of a container under the adapter's configuration.

    Raises ConfigError if it says nothing.
    """
    scratch.write_text(json_format.MessageToJson(request, preserving_proto_field_name=True))
    words = [str(command), "hooks", "match", "-config", str(config), "-container", str(scratch), "-o", "json"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)  # noqa: S603 - ours
        said: Json = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigError("hooks match", str(error)) from None
    except ValueError:
        reason = done.stderr.strip() or f"nothing, exit code {done.returncode}"
        raise ConfigError("hooks match", reason) from None
    return said


def injected(adjustment: api.ContainerAdjustment) -> dict[str, list[Json]]:
    """Returns the hooks of the adapter's answer by NRI's name of the stage, in the shape of `hooks match`."""
    fields = adjustment.hooks.ListFields()
    return {field.name: [_hook(hook) for hook in hooks] for field, hooks in fields}


def _hook(hook: api.Hook) -> Json:
    lists = {"args": list(hook.args), "env": list(hook.env)}
    timeout = {"timeout": {"value": hook.timeout.value}} if hook.HasField("timeout") else {}
    return {"path": hook.path, **{name: texts for name, texts in lists.items() if texts}, **timeout}


def problems(hooks: Hooks) -> list[str]:
    """Returns what is not as it should be: the files, the verdicts, or the adapter's answer."""
    found = [f"{Path(bad['file']).name}: {bad['error']}" for bad in hooks.errors]
    verdicts = {decision["name"]: decision["matched"] for decision in hooks.decisions}
    if verdicts != HOOKS:
        found.append(f"hooks match says {_yes(verdicts)} instead of {_yes(HOOKS)}")
    if hooks.injected != hooks.announced:
        found.append(f"the adapter injects {hooks.injected}, but hooks match says {hooks.announced}")
    programs = {stage: [Path(hook["path"]).name for hook in ones] for stage, ones in hooks.injected.items()}
    if programs != INJECTED:
        found.append(f"the adapter injects {programs} instead of {INJECTED}")
    return found


def _yes(verdicts: dict[str, bool]) -> str:
    return ", ".join(f"{name} {'yes' if matched else 'no'}" for name, matched in verdicts.items()) or "nothing"
