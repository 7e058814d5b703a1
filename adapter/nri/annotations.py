"""Annotations by which a pod tells plugins what to do with its containers."""

from __future__ import annotations

from nri.proto import nri_pb2 as api


def effective_annotation(pod: api.PodSandbox, key: str, container: api.Container) -> str | None:
    """Returns what a pod's annotation says for one of its containers, None if it has none.

    A pod has no annotations of single containers, so the key names them: `KEY/container.NAME` is for the container with
    this name, and comes before `KEY/pod` and `KEY`, which are for all (containerd/nri pkg/plugin/annotations.go,
    GetEffectiveAnnotation).
    """
    for scoped in (f"{key}/container.{container.name}", f"{key}/pod", key):
        if scoped in pod.annotations:
            return pod.annotations[scoped]
    return None
