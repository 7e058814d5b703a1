"""The JSON a legacy plugin gets on its stdin, made of NRI's messages: pure functions.

Source of the format: containerd/nri types/v1/types.go (Request, Spec) and client.go (createSpec); of the resources:
the OCI runtime specification's Go types; of what is taken from where: plugins/v010-adapter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from adapter import gojson
from adapter.legacy.config import Entry
from adapter.legacy.result import Result
from adapter.oci.resources import resources_from
from adapter.proto import nri_pb2 as api


class Deviation(NamedTuple):
    """A difference between our requests and those of `other`, that is wanted."""

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
)
"""Where requests differ on purpose. The tests against the original client know these and no others."""


class Subject:
    """The pod or container that a request is about. Its texts are made when somebody asks for them."""

    def __init__(self, id_: str, sandbox_id: str, pid: int, of: api.PodSandbox | api.Container, pod: api.PodSandbox):
        """Takes the ids, the pid, the message that describes it, and the one that describes its pod."""
        self.id = id_
        self.sandbox_id = sandbox_id
        self.pid = pid
        self.cgroups_path = of.linux.cgroups_path
        self._of: api.PodSandbox | api.Container | None = of
        self._pod: api.PodSandbox | None = pod
        self._spec = self._labels = b""

    @property
    def is_sandbox(self) -> bool:
        """Whether it is the pod itself."""
        return self.id == self.sandbox_id

    @property
    def spec(self) -> bytes:
        """The request's `spec` as JSON."""
        if self._of is not None:
            self._spec, self._of = _spec(self._of), None
        return self._spec

    @property
    def labels(self) -> bytes:
        """The request's `labels` as JSON: those of the pod."""
        if self._pod is not None:
            self._labels, self._pod = _strings(self._pod.labels), None
        return self._labels

    def remember(self, earlier: Subject) -> None:
        """Takes what it lacks from how it was at its create.

        A runtime that has filled everything has set the cgroup's path; at deletes some leave most of it out.
        """
        self.sandbox_id = self.sandbox_id or earlier.sandbox_id
        self.pid = self.pid or earlier.pid
        if not self.cgroups_path:
            self.cgroups_path = earlier.cgroups_path
            self._spec, self._of = earlier.spec, None
        if self.labels == b"{}":
            self._labels = earlier.labels

    def __str__(self) -> str:
        """Returns what it is in a log line."""
        return f"{'sandbox' if self.is_sandbox else 'container'} {self.id}"


def of_pod(pod: api.PodSandbox) -> Subject:
    """Returns the subject of a pod's events."""
    return Subject(pod.id, pod.id, pod.pid, pod, pod)


def of_container(container: api.Container, pod: api.PodSandbox) -> Subject:
    """Returns the subject of a container's events; of its pod it needs id and labels."""
    return Subject(container.id, pod.id or container.pod_sandbox_id, container.pid, container, pod)


class Full(NamedTuple):
    """What a request has at the events that the original never had: the whole OCI spec, and further members."""

    spec: bytes
    members: bytes


def encode(subject: Subject, state: str, entry: Entry, results: Sequence[Result], full: Full | None = None) -> bytes:
    """Returns the request for one plugin. What is empty is left out where Go's `omitempty` leaves it out."""
    text = b"{" if entry.conf is None else b'{"conf":%b,' % entry.conf
    text += b'"version":%b,"state":"%b","id":%b,' % (
        gojson.dumps(entry.version),
        state.encode(),
        gojson.dumps(subject.id),
    )
    if subject.sandbox_id:
        text += b'"sandboxID":%b,' % gojson.dumps(subject.sandbox_id)
    if subject.pid:
        text += b'"pid":%d,' % subject.pid
    text += b'"spec":' + (full.spec if full else subject.spec)
    if subject.labels != b"{}":
        text += b',"labels":' + subject.labels
    if results:
        text += b',"results":[%b]' % b",".join([result.encode() for result in results])
    if full:
        text += full.members
    return text + b"}"


def _spec(of: api.PodSandbox | api.Container) -> bytes:
    linux = of.linux
    spec = b'{"resources":'
    spec += gojson.dumps(resources_from(linux.resources)) if linux.HasField("resources") else b"null"
    if linux.namespaces:
        spec += b',"namespaces":' + _strings({namespace.type: namespace.path for namespace in linux.namespaces})
    if linux.cgroups_path:
        spec += b',"cgroupsPath":' + gojson.dumps(linux.cgroups_path)
    if of.annotations:
        spec += b',"annotations":' + _strings(of.annotations)
    return spec + b"}"


def _strings(strings: Mapping[str, str]) -> bytes:
    """Returns a map as JSON, in the order of Go's: by key."""
    quote = gojson.quote
    pairs = [f"{quote(key)}:{quote(text)}" for key, text in sorted(strings.items())]
    return gojson.escape(f"{{{','.join(pairs)}}}".encode("utf-8", "replace"))
