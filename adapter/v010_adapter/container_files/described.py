"""A container with its pod, as a file describes them, and what the file does not contain."""

from __future__ import annotations

from typing import Any, NamedTuple

from nri.proto import nri_pb2 as api

IMAGE_DECIDES = "the command: the image decides (-command sets it)"
"""Unknown if the container's program is the entrypoint of its image."""
PODS_ANNOTATIONS = "the annotations of the pod (-pod FILE has them)"
"""Unknown if a tool shows a container without its pod."""

ADDED_ANNOTATIONS = "the annotations that the kubelet and the runtime add"
"""Unknown if no runtime has made the container yet."""

ADDED_VOLUME = "the volume of the service account's token (automountServiceAccountToken)"
"""Unknown if Kubernetes has not made the pod yet."""


class Described(NamedTuple):
    """A container with its pod. `kind` is the kind of the file, `unknown` lists what the file does not contain."""

    kind: str
    pod: api.PodSandbox
    container: api.Container
    unknown: tuple[str, ...] = ()
    spec: dict[str, Any] | None = None
    """The whole OCI specification, if the file has it."""

    @property
    def name(self) -> str:
        """`NAMESPACE/POD/NAME`, as far as known."""
        return "/".join(filter(None, (self.pod.namespace, self.pod.name, self.container.name)))

    @property
    def command_is_known(self) -> bool:
        """Whether the container's arguments are known; otherwise `container` has none."""
        return IMAGE_DECIDES not in self.unknown
