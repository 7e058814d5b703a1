"""A runtime that requires the adapter, by NRI's default validator: while it is missing, no container is created."""

from __future__ import annotations

from collections.abc import Iterator

from tests.e2e.beside import Beside
from tests.e2e.pod import Cri, HarnessError, Sandbox

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
    pods = [cri.run_pod("p1", annotations={}), cri.run_pod("p2", annotations={TOLERATES: "true"})]
    yield from _create(cri, pods[0], "while the adapter is there")
    adapter.kill()
    yield from _create(cri, pods[0], "as the first request after its end, which passes")
    yield from _create(cri, pods[0], "while the adapter is missing", REASON)
    yield from _create(cri, pods[1], "in a pod that tolerates its absence")
    pods.append(cri.run_pod("p3", annotations={}))
    yield from _create(cri, pods[2], "in a new pod while the adapter is missing", REASON)
    adapter.start()
    for pod in pods:
        yield from _create(cri, pod, "when the adapter is back")
    for pod in pods:
        cri.end_pod(pod.id)


def _create(cri: Cri, pod: Sandbox, when: str, reason: str = "") -> Iterator[str]:
    """Creates a container and removes it; yields a finding unless it fails for this reason, or is made without one."""
    try:
        container = cri.create(pod)
    except HarnessError as error:
        if not reason or reason not in str(error):
            yield f"a container created {when}: {error}"
        return
    cri("rm", container)
    if reason:
        yield f"a container was created {when}"
