"""Where the requests to legacy plugins differ from those of the original client and of upstream's adapter."""

from __future__ import annotations

from typing import NamedTuple


class Deviation(NamedTuple):
    """A difference between our requests and those of `other`, on purpose."""

    other: str
    what: str
    why: str


DEVIATIONS = (
    Deviation(
        "upstream's v010-adapter",
        "`spec.resources` has `memory` and `cpu` only where the runtime filled them; upstream always adds `{}`",
        "the original never had an empty one that the spec had not",
    ),
    Deviation(
        "the original (containerd 1.6)",
        "`labels` has `io.cri-containerd.kind` and `oci_runtime_type`, which containerd keeps on its own objects",
        "NRI gives them, and nothing says which labels are the pod's",
    ),
    Deviation(
        "the original (containerd 1.6)",
        "`labels` comes with deletes too",
        "upstream's v010-adapter passes them, and a plugin may want them",
    ),
    Deviation(
        "the original (containerd 1.6)",
        "`spec.annotations` has the annotations of the CRI request too",
        "NRI gives them merged with the spec's",
    ),
    Deviation(
        "both",
        "the environment has `TRACEPARENT` if the runtime traces the event, unless the plugin has stood by",
        "what a plugin traces or logs can be joined with the runtime's trace",
    ),
)
"""The documentation shows the table, and the tests against the original client know these differences and no others."""
