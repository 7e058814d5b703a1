"""The JSON that a legacy plugin gets on its stdin, made of NRI's messages: pure functions.

Source of the format: containerd/nri types/v1/types.go (Request, Spec) and client.go (createSpec); of the resources:
the OCI runtime specification's Go types; of the choice of NRI's fields: plugins/v010-adapter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from nri.proto import nri_pb2 as api
from v010_adapter.base import gojson
from v010_adapter.legacy.config import Entry
from v010_adapter.legacy.result import Result
from v010_adapter.monitoring.trace import Named
from v010_adapter.oci.resources import resources_from

MOST_KEPT = 32 << 10
"""Maximum bytes of spec and labels together that are kept after their event. Pod authors choose the size of both."""
MOST_OF_NAME = 253
"""Maximum characters of a name that are kept after its event (Kubernetes: DNS1123SubdomainMaxLength)."""
NO_SPEC, NO_LABELS = b'{"resources":null}', b"{}"
_LEAST = len('"":"",')
"""Bytes of the JSON of the shortest pair of texts."""
SHARED = 128
"""The number of cached labels: a pod and its containers, which start one after another, have the same."""
CACHED, CACHED_LENGTH = 64, 512
"""The number of resources whose JSON is cached, and the maximum bytes of one: many containers have the same."""


class Labels:
    """A pod's labels as JSON, made when it is first used. The containers of a Synchronize share it."""

    __slots__ = ("_json", "_pod")

    def __init__(self, pod: api.PodSandbox | None, json: bytes = b"") -> None:
        """Takes the pod, or the JSON."""
        self._pod = pod
        self._json = json

    @property
    def json(self) -> bytes:
        """The labels as JSON."""
        if self._pod is not None:
            pod, self._pod = self._pod, None
            self._json = gojson.marshalled(gojson.string_map(pod.labels))
        return self._json

    def __bool__(self) -> bool:
        """Whether there are labels. Makes no JSON."""
        return bool(self._pod.labels) if self._pod is not None else self._json != NO_LABELS

    @property
    def is_long(self) -> bool:
        """Whether the JSON is certainly too long to be kept after the event. Makes no JSON."""
        return _is_long(self._pod.labels) if self._pod is not None else len(self._json) > MOST_KEPT


def _is_long(texts: Mapping[str, str]) -> bool:
    """Whether the JSON of texts is certainly too long to be kept after the event. Does not read more than would fit."""
    return len(texts) * _LEAST > MOST_KEPT or sum(map(len, texts)) + sum(map(len, texts.values())) > MOST_KEPT


@lru_cache(SHARED)
def _shared(labels: bytes) -> Labels:
    """Returns one object for the same labels of a pod and its containers."""
    return Labels(None, labels)


class Target:
    """The pod or container that a request is about. Its JSON is made when it is first used."""

    def __init__(
        self,
        id_: str,
        sandbox_id: str,
        pid: int,
        message: api.PodSandbox | api.Container,
        pod: api.PodSandbox,
        labels: Labels | None = None,
    ) -> None:
        """`labels` are those of the pod, if other targets share them."""
        self.id = id_
        self.sandbox_id = sandbox_id
        self.pid = pid
        self.names: tuple[str, ...] = pod.namespace, pod.name, "" if id_ == sandbox_id else message.name
        """The names of namespace, pod and container, for the log; empty if the runtime has not told them."""
        self.started = 0
        """When the process `pid` started (see `cgroup.start_time`), -1 if it had ended, 0 if nobody has looked."""
        self.cgroups_path = message.linux.cgroups_path
        self._message: api.PodSandbox | api.Container | None = message
        self._labels = Labels(pod) if labels is None else labels
        self.is_sandbox = id_ == sandbox_id
        """Whether the target is a pod."""
        self.is_cut = False
        """Whether the JSON has been left out, because it was too long to be kept after the event."""
        self._kept: Target | None = None
        self._is_kept = False

    @classmethod
    def restored(cls, id_: str, sandbox_id: str, pid: int, cgroups_path: str, *, spec: bytes, labels: bytes) -> Target:
        """Returns a target as an earlier process knew it; the texts are JSON."""
        target = cls(id_, sandbox_id, pid, api.Container(), api.PodSandbox())
        target.cgroups_path = cgroups_path
        target.take_texts(spec, labels)
        return target

    @property
    def namespace(self) -> str:
        """The namespace of the pod, empty if the runtime has not told it."""
        return self.names[0] if self.names else ""

    @cached_property
    def spec(self) -> bytes:
        """The request's `spec` as JSON."""
        message, self._message = self._message, None
        return _spec(message or api.Container())

    @property
    def labels(self) -> bytes:
        """The request's `labels` as JSON: those of the pod."""
        labels = self._labels
        return labels._json if labels._pod is None else labels.json

    def take_texts(self, spec: bytes, labels: bytes) -> None:
        """Takes the JSON that another process has made."""
        self.spec, self._message = spec, None
        self._labels = _shared(labels) if len(labels) <= MOST_KEPT else Labels(None, labels)

    def kept(self) -> Target:
        """Returns the target to keep after the event: without NRI's messages, and without its JSON if that is too long.

        A single message would keep the memory of the whole event or Synchronize. JSON that is certainly too long is not
        made.
        """
        if self._is_kept:
            return self
        if self._kept is None:
            self._kept = self._cut()
        elif self.started:
            self._kept.started = self.started
        return self._kept

    def _cut(self) -> Target:
        kept = Target.__new__(Target)
        vars(kept).update(vars(self))  # `copy` would do the same in ten calls
        kept._is_kept = True
        kept.names = tuple([name[:MOST_OF_NAME] for name in self.names])
        if not self._is_long and len(self.spec) + len(self.labels) <= MOST_KEPT:
            kept.spec, kept._message, kept._labels = self.spec, None, _shared(self._labels._json)
        else:
            kept.take_texts(NO_SPEC, NO_LABELS)
            kept.is_cut = True
        return kept

    @property
    def _is_long(self) -> bool:
        """Whether the JSON is certainly too long to be kept after the event. Makes no JSON."""
        if self._labels.is_long:
            return True
        if self._message is None:
            return False  # it is made
        linux = self._message.linux
        others = linux.resources.ByteSize() + len(linux.namespaces) * _LEAST
        return others > MOST_KEPT or _is_long(self._message.annotations)

    def complete(self, earlier: Target) -> None:
        """Fills missing values from the target of its create.

        Some runtimes leave most of them out at deletes. If they set the cgroup's path, the spec is complete, too.
        """
        self.sandbox_id = self.sandbox_id or earlier.sandbox_id
        self.is_sandbox = self.id == self.sandbox_id
        self.pid = self.pid or earlier.pid
        if not self.cgroups_path:
            self.cgroups_path = earlier.cgroups_path
            self.spec, self._message = earlier.spec, None
        if any(earlier.names[:2]):
            self.names = earlier.names
        self._labels = self._labels or earlier._labels

    def __str__(self) -> str:
        """Returns the target's name in a log line."""
        return str(self.named)

    @property
    def named(self) -> Named:
        """The names for the log."""
        return Named("sandbox" if self.is_sandbox else "container", self.id, *self.names)


