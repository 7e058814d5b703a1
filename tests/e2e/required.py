"""A runtime that requires the adapter, by NRI's default validator: while it is missing, no container is created."""

from __future__ import annotations

from collections.abc import Iterator

from tests.e2e.beside import Beside
from tests.e2e.pod import CONTAINER, POD, Cri, HarnessError

TOLERATES = "e2e/runs-without-the-adapter"
CONTAINERD = f"""
[plugins.'io.containerd.nri.v1.nri'.default_validator]
  enable = true
  required_plugins = ['v010-adapter']
  tolerate_missing_plugins_annotation = '{TOLERATES}'
"""
CRIO = f"""
[crio.nri.default_validator]
nri_enable_default_validator = true
nri_validator_required_plugins = ['v010-adapter']
nri_validator_tolerate_missing_plugins_annotation = '{TOLERATES}'
"""
REASON = r"required plugin \"v010-adapter\" not present"  # as crictl quotes it


def play(cri: Cri, adapter: Beside) -> Iterator[str]:
    """Creates containers with and without the adapter; yields, in sentences, what differs from what is documented."""
    pods = [_pod(cri, "p1", {}), _pod(cri, "p2", {TOLERATES: "true"})]
    yield from _create(cri, pods[0], "while the adapter is there")
    adapter.kill()
    yield from _create(cri, pods[0], "as the first request after its end, which passes")
    yield from _create(cri, pods[0], "while the adapter is missing", REASON)
    yield from _create(cri, pods[1], "in a pod that tolerates its absence")
    pods.append(_pod(cri, "p3", {}))
    yield from _create(cri, pods[2], "in a new pod while the adapter is missing", REASON)
    adapter.start()
    for pod in pods:
        yield from _create(cri, pod, "when the adapter is back")
    for id_, _ in pods:
        cri("stopp", id_)
        cri("rmp", id_)


def _pod(cri: Cri, name: str, annotations: dict[str, str]) -> tuple[str, str]:
    """Runs a pod; returns its id and the file that describes it."""
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    logs = cri.folder / "logs" / name
    logs.mkdir(parents=True)
    file = cri.file(name, POD | {"metadata": metadata, "annotations": annotations, "log_directory": str(logs)})
    return cri("runp", file).strip(), file


def _create(cri: Cri, pod: tuple[str, str], when: str, reason: str = "") -> Iterator[str]:
    """Creates a container and removes it; yields a finding unless it fails for this reason, or is made without one."""
    try:
        container = cri("create", pod[0], cri.file("container", CONTAINER), pod[1]).strip()
    except HarnessError as error:
        if not reason or reason not in str(error):
            yield f"a container created {when}: {error}"
        return
    cri("rm", container)
    if reason:
        yield f"a container was created {when}"