def of_pod(pod: api.PodSandbox) -> Target:
    """Returns the target of a pod's events."""
    return Target(pod.id, pod.id, pod.pid, pod, pod)


def of_container(container: api.Container, pod: api.PodSandbox, labels: Labels | None = None) -> Target:
    """Returns the target of a container's events; only id and labels of its pod are needed."""
    return Target(container.id, pod.id or container.pod_sandbox_id, container.pid, container, pod, labels)


def of_event(event: str, message: Any) -> Target:
    """Returns the target of an event, given NRI's request."""
    return of_pod(message.pod) if event.endswith("PodSandbox") else of_container(message.container, message.pod)


class Extension(NamedTuple):
    """The part of a request that the original client never sent: the whole OCI spec, and further members."""

    spec: bytes
    members: bytes


def encode(
    target: Target, state: str, entry: Entry, results: Sequence[Result], extension: Extension | None = None
) -> bytes:
    """Returns the request for one plugin. An empty member is left out where Go's `omitempty` leaves it out."""
    labels = target.labels
    return b"".join(
        (
            b"{" if entry.conf is None else b'{"conf":%b,' % entry.conf,
            _head(entry.version, state, target.id, target.sandbox_id, target.pid),
            extension.spec if extension else target.spec,
            b"" if labels == NO_LABELS else b',"labels":' + labels,
            b',"results":[%b]' % b",".join([result.encode() for result in results]) if results else b"",
            extension.members if extension else b"",
            b"}",
        )
    )


@lru_cache(1)
def _head(version: str, state: str, id_: str, sandbox_id: str, pid: int) -> bytes:
    """Returns the part before `spec`, which all plugins of an event have in common."""
    quote = gojson.quote
    sandbox = f',"sandboxID":{quote(sandbox_id)}' if sandbox_id else ""
    process = f',"pid":{pid}' if pid else ""
    text = f'"version":{quote(version)},"state":"{state}","id":{quote(id_)}{sandbox}{process},"spec":'
    return gojson.marshalled(text)


def _spec(message: api.PodSandbox | api.Container) -> bytes:
    linux = message.linux
    spec = '{"resources":' + (_resources(linux.resources) if linux.HasField("resources") else "null")
    if linux.namespaces:
        paths = {namespace.type: namespace.path for namespace in linux.namespaces}
        spec += ',"namespaces":' + gojson.string_map(paths)
    if linux.cgroups_path:
        spec += ',"cgroupsPath":' + gojson.quote(linux.cgroups_path)
    if message.annotations:
        spec += ',"annotations":' + gojson.string_map(message.annotations)
    return gojson.marshalled(spec + "}")


def _resources(resources: api.LinuxResources) -> str:
    serialized = resources.SerializeToString()
    return _cached(serialized) if len(serialized) <= CACHED_LENGTH else gojson.encode(resources_from(resources))


@lru_cache(CACHED)
def _cached(serialized: bytes) -> str:
    return gojson.encode(resources_from(api.LinuxResources.FromString(serialized)))
